"""Ahead: what was leased before its instant begins before its owner's call returns, so that nothing begins afterwards.

Clocks differ, so nobody asks whether the instant has come: whoever sees such a lease waits for as long as its worker may wait at most.
"""

from __future__ import annotations

from collections.abc import Iterable

from minutehand.flow.ports import Services
from minutehand.model.moment import SECOND
from minutehand.model.run import Run
from minutehand.runs.decisions import HEAD_START, may_not_have_begun


def let_begin(runs: Iterable[Run], services: Services, now: int) -> None:
    """Wait until the jobs of these runs have begun, if they were leased ahead of that and it may not have come."""
    if any(may_not_have_begun(run, now) for run in runs):
        services.wait(HEAD_START / SECOND)
