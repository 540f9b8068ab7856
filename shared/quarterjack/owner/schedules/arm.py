"""Create, update and resume a schedule: one transaction arms a revision, so that no active schedule lacks an agenda entry."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

from quarterjack.concurrency.rate_limits import SOON
from quarterjack.domain.audit import AuditAct
from quarterjack.domain.names import schedule_owner
from quarterjack.domain.run import AgendaEntry
from quarterjack.domain.schedule import ChangeKind, ClosedBy, Definition, Head, Revision, ScheduleState, settled
from quarterjack.errors import AlreadyExists, QuarterjackError
from quarterjack.fires.audit_entry import actor_of, audit_entry
from quarterjack.fires.chain import advance_chains
from quarterjack.fires.context import FireContext, find_revision, revision_of
from quarterjack.fires.plan import first_entry, success_check
from quarterjack.fires.withdraw import withdraw
from quarterjack.owner.limits import arming
from quarterjack.owner.schedules.begin import begin, begin_again, goes_on, taken_over
from quarterjack.owner.schedules.client_tokens import ChangeResult, ScheduleCall, change
from quarterjack.state.incidents import resumed
from quarterjack.stores.records import Record
from quarterjack.timing import Rule, pin
from quarterjack.values import replace, value

log = logging.getLogger(__name__)

_LONGEST_RULE = 300  # characters of a rule in a head


@value(kw_only=True)
class ScheduleSpec:
    """The wanted fields of a schedule. None keeps the present value (for a new schedule: the default)."""

    definition: Callable[[Definition | None], Definition]  # the new definition from the present one
    description: str | None = None
    tags: Mapping[str, str] | None = None
    managed_by: str | None = None
    paused: bool = False  # a new schedule is created paused
    seed: str | None = None  # random text for a rule with jitter that has none yet


def create(call: ScheduleCall, spec: ScheduleSpec, context: FireContext) -> Head:
    """Create a schedule, or the successor of a deleted one. Raises AlreadyExists."""

    def allow(head: Head | None) -> None:
        if head is not None and head.state is not ScheduleState.DELETED:
            raise AlreadyExists(
                f"name={call.name!r}: tenant {call.tenant!r} has a schedule of that name; update it or choose another name"
            )

    return _arm(call, spec, context, allow).head


def update(call: ScheduleCall, spec: ScheduleSpec, context: FireContext) -> Head:
    """Make a new revision; a paused schedule stays paused.

    Nothing is written if nothing changes; a change of the head alone (description, tags) makes no revision.
    """
    return _arm(call, spec, context, call.check).head


def upsert(call: ScheduleCall, spec: ScheduleSpec, context: FireContext) -> ChangeResult:
    """Create a schedule, or update it to the wanted fields."""
    return _arm(call, spec, context, (lambda head: None) if call.expected is None else call.check)


def resume(
    call: ScheduleCall, context: FireContext, *, early: int = 0, allow: Callable[[Head | None], object] | None = None
) -> Head:
    """Open a new revision of a paused schedule with the same definition. An active one stays as it is.

    A pause whose end is at most ``early`` ms away counts as over. ``allow`` raises for a head that must not be resumed.
    """

    def same(definition: Definition | None) -> Definition:
        assert definition is not None
        return definition

    return _arm(call, ScheduleSpec(definition=same), context, allow or call.check, resuming=early).head


@value(kw_only=True)
class _Plan:
    """The writes of one change. Without a revision: the head alone, or nothing if the head stays as it is."""

    head: Head  # the new one
    closed: Revision | None = None  # the previous revision with its end set, if it was open
    revision: Revision | None = None  # the new one
    before: Rule | None = None  # the rule that it replaces, if that had further fires
    entry: AgendaEntry | None = None  # its first chain entry; None for a paused schedule
    expect: AgendaEntry | None = None  # the entry that checks for a success in time


def _arm(
    call: ScheduleCall,
    spec: ScheduleSpec,
    context: FireContext,
    allow: Callable[[Head | None], object],
    *,
    resuming: int | None = None,  # ms by which a pause may end early; None: the change does not end a pause
) -> ChangeResult:
    def attempt(head: Head | None, remember: Callable[[ChangeResult], Record | None]) -> ChangeResult | None:
        allow(head)
        plan = _plan(call, spec, head, context, resuming=resuming)
        plan = _signed(plan, head, context)
        done = ChangeResult(head=plan.head, change=_change(head, plan))
        act = AuditAct.UPDATE if done.change is not ChangeKind.CREATED else AuditAct.CREATE
        act = act if resuming is None else AuditAct.RESUME
        if not _write(plan, head, remember(done), act, context):
            return None
        if plan.closed is not None:
            withdraw(plan.closed, context)
        send_first(plan.entry, context)
        return done

    return change(call, context, attempt)


def _change(head: Head | None, plan: _Plan) -> ChangeKind:
    if head is None or head.state is ScheduleState.DELETED:
        return ChangeKind.CREATED
    return ChangeKind.UNCHANGED if plan.head == head else ChangeKind.UPDATED


def _signed(plan: _Plan, head: Head | None, context: FireContext) -> _Plan:
    """The plan with the name of who makes the change, if it changes anything."""
    if plan.head == head:
        return plan
    actor = actor_of(context)
    revision = None if plan.revision is None else replace(plan.revision, actor=actor)
    return replace(plan, head=replace(plan.head, actor=actor), revision=revision)


def _write(plan: _Plan, head: Head | None, token: Record | None, act: AuditAct, context: FireContext) -> bool:
    """Whether it was written, with the act's audit entry; False if another change was first."""
    services, expected = context.services, head.version if head else 0
    if plan.head == head:
        return token is None or services.records.write(token)
    audit = audit_entry(act, plan.head.owner, context, before=head, after=plan.head)
    if plan.revision is not None:
        is_new = head is None or head.state is ScheduleState.DELETED
        rule = plan.revision.definition.rule
        return services.schedules.arm(
            plan.head,
            expected=expected,
            previous=plan.closed,
            revision=plan.revision,
            entry=plan.entry,
            expect=plan.expect,
            token=token,
            usage=arming(plan.head.tenant, rule, plan.before, context, is_new=is_new),
            audit=audit,
        )
    return services.schedules.close(plan.head, expected=expected, revision=None, token=token, audit=audit)


