"""Crowded instants: what the capacity model says of the fires that are due together, from what a call has read already."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from quarterjack.apply.plan import ApplyAction, PlannedChange
from quarterjack.domain.names import schedule_owner
from quarterjack.domain.queue import DEFAULT_QUEUE, Queue, declared_name
from quarterjack.domain.schedule import Definition
from quarterjack.domain.times import from_ms, to_ms
from quarterjack.errors import ExpressionError, QuarterjackError
from quarterjack.owner.capacity import crowd_at, stack_of
from quarterjack.sdk.schedules.forecast_views import BusiestInstant
from quarterjack.sdk.session import Session
from quarterjack.sqs.stripes import striped
from quarterjack.state.capacity.model import QUIET, Stack, is_late, late_words, lateness, window
from quarterjack.timing import Timetable, timetable
from quarterjack.timing.crowds import busiest
from quarterjack.timing.timetables import moment

Defined = tuple[str, Definition, int]  # name of an active schedule, its definition, UTC ms from which its rates count
_CHANGED = (ApplyAction.CREATE, ApplyAction.UPDATE)


def known_stack(session: Session, queue: str | None, declared: Queue | None) -> Stack | None:
    """What starts the runs of a queue (None: the default one). Reads the records of the workers."""
    stripes = striped(session.settings.stripes).get(queue, 1)
    return stack_of(queue, declared, stripes, session.services, session.clock())


def after_apply(changes: Sequence[PlannedChange], there: Mapping[str, Defined], now: int) -> Iterator[Defined]:
    """The active schedules that there are once a plan is carried out; ``there`` are those that there are now."""
    left = dict(there)
    for change in changes:
        if change.act is ApplyAction.PRUNE or change.definition is None or change.act not in _CHANGED:
            continue
        left.pop(change.name, None)
        if change.declaration is None or change.declaration.paused is not True:
            yield change.name, change.definition, now
    yield from left.values()


def crowded(
    schedules: Sequence[Defined], tenant: str, session: Session, declared: Mapping[str, Queue]
) -> Iterator[str]:
    """What is to be said of the busiest instant of each queue. Reads the records of the workers where a hundred fires are due at one."""
    if len(schedules) < QUIET:
        return
    queues: dict[str | None, list[tuple[int, Timetable]]] = {}
    now = session.clock()
    for name, definition, anchor in schedules:
        table = timetable(definition.rule, anchor=anchor, key=schedule_owner(tenant, name))
        try:
            first = table.next(now)
        except ExpressionError:  # everything to come is excluded
            continue
        if first is not None:
            queue = definition.options.queue
            queues.setdefault(None if queue is None else declared_name(queue), []).append((first, table))
    for queue, tables in queues.items():
        crowd = busiest(tables) if len(tables) >= QUIET else None
        if crowd is not None and crowd.fires >= QUIET:
            words = _words(crowd.fires, crowd.at, queue, session, declared)
            if words is not None:
                yield words


def busiest_instant(tables: Sequence[tuple[int, Timetable]], timezone: str, session: Session) -> BusiestInstant | None:
    """The instant of a forecast with the most fires, of timetables with the first fire of each; None: each has fewer than a hundred."""
    crowd = busiest(tables) if len(tables) >= QUIET else None
    if crowd is None or crowd.fires < QUIET:
        return None
    stack = known_stack(session, None, None)
    if stack is None:
        return None
    spread = window(crowd.fires, stack) if is_late(crowd.fires, stack) else None
    late = round(lateness(crowd.fires, stack), 1)
    return BusiestInstant(at=moment(crowd.at, timezone), fires=crowd.fires, late=late, window=spread)


def crowd_words(session: Session, at: datetime) -> str | None:
    """What is to be said of an instant at which a schedule fires, of all tenants; None: nothing. One query if it is quiet."""
    try:
        queue, fires = crowd_at(to_ms(at, "at"), session.services)
    except QuarterjackError:  # the caller may not read the agenda, or it does not answer: an estimate fails no command
        return None
    if fires < QUIET:
        return None
    return _words(fires, to_ms(at, "at"), queue, session, {})


def _words(fires: int, at: int, queue: str | None, session: Session, declared: Mapping[str, Queue]) -> str | None:
    stack = known_stack(session, queue, declared.get(queue or ""))
    said = f"{from_ms(at):%Y-%m-%d %H:%M:%S} UTC"
    return None if stack is None else late_words(fires, said, queue or DEFAULT_QUEUE, stack)
