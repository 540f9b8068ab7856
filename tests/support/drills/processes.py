"""Drills of worker processes: all of them are gone."""

from __future__ import annotations

from tests.support.drills.siege import Drill, Siege

_LEASES = 6  # for so many lease times the workers are away


def _lose_workers(siege: Siege) -> None:
    for name in siege.workers:
        siege.kill(name)
    siege.go_on(_LEASES * siege.plan.pace.lease)


def _start_workers(siege: Siege) -> None:
    assert siege.under_way > 50, f"too few runs wait to show anything: {siege.under_way}"
    siege.start_again(*siege.workers)


FLEET_GONE = Drill(
    name="workers gone",
    done=f"All workers are killed amid their runs and stay away for {_LEASES} lease times; schedules keep firing.",
    runbook="nothing-runs",
    act=_lose_workers,
    procedure=_start_workers,
    explains=frozenset({"killed"}),
)
