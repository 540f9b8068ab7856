"""The examples of the documentation, made to run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from quarterjack import jobs as jobs_module
from quarterjack.local.processes import variables
from quarterjack.settings import Settings


@contextmanager
def beginning(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A reader's fresh start: an empty folder, no job registered."""
    known = set(sys.modules)
    monkeypatch.chdir(place)
    monkeypatch.syspath_prepend(place)
    monkeypatch.setattr(jobs_module.default_registry, "_jobs", {})
    monkeypatch.setattr(jobs_module.default_registry, "_declarations", [])
    monkeypatch.setattr(jobs_module.default_registry, "_queues", {})
    monkeypatch.setattr(jobs_module.default_registry, "around", ())
    yield
    for name in set(sys.modules) - known:
        if str(getattr(sys.modules[name], "__file__", None) or "").startswith(str(place)):
            del sys.modules[name]


def connect(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """What ``quarterjack local`` tells a reader to export."""
    where = {"AWS_ENDPOINT_URL": str(settings.endpoint), "AWS_REGION": str(settings.region)}
    for name, value in (variables(settings) | where).items():
        monkeypatch.setenv(name, value)
