"""Steps that many contract tests begin with."""

from __future__ import annotations

from typing import Any

from quarterjack.domain.run import RunRow
from quarterjack.ports.services import Services
from quarterjack.state.lease import lease
from quarterjack.state.transition import Transition
from quarterjack.stores.ledger import TransitionResult

from tests.support.builders import NOON

HOUR = 3_600_000


def try_lease(services: Services, run: RunRow, *, now: int | None = None, **changes: Any) -> TransitionResult:
    """Lease a run at its time, with room for three attempts."""
    given: dict[str, Any] = {
        "revision": run.revision,
        "now": run.not_before if now is None else now,
        "token": "t1",
        "worker": "w1",
        "max_attempts": 3,
        "steal": True,
    }
    return services.ledger.move(run.ref, lease(**(given | changes)))


def first_lease(now: int = NOON, **changes: Any) -> Transition:
    """As batches of leases are made of."""
    given: dict[str, Any] = {
        "revision": 1,
        "now": now,
        "token": "t1",
        "worker": "w1",
        "max_attempts": 3,
        "steal": False,
    }
    return lease(**(given | changes), first=True)


def lease_of(services: Services, run: RunRow, **changes: Any) -> RunRow:
    """The run as leased."""
    moved = try_lease(services, run, **changes)
    assert moved.applied
    assert moved.run is not None
    return moved.run


__all__ = ["HOUR", "NOON", "first_lease", "lease_of", "try_lease"]
