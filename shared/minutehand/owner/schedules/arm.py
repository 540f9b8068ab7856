"""Create, update, resume: arm a revision in one transaction, so that an active schedule without an agenda entry cannot exist."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from minutehand.domain.agenda_entry import AgendaEntry
from minutehand.domain.names import schedule_owner, shard_of
from minutehand.domain.schedule import ChangeKind, ClosedBy, Definition, Head, Revision, ScheduleState, settled
from minutehand.errors import AlreadyExists, Conflict, MinutehandError
from minutehand.fires.chain import advance_chains
from minutehand.fires.context import FireContext
from minutehand.fires.current import check_seen, must_exist, revision_of
from minutehand.fires.plan import LOOKAHEAD, first_entry
from minutehand.fires.withdraw import withdraw
from minutehand.owner.schedules.client_tokens import ChangeResult, ClientToken, finish, recall
from minutehand.owner.schedules.pauses import RevisionStart, resumed
from minutehand.ports.clock import Clock
from minutehand.ports.records import Record
from minutehand.ports.services import Services
from minutehand.state.incidents import expectation
from minutehand.state.incidents import resumed as counted_anew
from minutehand.timing import pin, timetable

log = logging.getLogger(__name__)

RACES = 5  # lost races before the caller is told


@dataclass(frozen=True, kw_only=True)
class ScheduleSpec:
    """What a schedule shall be. None keeps what it has (for a new one: the default)."""

    definition: Callable[[Definition | None], Definition]  # the new definition from the present one
    description: str | None = None
    tags: Mapping[str, str] | None = None
    managed_by: str | None = None
    paused: bool = False  # a new schedule begins its life at rest: nothing of it starts before it is resumed
    seed: str | None = None  # random text for a rule with jitter that has none yet


def create(
    tenant: str, name: str, wish: ScheduleSpec, services: Services, clock: Clock, *, token: ClientToken | None = None
) -> Head:
    """A new schedule, or a deleted one's successor. Raises AlreadyExists."""

    def allow(head: Head | None) -> None:
        if head is not None and head.state is not ScheduleState.DELETED:
            raise AlreadyExists(
                f"name={name!r}: tenant {tenant!r} has a schedule of that name; update it or choose another name"
            )

    return _arm(tenant, name, wish, services, clock, allow, token=token).head


def update(
    tenant: str,
    name: str,
    wish: ScheduleSpec,
    services: Services,
    clock: Clock,
    *,
    expected: int | None = None,
    token: ClientToken | None = None,
) -> Head:
    """A new revision of a schedule; a paused one stays paused until it is resumed. ``expected``: the revision the caller saw.

    Nothing is written if nothing changes; what is of the head alone (description, tags) makes no revision.
    """
    allow = partial(_must_exist, tenant, name, expected)
    return _arm(tenant, name, wish, services, clock, allow, token=token).head


def upsert(
    tenant: str,
    name: str,
    wish: ScheduleSpec,
    services: Services,
    clock: Clock,
    *,
    expected: int | None = None,
    token: ClientToken | None = None,
) -> ChangeResult:
    """Create a schedule, or update it to what is wished."""

    def allow(head: Head | None) -> None:
        if expected is not None:
            _must_exist(tenant, name, expected, head)

    return _arm(tenant, name, wish, services, clock, allow, token=token)


def resume(
    tenant: str,
    name: str,
    services: Services,
    clock: Clock,
    *,
    expected: int | None = None,
    token: ClientToken | None = None,
    early: int = 0,
    allow: Callable[[Head | None], None] | None = None,
) -> Head:
    """Open a new revision of a paused schedule with the same definition. An active one stays as it is.

    A pause whose end is at most ``early`` ms away is taken to be over. ``allow`` raises for a head that shall not be resumed.
    """

    def same(definition: Definition | None) -> Definition:
        assert definition is not None
        return definition

    permit = allow or partial(_must_exist, tenant, name, expected)
    wish = ScheduleSpec(definition=same)
    return _arm(tenant, name, wish, services, clock, permit, resuming=early, token=token).head


def _must_exist(tenant: str, name: str, expected: int | None, head: Head | None) -> None:
    check_seen(must_exist(tenant, name, head), expected)


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """All that one arming writes. Without a revision it is the head alone, or nothing if that stays as it is."""

    head: Head  # as it shall be
    closed: Revision | None = None  # the revision that was current with its end set, if it was open
    revision: Revision | None = None  # the new one
    entry: AgendaEntry | None = None  # its first; None for a paused schedule
    expect: AgendaEntry | None = None  # of the success that is expected of it


def _arm(
    tenant: str,
    name: str,
    wish: ScheduleSpec,
    services: Services,
    clock: Clock,
    allow: Callable[[Head | None], None],
    *,
    resuming: int | None = None,  # ms by which a pause that is ended may be ended early; None: it is not ended
    token: ClientToken | None = None,
) -> ChangeResult:
    head = None
    for _ in range(RACES):
        head = services.schedules.head(tenant, name)
        memory = recall(token, services, clock())
        if memory.first is not None:
            finish(memory.first, services, clock)
            return memory.first
        allow(head)
        plan = _plan(tenant, name, wish, head, services, clock(), resuming=resuming)
        done = ChangeResult(head=plan.head, change=_change(head, plan))
        if _write(plan, head, memory.record(done), services):
            _after(plan, services, clock)
            return done
    current = head.revision if head else 0
    raise Conflict(
        f"name={name!r}: others changed it {RACES} times meanwhile (last seen: revision {current}); try again"
    )


def _change(head: Head | None, plan: _Plan) -> ChangeKind:
    if head is None or head.state is ScheduleState.DELETED:
        return ChangeKind.CREATED
    return ChangeKind.UNCHANGED if plan.head == head else ChangeKind.UPDATED


