"""How long a lease lasts, and when it has lapsed.

lease        now               renewed every HEARTBEAT          lease_until         + SKEW
─────────────┼──────────────────────┼───────────────────────────────┼──────────────────┼──────────►
             │ live: no other worker may lease                      │ margin: still    │ abandoned:
             │                                                      │ refused          │ may be leased
"""

from __future__ import annotations

from minutehand.domain.run import RunRow, RunState
from minutehand.domain.times import SECOND
from minutehand.state.conditions import Compare, Condition, all_of

LEASE = 60 * SECOND  # how long a worker may be silent before another worker may take its run
HEARTBEAT = 20 * SECOND  # LEASE - HEARTBEAT > SKEW + the longest tolerated pause of a process
SKEW = 10 * SECOND  # how far clocks may differ before a live lease is stolen


def lease_end(now: int) -> int:
    """Until when (UTC ms) a lease lasts that is taken or renewed now."""
    return now + LEASE


def last_renewal(lease_until: int) -> int:
    """When (UTC ms) a lease was taken or last renewed."""
    return lease_until - LEASE


def has_live_lease(run: RunRow, now: int) -> bool:
    """Whether a worker may still hold the run by its own clock."""
    return run.state is RunState.RUNNING and (run.lease_until or 0) >= now - SKEW


def abandoned(now: int) -> Condition:
    """The guard's form of a lapsed lease: RUNNING and not ``has_live_lease``."""
    return all_of(Compare("state", "=", RunState.RUNNING), Compare("lease_until", "<", now - SKEW))
