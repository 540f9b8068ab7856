"""Pytest fixtures: put ``pytest_plugins = ["quarterjack.testing.plugin"]`` into your top ``conftest.py``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from quarterjack.local.cloud import LocalCloud
from quarterjack.settings import Settings
from quarterjack.testing.cloud import fresh_settings, running_cloud


@pytest.fixture(scope="session")
def local_cloud() -> Iterator[LocalCloud]:
    """One embedded cloud for the whole test session."""
    with running_cloud() as cloud:
        yield cloud


@pytest.fixture
def local_settings(local_cloud: LocalCloud) -> Settings:
    """A new installation on the session's cloud, without data of other tests."""
    return fresh_settings(local_cloud)
