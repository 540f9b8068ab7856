"""Dead runs as their index keeps them: one partition a tenant and UTC day, so that what failed lately is a query or two.

What was LOST or EXPIRED failed for good as well, and is listed beside the dead.

The key follows from the run's own row, which never changes once it is buried: recording a run again puts the same line.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from minutehand.domain.names import RunRef
from minutehand.domain.run import RunRow, RunState
from minutehand.domain.times import DAY, from_ms, stamp

FAILED = frozenset({RunState.DEAD, RunState.LOST, RunState.EXPIRED})  # ended without what its owner wanted of it


@dataclass(frozen=True, kw_only=True)
class DeadRunRow:
    """One line of the index."""

    run: RunRef  # which
    job: str  # name of its job
    ended_at: int  # UTC ms at which it died
    fence: int  # of its last lease
    attempts: int  # begun
    reason: str  # why it is dead
    state: RunState = RunState.DEAD  # or LOST, EXPIRED
    error_type: str | None = None  # class of the last failure
    error: str | None = None  # its message, bounded
    redriven_as: str | None = None  # id of the run that repeats it

    @property
    def owner(self) -> str:
        """The partition that it lies in."""
        return dead_owner(self.run.tenant, self.ended_at // DAY)

    @property
    def key(self) -> str:
        """Sorts by time of death. Like all that is no run, it begins with ``#``."""
        return f"#{stamp(self.ended_at)}#{self.run}"

    @property
    def schedule(self) -> str | None:
        """Name of the run's schedule; None for a one-off."""
        return None if self.run.is_one_off else self.run.owner.partition("/")[2]


def dead_run_row(run: RunRow) -> DeadRunRow:
    """The line for a run that the undertaker has buried."""
    assert run.ended_at is not None
    return DeadRunRow(
        run=run.ref,
        job=run.job,
        ended_at=run.ended_at,
        fence=run.fence,
        attempts=run.attempt,
        reason=run.reason or "unknown",
        state=run.state,
        error_type=run.failure.kind if run.failure else None,
        error=run.failure.message if run.failure else None,
    )


def dead_owner(tenant: str, day: int) -> str:
    """The partition of a tenant's dead runs of one day (days since 1970, UTC). No tenant or schedule has ``#`` in its name."""
    return f"{tenant}#dead#{from_ms(day * DAY).date().isoformat()}"


def parse_dead_key(key: str) -> tuple[int, RunRef]:
    """Time of death (UTC ms) and run behind a key."""
    _, at, owner, fire = key.split("#")
    return int(at), RunRef(owner, fire)


def partitions(tenant: str, *, after: int, upto: int, before: str | None) -> Iterator[tuple[str, str, str]]:
    """Where the runs lie that died in ``(after, upto]`` (UTC ms): partition, first and last key, the newest day first.

    ``before`` is a key to go on from; it lies on the bound itself, so whoever reads passes over it.
    """
    if before is not None:
        upto = min(upto, parse_dead_key(before)[0])
    oldest = max(after + 1, 0)
    if oldest > upto:
        return
    first, last = f"#{stamp(oldest)}", f"#{stamp(upto)}$"  # "$" comes after "#"
    for day in range(upto // DAY, oldest // DAY - 1, -1):
        yield dead_owner(tenant, day), first, last if before is None else min(last, before)
