"""Agenda entries: the one kind of timer in this system."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from minutehand.domain.names import RunRef
from minutehand.domain.quick import quick
from minutehand.domain.times import stamp


class EntryKind(StrEnum):
    """What the ticker does with an entry when it is due."""

    CHAIN = "chain"  # materialise the revision's fires and leave the next entry
    RUN = "run"  # send the run's message if it still waits
    WATCH = "watch"  # declare an at-most-once run LOST if its lease has ended
    RESUME = "resume"  # end a pause that has an end
    BACKFILL = "backfill"  # look after a backfill: what crashed workers left, and its end
    NOTICE = "notice"  # tell an owner of an incident, or of its end
    SLOT = "slot"  # let runs that wait for others of their schedule move up
    EXPECT = "expect"  # look whether a schedule had a success in time


@quick
@dataclass(frozen=True, kw_only=True)
class AgendaEntry:
    """One line of the agenda. It stays until it has been handled."""

    shard: int  # the partition it lies in
    due: int  # UTC ms at which it must have been looked at
    kind: EntryKind  # what to do then
    id: str  # chain: revision id; run: run id; watch: run id and lease token
    after: int = 0  # chain: fires up to this UTC ms are claimed already
    failures: int = 0  # how often handling it failed for a reason of its own
    created_at: int = 0  # run and watch: UTC ms at which it was put
    queue: str | None = (
        None  # chain and run: the declared queue that its messages go to; None: the default one, or not said
    )

    @cached_property
    def key(self) -> str:
        """``due#kind#id``: sorts by time, and merges chains of one revision that meet."""
        return f"{stamp(self.due)}#{self.kind}#{self.id}"

    @property
    def run(self) -> RunRef:
        """The run that a run or watch entry is about."""
        owner, key = self.id.split("#")[:2]
        return RunRef(owner, key)


def parse_entry_key(key: str) -> tuple[int, EntryKind, str]:
    """The due time, kind and id behind an entry's key."""
    due, kind, identity = key.split("#", 2)
    return int(due), EntryKind(kind), identity
