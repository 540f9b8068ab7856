"""Agenda entries: all timers are of this one kind."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from minutehand.domain.names import RunRef
from minutehand.domain.quick import quick
from minutehand.domain.times import stamp


class EntryKind(StrEnum):
    """The action of the ticker when an entry is due."""

    CHAIN = "chain"  # claim the revision's fires and put the next entry
    RUN = "run"  # send the run's message if it still waits
    WATCH = "watch"  # declare an at-most-once run LOST if its lease has ended
    RESUME = "resume"  # end a pause that has an end
    BACKFILL = "backfill"  # advance a backfill after a worker's crash, and end it
    NOTICE = "notice"  # notify an owner of an incident, or of its end
    SLOT = "slot"  # start runs that waited for other runs of their schedule
    EXPECT = "expect"  # check that a schedule had a success in time


@quick
@dataclass(frozen=True, kw_only=True)
class AgendaEntry:
    """One timer. It stays in the agenda until the ticker has handled it."""

    shard: int  # its partition
    due: int  # UTC ms
    kind: EntryKind  # the action
    id: str  # chain: revision id; run: run id; watch: run id and lease token
    after: int = 0  # chain: fires up to this UTC ms are claimed already
    failures: int = 0  # how often its own data made handling fail
    created_at: int = 0  # run and watch: UTC ms of the put
    queue: str | None = None  # chain and run: the declared queue of its messages; None: the default one, or unknown

    @cached_property
    def key(self) -> str:
        """``due#kind#id``: sorts by time; two chains of one revision that meet become one."""
        return f"{stamp(self.due)}#{self.kind}#{self.id}"

    @property
    def run(self) -> RunRef:
        """The run of a run or watch entry."""
        owner, key = self.id.split("#")[:2]
        return RunRef(owner, key)


def parse_entry_key(key: str) -> tuple[int, EntryKind, str]:
    """The due time, kind and id in an entry's key."""
    due, kind, identity = key.split("#", 2)
    return int(due), EntryKind(kind), identity
