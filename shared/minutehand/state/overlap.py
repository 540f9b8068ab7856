"""Overlap: which runs of a schedule may go, which wait in turn, which are passed over. A slot goes in, a decision comes out.

A run may take its lease only while it is a holder of its schedule's slot, and a slot never has more holders under way than its
limit. A holder is a run *as one revision has it*: such a pair that has ended stays ended, because a run that a resumed schedule takes
over has a newer revision. So whoever saw it ended may remove it, however late.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from minutehand.domain.names import RunRef
from minutehand.domain.options import Options, Overlap
from minutehand.domain.run import TERMINAL, RunRow, RunState
from minutehand.domain.times import STAMP_DIGITS, from_ms

SLOT = "~slot"  # key of the record among the rows of its schedule
WAITS = "waits for "  # how the reason of a run that waits in turn begins


@dataclass(frozen=True, order=True)
class RunHolder:
    """A run as one revision has it."""

    key: str  # of the run among those of its schedule; sorts by its instant
    revision: int

    def is_over(self, run: RunRow | None) -> bool:
        """Whether it will never hold a lease any more, by the row that is there (None: none is)."""
        return run is None or run.revision != self.revision or run.state in TERMINAL


@dataclass(frozen=True, order=True)
class QueuedRun:
    """A run that waits in turn: live fires by their instants, a backfill's behind them."""

    behind: bool  # it belongs to a backfill
    holder: RunHolder
    until: int | None = field(default=None, compare=False)  # UTC ms of its deadline


@dataclass(frozen=True, kw_only=True)
class Slot:
    """Who holds a schedule's slot and who waits for it."""

    revision: int = 0  # the newest whose run has asked; 0: none has
    limit: int = 1  # holders at the most, as that revision has it
    holders: tuple[RunHolder, ...] = ()
    waiting: tuple[QueuedRun, ...] = ()  # in turn

    @property
    def room(self) -> int:
        return max(self.limit - len(self.holders), 0)

    def holds(self, pair: RunHolder) -> bool:
        return pair in self.holders

    def has_in_line(self, pair: RunHolder) -> bool:
        return any(waiter.holder == pair for waiter in self.waiting)

    def without(self, gone: Collection[RunHolder]) -> Slot:
        """Without these, as holders and in the line."""
        return replace(
            self,
            holders=tuple(pair for pair in self.holders if pair not in gone),
            waiting=tuple(waiter for waiter in self.waiting if waiter.holder not in gone),
        )

    def knows_newer(self, pair: RunHolder) -> bool:
        """Whether the same run is here as a newer revision has it: then the pair is one of a message that came late."""
        known = (*self.holders, *(waiter.holder for waiter in self.waiting))
        return any(other.key == pair.key and other.revision > pair.revision for other in known)

    def lined_up(self, new: QueuedRun) -> Slot:
        """With one more in the line, in its place by time; instead of the same run of an older revision."""
        others = [waiter for waiter in self.waiting if waiter.holder.key != new.holder.key]
        return replace(self, waiting=tuple(sorted([*others, new])))

    def moved_up(self) -> Slot:
        """The first of the line become holders, as far as there is room."""
        up = [waiter.holder for waiter in self.waiting[: self.room]]
        return replace(self, holders=(*self.holders, *up), waiting=self.waiting[len(up) :])

    # As the body of a record.

    def body(self) -> dict[str, Any]:
        """JSON-able."""
        return {
            "revision": self.revision,
            "limit": self.limit,
            "holders": [[pair.key, pair.revision] for pair in self.holders],
            "waiting": [[w.holder.key, w.holder.revision, int(w.behind), w.until] for w in self.waiting],
        }

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Slot:
        """The reverse of ``body``."""
        waiting = [QueuedRun(bool(behind), RunHolder(key, rev), until) for key, rev, behind, until in body["waiting"]]
        return cls(
            revision=body["revision"],
            limit=body["limit"],
            holders=tuple(RunHolder(*holder) for holder in body["holders"]),
            waiting=tuple(waiting),
        )


