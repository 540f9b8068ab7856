"""Ahead: what was leased before its instant begins before its owner's call returns, so that nothing begins afterwards.

Clocks differ, so nobody asks whether the instant has come: whoever sees such a lease waits for as long as it may be held. Its worker,
should it come too late, does not begin the job and gives the run back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from minutehand.domain.run import RunRow
from minutehand.domain.times import SECOND
from minutehand.ports.services import Services
from minutehand.state.start import HELD, may_not_have_begun


def held_leases(runs: Iterable[RunRow], now: int) -> list[RunRow]:
    """Those that were leased ahead of their instant, and whose jobs may begin only now."""
    return [run for run in runs if may_not_have_begun(run, now)]


def wait_for_held(held: Sequence[RunRow], services: Services) -> None:
    """Wait until the jobs of these runs have begun, if there are any."""
    if held:
        services.wait(HELD / SECOND)
