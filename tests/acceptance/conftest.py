"""One installation a test, on the session's local cloud."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from quarterjack.local.cloud import LocalCloud
from quarterjack.testing.cloud import fresh_settings

from tests.support.installation.scene import Scene


@pytest.fixture
def scene(local_cloud: LocalCloud, tmp_path: Path) -> Iterator[Scene]:
    staged = Scene(local_cloud, fresh_settings(local_cloud), tmp_path)
    with staged.cleanup:
        yield staged