def _plan(
    call: ScheduleCall, spec: ScheduleSpec, head: Head | None, context: FireContext, *, resuming: int | None
) -> _Plan:
    services, now = context.services, context.clock()
    kept = head if head is not None and head.state is not ScheduleState.DELETED else None
    previous = revision_of(kept, services) if kept is not None else None
    if head is not None and kept is None and head.retired_at is None:
        # None: it was retired meanwhile, which refuses this write.
        previous = find_revision(head.owner, head.revision, services)
    same = previous if kept is not None else None  # not the revision of a deleted schedule
    present = same.definition if same is not None else None
    definition = settled(spec.definition(present), present)
    if kept is not None and (definition == present if resuming is None else kept.state is ScheduleState.ACTIVE):
        labelled = _labelled(spec, kept)
        return _Plan(head=kept if labelled == kept else replace(labelled, version=kept.version + 1, updated_at=now))
    stays_paused = spec.paused if kept is None else kept.state is ScheduleState.PAUSED and resuming is None
    owner = schedule_owner(call.tenant, call.name)
    if kept is not None and same is not None and resuming is not None:
        t0, anchor = begin_again(kept, same, services, now, resuming)
    else:
        t0, anchor = begin(definition, previous, present, now)
    if anchor is None or not goes_on(definition, present, anchor, t0, owner):
        # ExpressionError if it never fires from t0 on
        taken = taken_over(previous, kept, t0, services)
        begun = t0 if anchor is None else anchor
        rule = pin(definition.rule, anchor=begun, key=owner, seed=spec.seed, since=t0, taken=taken)
        definition = replace(definition, rule=rule)
    still_draining = same is not None and same.closed_by is ClosedBy.DRAINED
    paused_by = ClosedBy.DRAINED if still_draining else ClosedBy.PAUSED
    revision = Revision(
        tenant=call.tenant,
        name=call.name,
        number=head.revision + 1 if head else 1,
        shard=services.agenda.layout().shard_of(owner),
        definition=definition,
        active_from=t0,
        anchor=anchor,  # a rate keeps its phase while its rule stays, so that a daily rate still fires if it is updated twice a day
        active_until=t0 if stays_paused else None,
        closed_by=paused_by if stays_paused else None,
        failing=same.failing if same is not None else 0,
    )
    closed = None
    if previous is not None and previous.active_until is None:
        closed = replace(previous, active_until=t0, closed_by=ClosedBy.REPLACED)
    new = new_head(spec, kept, head, revision, now, stays_paused=stays_paused)
    return _Plan(
        head=new if resuming is None else resumed(new),
        closed=closed,
        revision=revision,
        before=None if present is None or (kept and kept.state is ScheduleState.COMPLETED) else present.rule,
        entry=None if stays_paused else first_entry(revision),
        expect=None if stays_paused else success_check(revision, now),
    )


def new_head(
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
        "rule": _short_rule(definition.rule),
        "counts_from": revision.counts_from,
        "updated_at": now,
    }
    if kept is None:
        return _labelled(spec, Head(tenant=revision.tenant, name=revision.name, created_at=now, **current))
    over: dict[str, Any] = {} if stays_paused else dict.fromkeys(("reason", "resume_at", "paused_at", "paused_by"))
    return _labelled(spec, replace(kept, **current, **over))


def _short_rule(rule: Rule) -> str | None:
    """What a rule says beside its expression and zone, as JSON. None if it is long: heads are read by the thousand."""
    said = rule.as_dict()
    del said["expression"]
    said.pop("timezone", None)
    text = json.dumps({"expression": rule.expression, **said} if rule.also else said)
    return text if len(text) <= _LONGEST_RULE else None


def _labelled(spec: ScheduleSpec, head: Head) -> Head:
    """The head with the spec's description, tags and manager."""
    labels: dict[str, Any] = {"description": spec.description, "tags": spec.tags, "managed_by": spec.managed_by}
    return replace(head, **{name: value for name, value in labels.items() if value is not None})


def send_first(entry: AgendaEntry | None, context: FireContext) -> None:
    """Send the fires of a new chain that are due before the next tick can.

    Not what is due later: the next act of the owner would withdraw it, and its messages would come to the workers for nothing.
    """
    if entry is None or entry.due > context.clock() + SOON:
        return
    try:
        failures = advance_chains([entry], replace(context, ahead=SOON, reach=0)).agenda.failures
    except QuarterjackError as problem:  # the change is made; the next tick handles the entry
        failures = ((entry, problem),)
    for left, error in failures:
        log.warning("create.left_to_tick", extra={"entry": left.key, "error": str(error)})
