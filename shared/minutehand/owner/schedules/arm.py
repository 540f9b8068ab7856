"""Create, update and resume a schedule: one transaction arms a revision, so that no active schedule lacks an agenda entry."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from minutehand.domain.names import schedule_owner, shard_of
from minutehand.domain.run import AgendaEntry
from minutehand.domain.schedule import ChangeKind, ClosedBy, Definition, Head, Revision, ScheduleState, settled
from minutehand.errors import AlreadyExists, Conflict, MinutehandError
from minutehand.fires.chain import advance_chains
from minutehand.fires.context import FireContext, check_seen, must_exist, revision_of
from minutehand.fires.plan import LOOKAHEAD, first_entry
from minutehand.fires.withdraw import withdraw
from minutehand.owner.schedules.client_tokens import ChangeResult, ClientToken, finish, recall
from minutehand.owner.schedules.pauses import RevisionStart, resumed
from minutehand.ports.records import Record
from minutehand.ports.services import Clock, Services
from minutehand.state.incidents import expectation
from minutehand.state.incidents import resumed as counted_anew
from minutehand.timing import pin, timetable

log = logging.getLogger(__name__)

RACES = 5  # lost races before Conflict is raised


@dataclass(frozen=True, kw_only=True)
class ScheduleSpec:
    """The wanted fields of a schedule. None keeps the present value (for a new schedule: the default)."""

    definition: Callable[[Definition | None], Definition]  # the new definition from the present one
    description: str | None = None
    tags: Mapping[str, str] | None = None
    managed_by: str | None = None
    paused: bool = False  # a new schedule is created paused
    seed: str | None = None  # random text for a rule with jitter that has none yet


def create(
    tenant: str, name: str, spec: ScheduleSpec, services: Services, clock: Clock, *, token: ClientToken | None = None
) -> Head:
    """Create a schedule, or the successor of a deleted one. Raises AlreadyExists."""

    def allow(head: Head | None) -> None:
        if head is not None and head.state is not ScheduleState.DELETED:
            raise AlreadyExists(
                f"name={name!r}: tenant {tenant!r} has a schedule of that name; update it or choose another name"
            )

    return _arm(tenant, name, spec, services, clock, allow, token=token).head


def update(
    tenant: str,
    name: str,
    spec: ScheduleSpec,
    services: Services,
    clock: Clock,
    *,
    expected: int | None = None,
    token: ClientToken | None = None,
) -> Head:
    """Make a new revision; a paused schedule stays paused. ``expected``: the revision that the caller saw.

    Nothing is written if nothing changes; a change of the head alone (description, tags) makes no revision.
    """
    allow = partial(_must_exist, tenant, name, expected)
    return _arm(tenant, name, spec, services, clock, allow, token=token).head


def upsert(
    tenant: str,
    name: str,
    spec: ScheduleSpec,
    services: Services,
    clock: Clock,
    *,
    expected: int | None = None,
    token: ClientToken | None = None,
) -> ChangeResult:
    """Create a schedule, or update it to the wanted fields."""

    def allow(head: Head | None) -> None:
        if expected is not None:
            _must_exist(tenant, name, expected, head)

    return _arm(tenant, name, spec, services, clock, allow, token=token)


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

    A pause whose end is at most ``early`` ms away counts as over. ``allow`` raises for a head that must not be resumed.
    """

    def same(definition: Definition | None) -> Definition:
        assert definition is not None
        return definition

    permit = allow or partial(_must_exist, tenant, name, expected)
    spec = ScheduleSpec(definition=same)
    return _arm(tenant, name, spec, services, clock, permit, resuming=early, token=token).head


def _must_exist(tenant: str, name: str, expected: int | None, head: Head | None) -> None:
    check_seen(must_exist(tenant, name, head), expected)


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """The writes of one change. Without a revision: the head alone, or nothing if the head stays as it is."""

    head: Head  # the new one
    closed: Revision | None = None  # the previous revision with its end set, if it was open
    revision: Revision | None = None  # the new one
    entry: AgendaEntry | None = None  # its first chain entry; None for a paused schedule
    expect: AgendaEntry | None = None  # the entry that checks for a success in time