def _write(plan: _Plan, head: Head | None, token: Record | None, services: Services) -> bool:
    """Whether it was written; no if somebody else was first."""
    expected = head.version if head else 0
    if plan.revision is not None:
        return services.schedules.arm(
            plan.head,
            expected=expected,
            previous=plan.closed,
            revision=plan.revision,
            entry=plan.entry,
            expect=plan.expect,
            token=token,
        )
    if plan.head != head:
        return services.schedules.close(plan.head, expected=expected, revision=None, token=token)
    return token is None or services.records.write(token)


def _plan(
    tenant: str, name: str, wish: ScheduleSpec, head: Head | None, services: Services, now: int, *, resuming: int | None
) -> _Plan:
    previous = revision_of(head, services) if head is not None else None
    kept = head if head is not None and head.state is not ScheduleState.DELETED else None
    present = previous.definition if previous is not None and kept is not None else None
    definition = settled(wish.definition(present), present)
    if kept is not None and (definition == present if resuming is None else kept.state is ScheduleState.ACTIVE):
        labelled = _labelled(wish, kept)
        return _Plan(head=kept if labelled == kept else replace(labelled, version=kept.version + 1, updated_at=now))
    stays_paused = wish.paused if kept is None else kept.state is ScheduleState.PAUSED and resuming is None
    owner = schedule_owner(tenant, name)
    if kept is not None and previous is not None and resuming is not None:
        begin = resumed(kept, previous, services, now, early=resuming)
    else:
        begin = _begin(definition, previous, present, now)
    t0, anchor = begin.active_from, begin.anchor
    if anchor is None or timetable(definition.rule, anchor=anchor, key=owner).next(t0) is None:
        rule = pin(
            definition.rule, anchor=t0, key=owner, seed=wish.seed
        )  # ExpressionError if it never fires from here on
        definition = replace(definition, rule=rule)
    revision = Revision(
        tenant=tenant,
        name=name,
        number=head.revision + 1 if head else 1,
        shard=shard_of(owner, services.agenda.shards()),
        definition=definition,
        active_from=t0,
        anchor=anchor,  # a rate keeps its phase while its rule stays: who updates twice a day still has a daily fire
        active_until=t0 if stays_paused else None,
        closed_by=_still_closed_by(previous if kept is not None else None) if stays_paused else None,
        failing=previous.failing if previous is not None and kept is not None else 0,
    )
    closed = None
    if previous is not None and previous.active_until is None:
        closed = replace(previous, active_until=t0, closed_by=ClosedBy.REPLACED)
    new = _new_head(wish, kept, head, revision, now, stays_paused=stays_paused)
    return _Plan(
        head=new if resuming is None else counted_anew(new),
        closed=closed,
        revision=revision,
        entry=None if stays_paused else first_entry(revision),
        expect=None if stays_paused else expectation(revision, now),
    )


def _begin(definition: Definition, previous: Revision | None, present: Definition | None, now: int) -> RevisionStart:
    """Where a revision begins that is made now: where the one before ends. A rate keeps its phase while its rule stays."""
    if previous is None:
        return RevisionStart(now)
    same_rule = present is not None and definition.rule == present.rule
    t0 = max(now, previous.active_from, previous.active_until or 0)
    return RevisionStart(t0, previous.counts_from if same_rule else None)


def _still_closed_by(previous: Revision | None) -> ClosedBy:
    """How the successor of a paused revision is closed: what may still drain goes on draining."""
    draining = previous is not None and previous.closed_by is ClosedBy.DRAINED
    return ClosedBy.DRAINED if draining else ClosedBy.PAUSED


def _new_head(
    wish: ScheduleSpec, kept: Head | None, head: Head | None, revision: Revision, now: int, *, stays_paused: bool
) -> Head:
    """The head as it shall be; a deleted schedule's successor keeps nothing but the numbering."""
    definition = revision.definition
    current: dict[str, Any] = {
        "state": ScheduleState.PAUSED if stays_paused else ScheduleState.ACTIVE,
        "revision": revision.number,
        "version": head.version + 1 if head else 1,
        "job": definition.job,
        "expression": " ; ".join((definition.rule.expression, *definition.rule.also)),
        "timezone": definition.rule.timezone,
        "updated_at": now,
    }
    if kept is None:
        return _labelled(wish, Head(tenant=revision.tenant, name=revision.name, created_at=now, **current))
    over: dict[str, Any] = {} if stays_paused else {"note": None, "resume_at": None}
    return _labelled(wish, replace(kept, **current, **over))


def _labelled(wish: ScheduleSpec, head: Head) -> Head:
    """The head with what the wish says of the schedule itself."""
    said: dict[str, Any] = {"description": wish.description, "tags": wish.tags, "managed_by": wish.managed_by}
    return replace(head, **{name: value for name, value in said.items() if value is not None})


def _after(plan: _Plan, services: Services, clock: Clock) -> None:
    """Take back what the old revision claimed beyond its end; start at once what is due before the next tick."""
    if plan.closed is not None:
        withdraw(plan.closed, services, clock)
    if plan.entry is None or plan.entry.due > clock() + LOOKAHEAD:
        return
    try:
        handled = advance_chains([plan.entry], FireContext(services=services, clock=clock, reach=0))
    except MinutehandError as problem:  # the change is made; the next tick handles the entry
        log.warning("create.left_to_tick", extra={"entry": plan.entry.key, "error": str(problem)})
    else:
        for entry, error in handled.failures:
            log.warning("create.left_to_tick", extra={"entry": entry.key, "error": str(error)})
