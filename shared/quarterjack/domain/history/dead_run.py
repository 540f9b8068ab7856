"""The index of a tenant's dead runs: an entry for each, in a partition for each day."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

from quarterjack.domain.names import RunRef
from quarterjack.domain.run import RunRow, RunState
from quarterjack.domain.times import DAY, from_ms, stamp
from quarterjack.values import value


@value(kw_only=True)
class DeadRunRow:
    """One entry of the index."""

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
        """The partition of this entry."""
        return dead_owner(self.run.tenant, self.ended_at // DAY)

    @property
    def key(self) -> str:
        """Sorts by ``ended_at``. A key that is not a run's begins with ``#``."""
        return f"#{stamp(self.ended_at)}#{self.run}"

    @property
    def schedule(self) -> str | None:
        """Name of the run's schedule; None for a one-off."""
        return self.run.schedule


def dead_run_row(run: RunRow) -> DeadRunRow:
    """The entry of a run that the undertaker has recorded."""
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


def dead_day_over(owner: str) -> str:
    """The key after which a reader of a tenant's dead runs goes on with the day before that of a partition."""
    begin = (date.fromisoformat(owner.rpartition("#")[2]) - date(1970, 1, 1)).days * DAY
    return f"#{stamp(max(begin - 1, 0))}#~#~"


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
