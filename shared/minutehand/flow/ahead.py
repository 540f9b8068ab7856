"""Ahead: what was leased before its instant begins before its owner's call returns, so that nothing begins afterwards.

Clocks differ, so nobody asks whether the instant has come: whoever sees such a lease waits for as long as it may be held. Its worker,
should it come too late, does not begin the job and gives the run back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from minutehand.flow.ports import Services
from minutehand.model.moment import SECOND
from minutehand.model.run import Run
from minutehand.runs.decisions import HELD, may_not_have_begun


def unbegun(runs: Iterable[Run], now: int) -> list[Run]:
    """Those that were leased ahead of their instant, and whose jobs may begin only now."""
    return [run for run in runs if may_not_have_begun(run, now)]


def let_begin(held: Sequence[Run], services: Services) -> None:
    """Wait until the jobs of these runs have begun, if there are any."""
    if held:
        services.wait(HELD / SECOND)
