"""Every role of a night reads the same clock, which the night moves."""

from __future__ import annotations

import importlib

import pytest
from quarterjack.testing import ManualClock

_MODULES = (
    "functions.ticker.handler",
    "functions.undertaker.handler",
    "functions.auditor.handler",
    "functions.worker.handler",
    "quarterjack.daemon.worker_shell",
    "quarterjack.daemon.roles",
)


def under(clock: ManualClock, patch: pytest.MonkeyPatch) -> None:
    """Put the clock in the place of the system's."""
    patch.setenv("POWERTOOLS_SERVICE_NAME", "quarterjack")  # read when the functions are imported first
    for name in _MODULES:
        patch.setattr(importlib.import_module(name), "system_clock", clock)
