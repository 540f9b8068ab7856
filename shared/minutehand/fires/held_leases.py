"""Runs that were leased before their instant: a stop waits until their jobs have begun, so that none begins after the stop returned.

Clocks differ, so a stop does not compare the instant with its own clock: it waits for as long as such a lease may be held. A worker that
is too late does not begin the job and releases the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from minutehand.domain.run import RunRow
from minutehand.domain.times import SECOND
from minutehand.ports.services import Services
from minutehand.state.start import HELD, may_not_have_begun


def held_leases(runs: Iterable[RunRow], now: int) -> list[RunRow]:
    """The runs that were leased before their instant, and whose jobs may not have begun."""
    return [run for run in runs if may_not_have_begun(run, now)]


def wait_for_held(held: Sequence[RunRow], services: Services) -> None:
    """Wait until the jobs of these runs have begun or will never begin."""
    if held:
        services.wait(HELD / SECOND)
