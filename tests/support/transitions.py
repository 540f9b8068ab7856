"""Changes of runs' rows made by hand, as a stream would report them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from quarterjack.domain.history.run_change import RunChange
from quarterjack.domain.run import RunRow, RunState
from quarterjack.domain.times import SECOND
from quarterjack.historian.context import HistorianContext
from quarterjack.ports.services import Services

from tests.support.builders import a_run


def life(run: RunRow | None = None, *, sequence: int = 1, lasts: int = 5 * SECOND, **end: Any) -> list[RunChange]:
    """The changes of a run that is claimed, leased at its time and ended; ``sequence`` is that of the first."""
    claimed = run or a_run()
    leased = replace(
        claimed,
        state=RunState.RUNNING,
        fence=1,
        attempt=1,
        worker="w1",
        started_at=claimed.not_before,
        leased_at=claimed.not_before,
        lease_token="t",
    )
    over = claimed.not_before + lasts
    changes: dict[str, Any] = {"state": RunState.SUCCEEDED, "ended_at": over, "lease_token": None} | end
    ended = replace(leased, **changes)
    rows = [(claimed.created_at, None, claimed), (claimed.not_before, claimed, leased), (over, leased, ended)]
    return [
        RunChange(ref=claimed.ref, sequence=sequence + place, at=at // SECOND * SECOND, old=old, new=new)
        for place, (at, old, new) in enumerate(rows)
    ]


def heartbeat(change: RunChange, *, sequence: int) -> RunChange:
    """A renewal of the lease that ``change`` took."""
    assert change.new is not None
    renewed = replace(change.new, lease_until=(change.new.lease_until or 0) + 1, progress=0.5)
    return replace(change, sequence=sequence, old=change.new, new=renewed)


def context_of(services: Services, batch: str = "shard-1", *, now: int = 0) -> HistorianContext:
    return HistorianContext(services=services, now=now, batch=batch)


def in_batches(changes: list[RunChange], most: int) -> Iterator[tuple[str, list[RunChange]]]:
    """Batches with their names."""
    for start in range(0, len(changes), most):
        yield f"shardId-000-{changes[start].sequence:030d}", changes[start : start + most]