def _arm(
    tenant: str,
    name: str,
    spec: ScheduleSpec,
    services: Services,
    clock: Clock,
    allow: Callable[[Head | None], None],
    *,
    resuming: int | None = None,  # ms by which a pause may end early; None: the change does not end a pause
    token: ClientToken | None = None,
) -> ChangeResult:
    head = None
    for _ in range(RACES):
        head = services.schedules.head(tenant, name)
        repeated = recall(token, services, clock())
        if repeated.first is not None:
            finish(repeated.first, services, clock)
            return repeated.first
        allow(head)
        plan = _plan(tenant, name, spec, head, services, clock(), resuming=resuming)
        done = ChangeResult(head=plan.head, change=_change(head, plan))
        if _write(plan, head, repeated.record(done), services):
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
    """Whether it was written; False if another change was first."""
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
    tenant: str, name: str, spec: ScheduleSpec, head: Head | None, services: Services, now: int, *, resuming: int | None
) -> _Plan:
    previous = revision_of(head, services) if head is not None else None
    kept = head if head is not None and head.state is not ScheduleState.DELETED else None
    present = previous.definition if previous is not None and kept is not None else None
    definition = settled(spec.definition(present), present)
    if kept is not None and (definition == present if resuming is None else kept.state is ScheduleState.ACTIVE):
        labelled = _labelled(spec, kept)
        return _Plan(head=kept if labelled == kept else replace(labelled, version=kept.version + 1, updated_at=now))
    stays_paused = spec.paused if kept is None else kept.state is ScheduleState.PAUSED and resuming is None
    owner = schedule_owner(tenant, name)
    if kept is not None and previous is not None and resuming is not None:
        begin = resumed(kept, previous, services, now, early=resuming)
    else:
        begin = _begin(definition, previous, present, now)
    t0, anchor = begin.active_from, begin.anchor
    if anchor is None or timetable(definition.rule, anchor=anchor, key=owner).next(t0) is None:
        rule = pin(
            definition.rule, anchor=t0, key=owner, seed=spec.seed
        )  # ExpressionError if it never fires from t0 on
        definition = replace(definition, rule=rule)
    revision = Revision(
        tenant=tenant,
        name=name,
        number=head.revision + 1 if head else 1,
        shard=shard_of(owner, services.agenda.shards()),
        definition=definition,
        active_from=t0,
        anchor=anchor,  # a rate keeps its phase while its rule stays, so that a daily rate still fires if it is updated twice a day
        active_until=t0 if stays_paused else None,
        closed_by=_still_closed_by(previous if kept is not None else None) if stays_paused else None,
        failing=previous.failing if previous is not None and kept is not None else 0,
    )
    closed = None
    if previous is not None and previous.active_until is None:
        closed = replace(previous, active_until=t0, closed_by=ClosedBy.REPLACED)
    new = _new_head(spec, kept, head, revision, now, stays_paused=stays_paused)
    return _Plan(
        head=new if resuming is None else counted_anew(new),
        closed=closed,
        revision=revision,
        entry=None if stays_paused else first_entry(revision),
        expect=None if stays_paused else expectation(revision, now),
    )


def _begin(definition: Definition, previous: Revision | None, present: Definition | None, now: int) -> RevisionStart:
    """Where a revision begins that is made now: at the end of the previous one. A rate keeps its phase while its rule stays."""
    if previous is None:
        return RevisionStart(now)
    same_rule = present is not None and definition.rule == present.rule
    t0 = max(now, previous.active_from, previous.active_until or 0)
    return RevisionStart(t0, previous.counts_from if same_rule else None)


def _still_closed_by(previous: Revision | None) -> ClosedBy:
    """How the successor of a paused revision is closed: a drain goes on."""
    draining = previous is not None and previous.closed_by is ClosedBy.DRAINED
    return ClosedBy.DRAINED if draining else ClosedBy.PAUSED


def _new_head(
    spec: ScheduleSpec, kept: Head | None, head: Head | None, revision: Revision, now: int, *, stays_paused: bool
) -> Head:
    """The new head; the successor of a deleted schedule keeps nothing but the numbering."""
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
        return _labelled(spec, Head(tenant=revision.tenant, name=revision.name, created_at=now, **current))
    over: dict[str, Any] = {} if stays_paused else {"note": None, "resume_at": None}
    return _labelled(spec, replace(kept, **current, **over))


def _labelled(spec: ScheduleSpec, head: Head) -> Head:
    """The head with the spec's description, tags and manager."""
    labels: dict[str, Any] = {"description": spec.description, "tags": spec.tags, "managed_by": spec.managed_by}
    return replace(head, **{name: value for name, value in labels.items() if value is not None})


def _after(plan: _Plan, services: Services, clock: Clock) -> None:
    """Withdraw the runs that the old revision claimed beyond its end; advance the chain now if it is due before the next tick."""
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
