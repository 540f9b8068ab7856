"""The option ``overlap``: which runs of a schedule may start, which wait for their turn, and which are skipped.

A run may be leased only while it is a holder of its schedule's turns, and there are never more unended holders than its limit. A holder
is a run with its revision. A pair of run and revision that has ended stays ended, because a resumed schedule takes the run over with a
newer revision. So every process that saw the pair ended may remove it, however late.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from quarterjack.domain.names import RunRef
from quarterjack.domain.options import Options, Overlap
from quarterjack.domain.run import RunRow, RunState
from quarterjack.domain.times import STAMP_DIGITS, from_ms
from quarterjack.values import replace

TURNS = "~turns"  # key of the record among the rows of its schedule
WAITS = "waits for "  # the reason of a run that waits for its turn begins so


@dataclass(frozen=True, order=True)
class RunHolder:
    key: str  # of the run within its schedule; sorts by its instant
    revision: int

    def is_over(self, run: RunRow | None) -> bool:
        """Whether the pair can never hold a lease again, by the run's row (None: there is no row)."""
        return run is None or run.revision != self.revision or run.is_terminal


@dataclass(frozen=True, order=True)
class QueuedRun:
    """A run that waits for its turn: live fires by their instants, then the runs of backfills."""

    behind: bool  # it belongs to a backfill
    holder: RunHolder
    until: int | None = field(default=None, compare=False)  # UTC ms of its deadline


@dataclass(frozen=True, kw_only=True)
class Turns:
    """The holders of a schedule's turns, and the runs that wait for it."""

    revision: int = 0  # the newest whose run has asked for its turn; 0: none
    limit: int = 1  # the most holders, by that revision
    holders: tuple[RunHolder, ...] = ()
    waiting: tuple[QueuedRun, ...] = ()  # in the order of their turns

    @property
    def room(self) -> int:
        return max(self.limit - len(self.holders), 0)

    def without(self, gone: Collection[RunHolder]) -> Turns:
        """Without these pairs, as holders and in the queue."""
        return replace(
            self,
            holders=tuple(pair for pair in self.holders if pair not in gone),
            waiting=tuple(waiter for waiter in self.waiting if waiter.holder not in gone),
        )

    def enqueued(self, new: QueuedRun) -> Turns:
        """With one more run in the queue, sorted by time; it replaces the same run of an older revision."""
        others = (waiter for waiter in self.waiting if waiter.holder.key != new.holder.key)
        return replace(self, waiting=tuple(sorted([*others, new])))

    def moved_up(self) -> Turns:
        up = [waiter.holder for waiter in self.waiting[: self.room]]
        return replace(self, holders=(*self.holders, *up), waiting=self.waiting[len(up) :])

    def body(self) -> dict[str, Any]:
        """The body of a record, as JSON values."""
        return {
            "revision": self.revision,
            "limit": self.limit,
            "holders": [[pair.key, pair.revision] for pair in self.holders],
            "waiting": [[w.holder.key, w.holder.revision, int(w.behind), w.until] for w in self.waiting],
        }

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Turns:
        waiting = (QueuedRun(bool(behind), RunHolder(key, rev), until) for key, rev, behind, until in body["waiting"])
        return cls(
            revision=body["revision"],
            limit=body["limit"],
            holders=tuple(RunHolder(*holder) for holder in body["holders"]),
            waiting=tuple(waiting),
        )


def governed(turns: Turns, revision: int, options: Options, present: Iterable[RunRow]) -> Turns:
    """The turns under a newer revision: with its limit, and with the started runs of earlier revisions as holders."""
    started = (run for run in present if not run.is_terminal and run.state is not RunState.QUEUED)
    under_way = {RunHolder(run.ref.key, run.revision) for run in started if run.revision < revision}
    new = sorted(under_way - set(turns.holders))
    return replace(turns, revision=revision, limit=options.max_running or 1, holders=(*turns.holders, *new))


class TurnAnswer(StrEnum):
    """The answer to a run that asks for its turn."""

    GO = "go"  # it is a holder: it may take its lease
    WAIT = "wait"  # it is in the queue, and its message may be deleted
    SKIP = "skip"  # it is SKIPPED
    CANCEL = "cancel"  # it asks the holders to end, replaces the runs in the queue, and waits
    TERMINATE = "terminate"  # it ends the holders, and asks again


