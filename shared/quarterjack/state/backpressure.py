"""Backpressure: decides whether a queue is held back, for whom, and remembers for which periods. Pure.

In a hold period the entries of the tenants whose runs wait in the queue stay in the agenda; all entries do if the queue is full. A fire
that was due in one was not missed: had its message been sent, it would have waited in the queue. So no catch-up policy skips it, however
long the period was (``fires.plan.plan_chain``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from enum import Enum
from typing import Any

from quarterjack.domain.policies import Priority
from quarterjack.domain.times import MINUTE, SECOND
from quarterjack.values import replace, value

EASED = 0.5  # a hold ends below this part of its limit, so that it does not flap
FLOOR = 1_000  # waiting messages of an SQS queue before their age is read: fewer are worked off in a second
GRACE = 5 * MINUTE  # after a period, until every ticker has seen its end and handled the entries that were held back
_REJOINED = 10 * MINUTE  # a period that begins so soon after another continues it
_REMEMBERED = 16  # periods of a queue; of more, the two oldest are joined, which excuses more fires and never fewer


@value(kw_only=True)
class Limits:
    """When the ticker holds a queue back."""

    # Visible and in-flight messages of one SQS queue, which has at most 120,000 in flight; 0: never hold back.
    depth: int = 50_000
    age: int = 600 * SECOND  # ms for which due runs have waited for a worker
    full: int = 108_000  # messages of one SQS queue from which all tenants are held: 90 % of what SQS hands out

    @property
    def unproven(self) -> int:
        """Entries of a tick for a held queue that a tenant may send of whose runs nothing is known."""
        return max(1, self.depth // 100)


@value(kw_only=True)
class QueueDepth:
    """The approximate numbers of messages in one SQS queue."""

    waiting: int  # visible
    at_hand: int  # in flight
    delayed: int = 0

    @property
    def depth(self) -> int:
        """The number that counts against the limit; delayed messages are no backlog."""
        return self.waiting + self.at_hand


class Standing(Enum):
    """What a tenant's last due runs in a queue that is held say of the tenant."""

    WAITS = "waits"  # they wait for a worker: its entries are held
    FLOWS = "flows"  # they have started: the queue is not held for its sake
    UNKNOWN = "unknown"  # there are none: it may send a few


UNSTARTED = 30 * SECOND  # ms after which a run that is due and has not started waits


def standing(states: Iterable[bool | None]) -> Standing:
    """Of some schedules of a tenant: whether the last due run of each waits; None: it has none. One that started speaks for all."""
    known = [waits for waits in states if waits is not None]
    if not known:
        return Standing.UNKNOWN
    return Standing.WAITS if all(known) else Standing.FLOWS


@value(kw_only=True)
class HoldPeriod:
    since: int  # UTC ms
    until: int | None = None  # UTC ms; None: it goes on


@value(kw_only=True)
class QueueHolds:
    periods: tuple[HoldPeriod, ...] = ()  # in order of time
    why: str = ""  # of the last period: "depth" or "age"
    depth: int = 0  # of the fullest SQS queue when the last period began
    age: int | None = None  # ms, likewise, if it was read

    @property
    def now(self) -> HoldPeriod | None:
        """The period that goes on, if one does."""
        return self.periods[-1] if self.periods and self.periods[-1].until is None else None

    def begun(self, now: int, why: str, depth: int, age: int | None) -> QueueHolds:
        """With a new period from now on, or with the last one continued."""
        kept = self.periods
        last = kept[-1] if kept else None
        if last is not None and last.until is not None and now - last.until < _REJOINED:
            kept = (*kept[:-1], HoldPeriod(since=last.since))
        else:
            kept = (*kept, HoldPeriod(since=now))
        if len(kept) > _REMEMBERED:
            kept = (HoldPeriod(since=kept[0].since, until=kept[1].until), *kept[2:])
        return QueueHolds(periods=kept, why=why, depth=depth, age=age)

    def ended(self, now: int) -> QueueHolds:
        return replace(self, periods=(*self.periods[:-1], replace(self.periods[-1], until=now)))


def full(loads: Sequence[QueueDepth]) -> QueueDepth | None:
    """The fullest SQS queue; None if no depth is known."""
    return max(loads, key=lambda load: load.depth, default=None)


def asks_for_age(loads: Sequence[QueueDepth], lane: Priority) -> bool:
    """Whether enough messages wait that their age matters. In a low lane, of which few are taken, any does."""
    return any(load.waiting >= (1 if lane is Priority.LOW else FLOOR) for load in loads)


def patience(limits: Limits, *, held: bool) -> int:
    """How long (ms) due runs may wait: shorter for a queue that is held already."""
    return int(limits.age * EASED) if held else limits.age


def reason_to_hold(load: QueueDepth, age: int | None, limits: Limits, *, held: bool) -> str | None:
    """Why a queue is held back from now on; None: it is not. ``age``: ms for which due runs have waited."""
    depth = limits.depth * EASED if held else limits.depth
    if limits.depth and load.depth >= max(depth, 1):
        return "depth"
    if limits.depth and age is not None and age >= patience(limits, held=held):
        return "age"
    return None


def excused(held: QueueHolds) -> list[tuple[int, int | None]]:
    """The periods (UTC ms; None: until now) in which a fire of the queue was not missed, in order of time."""
    return [(period.since, None if period.until is None else period.until + GRACE) for period in held.periods]


@value(kw_only=True)
class HoldLog:
    """The hold periods of all queues; None is the default queue."""

    queues: Mapping[str | None, QueueHolds] = field(default_factory=dict)

    def of(self, queue: str | None) -> QueueHolds:
        return self.queues.get(queue, QueueHolds())

    def with_(self, queue: str | None, held: QueueHolds) -> HoldLog:
        return HoldLog(queues={**self.queues, queue: held})

    def body(self) -> dict[str, Any]:
        """The body of a record, as JSON values."""
        periods = {name: [[p.since, p.until] for p in held.periods] for name, held in self.queues.items()}
        return {"queues": {name or "": vars(held) | {"periods": periods[name]} for name, held in self.queues.items()}}


def parse_hold_log(body: Mapping[str, Any]) -> HoldLog:
    return HoldLog(queues={name or None: _held(stored) for name, stored in body.get("queues", {}).items()})


def _held(stored: Mapping[str, Any]) -> QueueHolds:
    periods = tuple(
        HoldPeriod(since=int(since), until=None if until is None else int(until)) for since, until in stored["periods"]
    )
    age = stored.get("age")
    return QueueHolds(
        periods=periods, why=str(stored["why"]), depth=int(stored["depth"]), age=None if age is None else int(age)
    )
