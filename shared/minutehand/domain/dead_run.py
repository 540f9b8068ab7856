"""The index of dead runs: one partition for each tenant and UTC day, so that the recent failures are one or two queries.

LOST and EXPIRED runs failed for good as well and are in the index too.

The key follows from the run's row, which is final when the undertaker records it: recording a run twice puts the same line.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from minutehand.domain.names import RunRef
from minutehand.domain.run import RunRow, RunState
from minutehand.domain.times import DAY, from_ms, stamp

FAILED = frozenset({RunState.DEAD, RunState.LOST, RunState.EXPIRED})  # failed for good


@dataclass(frozen=True, kw_only=True)
class DeadRunRow:
    """One line of the index."""

    run: RunRef  # its key
    job: str  # name of its job
    ended_at: int  # UTC ms
    fence: int  # of its last lease
    attempts: int  # begun
    reason: str  # why it is dead
    state: RunState = RunState.DEAD  # or LOST, EXPIRED
    error_type: str | None = None  # class of the last failure
    error: str | None = None  # its message, bounded
    redriven_as: str | None = None  # id of the run that repeats it

    @property
    def owner(self) -> str:
        """The partition of this line."""
        return dead_owner(self.run.tenant, self.ended_at // DAY)

    @property
    def key(self) -> str:
        """Sorts by ``ended_at``. A key that is not a run's begins with ``#``."""
        return f"#{stamp(self.ended_at)}#{self.run}"

    @property
    def schedule(self) -> str | None:
        """Name of the run's schedule; None for a one-off."""
        return None if self.run.is_one_off else self.run.owner.partition("/")[2]


def dead_run_row(run: RunRow) -> DeadRunRow:
    """The line of a run that the undertaker has recorded."""
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
    """The partition of a tenant's dead runs of one day (days since 1970, UTC). ``#`` is in no tenant's or schedule's name."""
    return f"{tenant}#dead#{from_ms(day * DAY).date().isoformat()}"


def parse_dead_key(key: str) -> tuple[int, RunRef]:
    """End (UTC ms) and run in a key."""
    _, at, owner, fire = key.split("#")
    return int(at), RunRef(owner, fire)


def partitions(tenant: str, *, after: int, upto: int, before: str | None) -> Iterator[tuple[str, str, str]]:
    """The partitions of runs that ended in ``(after, upto]`` (UTC ms), each with its first and last key, the newest day first.

    ``before`` is the key to continue from; the range includes it, so the reader must skip it.
    """
    if before is not None:
        upto = min(upto, parse_dead_key(before)[0])
    oldest = max(after + 1, 0)
    if oldest > upto:
        return
    first, last = f"#{stamp(oldest)}", f"#{stamp(upto)}$"  # "$" comes after "#"
    for day in range(upto // DAY, oldest // DAY - 1, -1):
        yield dead_owner(tenant, day), first, last if before is None else min(last, before)