@dataclass(frozen=True, kw_only=True)
class Decision:
    """The decision on a run that asks for its turn."""

    answer: TurnAnswer
    turns: Turns  # to be written first, if it differs from the stored turns
    others: tuple[RunHolder, ...] = ()  # CANCEL, TERMINATE: the holders
    replaced: tuple[RunHolder, ...] = ()  # CANCEL: the runs in the queue that it replaces
    reason: str = ""  # SKIP, WAIT, CANCEL: for the run's row


def decide(turns: Turns, me: QueuedRun, options: Options) -> Decision:
    """The turn of a run. The caller has removed ended holders if all turns are taken, and ended runs that would move up."""
    queued = [waiter.holder for waiter in turns.waiting]
    # If the turns have a newer revision of the run, this is an old message: its lease will be refused.
    newer = any(
        other.key == me.holder.key and other.revision > me.holder.revision for other in (*turns.holders, *queued)
    )
    if newer or me.holder in turns.holders:
        return Decision(answer=TurnAnswer.GO, turns=turns)
    moved = turns.enqueued(me).moved_up()
    if me.holder in moved.holders:
        return Decision(answer=TurnAnswer.GO, turns=moved)
    if me.holder in queued or me.behind:
        return _waiting(moved)
    return _by_policy(moved, me, options)


def forced_to_wait(turns: Turns, me: QueuedRun) -> Decision:
    """A started run that is no holder, because the record of the turns was removed: it is not skipped, it waits."""
    return _waiting(turns.enqueued(me))


def _by_policy(moved: Turns, me: QueuedRun, options: Options) -> Decision:
    """A live run that finds no room; ``moved`` has it in the queue."""
    front = [waiter.holder for waiter in moved.waiting if not waiter.behind and waiter.holder != me.holder]
    why = _skip_reason(moved, me.holder, front, options)
    if why is not None:
        return Decision(answer=TurnAnswer.SKIP, turns=moved.without([me.holder]), reason=f"overlap: {why}")
    if options.overlap is Overlap.TERMINATE_OTHER:
        return Decision(answer=TurnAnswer.TERMINATE, turns=moved.without([me.holder]), others=moved.holders)
    if options.overlap is Overlap.CANCEL_OTHER:
        return replace(
            _waiting(moved.without(front)), answer=TurnAnswer.CANCEL, others=moved.holders, replaced=tuple(front)
        )
    return _waiting(moved)


def _skip_reason(moved: Turns, me: RunHolder, front: Sequence[RunHolder], options: Options) -> str | None:
    """Why the run is SKIPPED; None if it is not."""
    later = [pair for pair in (*moved.holders, *front) if pair.key > me.key]
    match options.overlap:
        case Overlap.SKIP:
            return f"{_named(moved)} still goes"
        case Overlap.BUFFER_ONE if front:
            return f"{_named(moved)} still goes, and {_run_of(front[0])} waits already"
        case Overlap.ALLOW | Overlap.BUFFER_ALL if len(front) >= options.buffer:
            return f"{_named(moved)} still goes, and {len(front)} runs wait already"
        case Overlap.CANCEL_OTHER | Overlap.TERMINATE_OTHER if later:
            return in_its_place(later[0])
    return None


def _waiting(turns: Turns) -> Decision:
    return Decision(answer=TurnAnswer.WAIT, turns=turns, reason=f"{WAITS}{_named(turns)} to end")


def _named(turns: Turns) -> str:
    first, more = _run_of(turns.holders[0]), len(turns.holders) - 1
    return first if not more else f"{first} and {more} more"


def _run_of(pair: RunHolder) -> str:
    """A text for the rows of other runs."""
    return f"the run of {from_ms(int(pair.key[:STAMP_DIGITS])):%Y-%m-%dT%H:%M:%SZ}"


def in_its_place(later: RunHolder) -> str:
    """The reason of a run that ends, or never starts, because of a later one."""
    return f"{_run_of(later)}, a later one, is in its place"


def waits_in_turn(run: RunRow) -> bool:
    """Whether a run waits for other runs of its schedule to end: its schedule's turns have it, and it has no message."""
    return run.state is RunState.QUEUED and (run.reason or "").startswith(WAITS)


def ref_of(owner: str, pair: RunHolder) -> RunRef:
    return RunRef(owner, pair.key)