def governed(slot: Slot, revision: int, options: Options, present: Iterable[RunRow]) -> Slot:
    """The slot under a newer revision: with its limit, and with what earlier ones, under whatever policy, have under way."""
    under_way = {RunHolder(run.ref.key, run.revision) for run in present if _goes(run) and run.revision < revision}
    new = sorted(under_way - set(slot.holders))
    return replace(slot, revision=revision, limit=options.max_running or 1, holders=(*slot.holders, *new))


def _goes(run: RunRow) -> bool:
    return run.state not in TERMINAL and run.state is not RunState.QUEUED


class Turn(StrEnum):
    """What a run that asks for its turn does."""

    GO = "go"  # it is a holder: it may take its lease
    WAIT = "wait"  # it is in the line, and its message may go
    SKIP = "skip"  # it is SKIPPED
    CANCEL = "cancel"  # it asks the holders to end, takes the place of those in the line, and waits
    TERMINATE = "terminate"  # it ends the holders, and asks again


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What becomes of a run that asks."""

    turn: Turn
    slot: Slot  # to be written before anything else is done, if it is another one than before
    others: tuple[RunHolder, ...] = ()  # CANCEL, TERMINATE: the holders
    replaced: tuple[RunHolder, ...] = ()  # CANCEL: those in the line whose place it takes
    reason: str = ""  # SKIP, WAIT, CANCEL: for the run's row


def decide(slot: Slot, me: QueuedRun, options: Options) -> Decision:
    """The turn of a run. Of the slot's holders none has ended, as far as it is full; and none of those who move up."""
    if slot.holds(me.holder) or slot.knows_newer(
        me.holder
    ):  # a message of an older revision: the refused lease says so
        return Decision(turn=Turn.GO, slot=slot)
    moved = slot.lined_up(me).moved_up()
    if moved.holds(me.holder):
        return Decision(turn=Turn.GO, slot=moved)
    if slot.has_in_line(me.holder) or me.behind:
        return _wait(moved)
    return _by_policy(moved, me, options)


def forced_to_wait(slot: Slot, me: QueuedRun) -> Decision:
    """A run that has been under way and is no holder, because somebody removed the record: it is not passed over, it waits."""
    return _wait(slot.lined_up(me))


def _by_policy(moved: Slot, me: QueuedRun, options: Options) -> Decision:
    """A live run that finds no room; ``moved`` has it in the line."""
    front = [waiter.holder for waiter in moved.waiting if not waiter.behind and waiter.holder != me.holder]
    why = _why_not(moved, me.holder, front, options)
    if why is not None:
        return Decision(turn=Turn.SKIP, slot=moved.without([me.holder]), reason=f"overlap: {why}")
    if options.overlap is Overlap.TERMINATE_OTHER:
        return Decision(turn=Turn.TERMINATE, slot=moved.without([me.holder]), others=moved.holders)
    if options.overlap is Overlap.CANCEL_OTHER:
        return replace(_wait(moved.without(front)), turn=Turn.CANCEL, others=moved.holders, replaced=tuple(front))
    return _wait(moved)


def _why_not(moved: Slot, me: RunHolder, front: Sequence[RunHolder], options: Options) -> str | None:
    """Why it is SKIPPED; None if it is not."""
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


def _wait(slot: Slot) -> Decision:
    return Decision(turn=Turn.WAIT, slot=slot, reason=f"{WAITS}{_named(slot)} to end")


def _named(slot: Slot) -> str:
    first, more = _run_of(slot.holders[0]), len(slot.holders) - 1
    return first if not more else f"{first} and {more} more"


def _run_of(pair: RunHolder) -> str:
    """In words, for the rows of other runs."""
    return f"the run of {from_ms(int(pair.key[:STAMP_DIGITS])):%Y-%m-%dT%H:%M:%SZ}"


def in_its_place(later: RunHolder) -> str:
    """Why a run ends, or never starts, for a later one."""
    return f"{_run_of(later)}, a later one, is in its place"


def waits_in_turn(run: RunRow) -> bool:
    """Whether a run waits for others of its schedule to end: its slot knows it, and no message is on its way."""
    return run.state is RunState.QUEUED and (run.reason or "").startswith(WAITS)


def ref_of(owner: str, pair: RunHolder) -> RunRef:
    """The run of a pair."""
    return RunRef(owner, pair.key)
