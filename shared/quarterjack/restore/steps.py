"""What the steps of a restore share: its data, one step, and what the archive knows.

``plan`` and ``run`` go through the same steps. A step is decided when it is reached, and ``run`` applies it then. Each write is
conditional on what was read, and what is done gives no step: a restore that died is begun again and goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from enum import StrEnum

from quarterjack.domain.history.transition_line import TransitionLine
from quarterjack.domain.names import RunRef
from quarterjack.domain.times import HOUR
from quarterjack.errors import Conflict, Misconfigured
from quarterjack.historian.archive import ArchiveFilter, archived_tenants, read_archive
from quarterjack.ports.services import Services
from quarterjack.restore.fates import latest
from quarterjack.values import value


class StepKind(StrEnum):
    """What a step does."""

    PAUSE_BACKFILL = "pause-backfill"  # its owner resumes or cancels it
    END_RUN = "end-run"  # as the archive says
    HOLD_RUN = "hold-run"  # its owner decides: retry or cancel
    HOLD_FIRE = "hold-fire"  # likewise: a fire that has no row
    SKIP_FIRES = "skip-fires"  # more than can be decided one by one: one row stands for them
    LOSE_RUN = "lose-run"  # its payload is in no table: LOST
    KEEP_RUN = "keep-run"  # it waits for a later time
    MEND_SCHEDULE = "mend-schedule"  # head and revision come from different times
    BEGIN_SCHEDULE = "begin-schedule"  # its next fire is the first one after the restore
    LOSE_SCHEDULE = "lose-schedule"  # its definition is in no table
    PUT_TIMER = "put-timer"  # the end of a pause
    REMOVE_CHAIN = "remove-chain"  # an entry of a revision that is over


ASKS = (StepKind.HOLD_RUN, StepKind.HOLD_FIRE, StepKind.SKIP_FIRES, StepKind.PAUSE_BACKFILL)  # the owner decides
LOSES = (StepKind.LOSE_RUN, StepKind.LOSE_SCHEDULE)


@value(kw_only=True)
class RestoreStep:
    """One step, decided and not yet applied."""

    kind: StepKind
    target: str  # id of a run, "tenant/name" of a schedule, "tenant/name#backfill/id", or the key of an entry
    why: str
    apply: Callable[[], object]


@value(kw_only=True)
class Restore:
    """One restore, as it was begun."""

    point: int  # UTC ms: the earliest time that a table was restored to
    until: int  # UTC ms at which it began: what was due until then is the past
    epoch: int


Known = Mapping[RunRef, TransitionLine]  # the last transition of each run


def known_runs(restore: Restore, services: Services) -> Known:
    """The last transition that the archive has of each run, of those since the restored time. Raises Misconfigured, Unavailable."""
    store = services.archive
    if not store.is_on:
        raise Misconfigured(
            "QUARTERJACK_BUCKET is not set, so nothing tells which runs ended after the restored time; "
            "set it to the stack's BucketName"
        )
    found: dict[RunRef, TransitionLine] = {}
    wanted = ArchiveFilter(since=restore.point - HOUR, until=restore.until + 1)
    for tenant in sorted(archived_tenants(store, wanted.since, wanted.until)):
        for line in read_archive(store, tenant, wanted):
            found[line.ref] = latest(found.get(line.ref), line)
    return found


def must(applied: Iterable[bool], target: str) -> None:
    """Raises Conflict unless all writes of a step took effect: somebody else writes to the tables."""
    if not all(applied):
        raise Conflict(
            f"{target}: it was changed while it was restored; stop all processes on these tables, and run it again"
        )


def accepted(keys: Collection[str], wanted: Collection[str], target: str) -> None:
    """Raises Conflict unless the agenda accepted all entries."""
    must((key in keys for key in wanted), target)
