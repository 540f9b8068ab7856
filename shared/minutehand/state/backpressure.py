"""Backpressure, decided: whether the workers of a queue get on with what they are sent, and what becomes of fires that wait for them. Pure.

A spell is a time during which a queue's entries are held back in the agenda. What was due in one was not missed: had it been sent, it
would have waited in the queue, late and not lost. So no catch-up policy passes it over, however long the spell was, and spells are
remembered for as long as a fire could still be judged (``steps.plan_step``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from minutehand.domain.times import MINUTE, SECOND

EASED = 0.5  # of a limit: a queue that is held back is let go below it, so that it does not flap
FLOOR = 1_000  # messages that wait in a stripe before anybody asks for how long: fewer are worked off in a second
GRACE = 5 * MINUTE  # after a spell: until every ticker has seen its end and come to what it held back
_REJOINED = 10 * MINUTE  # a spell that begins so soon after another goes on with it
_REMEMBERED = 16  # spells of a queue; of more, the two oldest become one, which excuses more and never less


@dataclass(frozen=True, kw_only=True)
class Limits:
    """When the ticker holds a queue back."""

    depth: int = 50_000  # messages of one stripe that wait or are at hand: SQS gives out 120,000; 0: never hold back
    age: int = 600 * SECOND  # ms for which what is due has waited for a worker


@dataclass(frozen=True, kw_only=True)
class QueueDepth:
    """What one stripe holds, about."""

    waiting: int  # messages that a worker could have
    at_hand: int  # that one has
    delayed: int = 0  # that wait for their time

    @property
    def depth(self) -> int:
        """What counts against the limit. What waits for its time is no backlog."""
        return self.waiting + self.at_hand


@dataclass(frozen=True, kw_only=True)
class HoldPeriod:
    """A time during which a queue was held back."""

    since: int  # UTC ms
    until: int | None = None  # UTC ms; None: it still is


@dataclass(frozen=True, kw_only=True)
class QueueHolds:
    """What is remembered of one queue."""

    spells: tuple[HoldPeriod, ...] = ()  # in order of time
    why: str = ""  # of the last: "depth" or "age"
    depth: int = 0  # of its fullest stripe, when that began
    age: int | None = None  # ms, likewise, if it was asked for

    @property
    def now(self) -> HoldPeriod | None:
        """The spell that goes on, if one does."""
        return self.spells[-1] if self.spells and self.spells[-1].until is None else None

    def begun(self, now: int, why: str, depth: int, age: int | None) -> QueueHolds:
        """With a spell from now on, or its last one going on."""
        kept = self.spells
        last = kept[-1] if kept else None
        if last is not None and last.until is not None and now - last.until < _REJOINED:
            kept = (*kept[:-1], HoldPeriod(since=last.since))
        else:
            kept = (*kept, HoldPeriod(since=now))
        if len(kept) > _REMEMBERED:
            kept = (HoldPeriod(since=kept[0].since, until=kept[1].until), *kept[2:])
        return QueueHolds(spells=kept, why=why, depth=depth, age=age)

    def ended(self, now: int) -> QueueHolds:
        """With its spell over."""
        return replace(self, spells=(*self.spells[:-1], replace(self.spells[-1], until=now)))


def full(loads: Sequence[QueueDepth]) -> QueueDepth | None:
    """The fullest stripe; None if nothing is known of any."""
    return max(loads, key=lambda load: load.depth, default=None)


def asks_for_age(loads: Sequence[QueueDepth]) -> bool:
    """Whether so much waits that it matters for how long."""
    return any(load.waiting >= FLOOR for load in loads)


def patience(limits: Limits, *, held: bool) -> int:
    """For how long (ms) what is due may wait: less where it was too long already."""
    return int(limits.age * EASED) if held else limits.age


def reason_to_hold(load: QueueDepth, age: int | None, limits: Limits, *, held: bool) -> str | None:
    """Why a queue is held back from now on, or goes on to be; None: it is not. ``age``: ms for which what is due has waited."""
    depth = limits.depth * EASED if held else limits.depth
    if limits.depth and load.depth >= max(depth, 1):
        return "depth"
    if limits.depth and age is not None and age >= patience(limits, held=held):
        return "age"
    return None


def excused(held: QueueHolds) -> list[tuple[int, int | None]]:
    """From when to when (UTC ms; None: until now) a fire of the queue was not missed, in order of time."""
    return [(spell.since, None if spell.until is None else spell.until + GRACE) for spell in held.spells]


# As JSON.


@dataclass(frozen=True, kw_only=True)
class HoldLog:
    """What is remembered of all queues; None is the default one."""

    queues: Mapping[str | None, QueueHolds] = field(default_factory=dict)

    def of(self, queue: str | None) -> QueueHolds:
        return self.queues.get(queue, QueueHolds())

    def with_(self, queue: str | None, held: QueueHolds) -> HoldLog:
        return HoldLog(queues={**self.queues, queue: held})

    def body(self) -> dict[str, Any]:
        """JSON-able."""
        return {"queues": {name or "": _body(held) for name, held in self.queues.items()}}


def hold_log_of(body: Mapping[str, Any]) -> HoldLog:
    """The reverse of ``Book.body``."""
    return HoldLog(queues={name or None: _held(said) for name, said in body.get("queues", {}).items()})


def _body(held: QueueHolds) -> dict[str, Any]:
    spells = [[spell.since, spell.until] for spell in held.spells]
    return {"spells": spells, "why": held.why, "depth": held.depth, "age": held.age}


def _held(said: Mapping[str, Any]) -> QueueHolds:
    spells = tuple(
        HoldPeriod(since=int(since), until=None if until is None else int(until)) for since, until in said["spells"]
    )
    age = said.get("age")
    return QueueHolds(
        spells=spells, why=str(said["why"]), depth=int(said["depth"]), age=None if age is None else int(age)
    )
