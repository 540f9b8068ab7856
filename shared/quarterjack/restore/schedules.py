"""The schedules of a restore: fires of which nothing tells whether they ran, one revision from the restore on, the agenda as the heads.

    fires of the past without a run ──► held, for the owner      head, revision from ``until`` on, first entry: one transaction

So a schedule's agenda, older or younger than its head, does not matter: its entries are of revisions that are over, and go.
The fires are held before the revision begins: a schedule whose newest revision began at the restore is through.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from quarterjack.domain.audit import AuditAct
from quarterjack.domain.history.transition_line import TransitionLine
from quarterjack.domain.names import RunRef
from quarterjack.domain.run import AgendaEntry, EntryKind
from quarterjack.domain.schedule import ClosedBy, Head, Revision, ScheduleState
from quarterjack.errors import Unavailable
from quarterjack.fires.audit_entry import audit_entry
from quarterjack.fires.context import FireContext, due_pages
from quarterjack.fires.plan import end_of, first_entry, success_check, timetable_of
from quarterjack.owner.backfill import control
from quarterjack.owner.backfill.records import backfills_of
from quarterjack.owner.schedules.arm import ScheduleSpec, new_head
from quarterjack.owner.schedules.stop import resume_entry
from quarterjack.ports.services import Services
from quarterjack.restore.heads import JoinedSchedule, joined, periods
from quarterjack.restore.past import unknown_fires
from quarterjack.restore.steps import Known, Restore, RestoreStep, StepKind, must
from quarterjack.state.backfill import BackfillState
from quarterjack.values import replace

_PAGE = 1_000  # heads of one request


def all_heads(services: Services) -> Iterator[Head]:
    """The heads of all schedules, those that were retired left out."""
    cursor = None
    while cursor != "":
        heads, cursor = services.schedules.scan_heads(cursor or "", limit=_PAGE)
        yield from (head for head in heads if head.retired_at is None)


def backfill_steps(heads: Sequence[Head], context: FireContext) -> Iterator[RestoreStep]:
    """Pause the backfills that run: which of their fires ran meanwhile, the archive tells before they go on."""
    for head in heads:
        for backfill in backfills_of(head.owner, context.services):
            if backfill.state is BackfillState.RUNNING:
                pause = partial(control.pause, backfill.owner, backfill.id, context)
                target = f"{backfill.owner}#backfill/{backfill.id}"
                yield RestoreStep(
                    kind=StepKind.PAUSE_BACKFILL, target=target, why="it went on, or did not", apply=pause
                )


def schedule_steps(
    heads: Mapping[str, Head], owners: Sequence[str], known: Known, restore: Restore, context: FireContext
) -> Iterator[RestoreStep]:
    """The steps of all schedules: ``owners``, of those of ``heads`` and of those whose heads are missing."""
    chains = _entries(context.services, EntryKind.CHAIN)
    reached = {identity: entry.after for identity, entry in chains.items()}
    by_owner: dict[str, list[RunRef]] = {}
    for ref in known:
        by_owner.setdefault(ref.owner, []).append(ref)
    timers = _entries(context.services, EntryKind.RESUME)
    for owner in owners:
        head, history = heads.get(owner), _history(owner, restore, context.services)
        if not history:
            if head is not None and head.state is not ScheduleState.DELETED:
                yield _lost(head, context)
            continue
        last = _last_number(head, history[0], [known[ref] for ref in by_owner.get(owner, ())])
        now = joined(head, history[0], restore.until, last)
        if head is not None and head.revision == history[0].number and history[0].active_from >= restore.until:
            continue  # through
        since = min([restore.point, *(reached[each.id] for each in history if each.id in reached)])
        there = {ref: known[ref].skipped for ref in by_owner.get(owner, ())}
        yield from unknown_fires(periods(history, now, since, restore.until), there, restore, context)
        step = _begun(head, history[0], now, last, restore, context)
        if step is not None:
            yield step
        elif head is not None and (timer := resume_entry(head, history[0].shard)) is not None and owner not in timers:
            put = partial(_put_timer, timer, context.services)
            yield RestoreStep(kind=StepKind.PUT_TIMER, target=owner, why="its pause has an end", apply=put)


def chain_steps(restore: Restore, context: FireContext) -> Iterator[RestoreStep]:
    """Remove the entries of chains whose revisions are over: the fires up to their end are decided."""
    services = context.services
    for shard in range(services.agenda.layout().shards):
        for page in due_pages(shard, services):
            chains = {entry: _revision_key(entry) for entry in page.entries if entry.kind is EntryKind.CHAIN}
            found = services.schedules.revisions(set(chains.values())).found if chains else {}
            for entry, key in chains.items():
                revision = found.get(key)
                if revision is None or revision.active_until is not None or revision.active_from < restore.until:
                    remove = partial(_remove, entry, services)
                    yield RestoreStep(
                        kind=StepKind.REMOVE_CHAIN, target=entry.id, why="its revision is over", apply=remove
                    )


def _revision_key(entry: AgendaEntry) -> tuple[str, int]:
    owner, _, number = entry.id.rpartition("#")
    return owner, int(number)


def _entries(services: Services, kind: EntryKind) -> dict[str, AgendaEntry]:
    """The first entry of each id."""
    found: dict[str, AgendaEntry] = {}
    for shard in range(services.agenda.layout().shards):
        for page in due_pages(shard, services):
            for entry in page.entries:
                if entry.kind is kind:
                    found.setdefault(entry.id, entry)
    return found


def _history(owner: str, restore: Restore, services: Services) -> list[Revision]:
    """The revisions back to the one that was active at the restored time, newest first."""
    found = list[Revision]()
    for revision in services.schedules.history(owner):
        if revision.number == 0:  # the freeze of a tenant
            break
        found.append(revision)
        if revision.active_from <= restore.point:
            break
    return found


def _last_number(head: Head | None, newest: Revision, lines: Sequence[TransitionLine]) -> int:
    """The greatest number of a revision of a schedule: the archive may know runs of one that no table has."""
    return max(newest.number, head.revision if head else 0, *(line.revision for line in lines))


# Head, revision, first entry.


def _lost(head: Head, context: FireContext) -> RestoreStep:
    now = context.clock()
    over = replace(head, state=ScheduleState.DELETED, version=head.version + 1, updated_at=now, resume_at=None)
    why = "its definition is in no table: declare it again"
    close = partial(_close, over, head.version, None, None, AuditAct.RESTORE, head, context)
    return RestoreStep(kind=StepKind.LOSE_SCHEDULE, target=head.owner, why=why, apply=close)


def _begun(
    head: Head | None, newest: Revision, now: JoinedSchedule, number: int, restore: Restore, context: FireContext
) -> RestoreStep | None:
    """The step that makes head, revision and agenda one again; None: there is nothing to do. ``number``: of its last revision."""
    follows = head is not None and number > newest.number  # its own revision is missing
    t0 = max(restore.until, newest.active_from, newest.active_until or 0)
    definition, expected = newest.definition, head.version if head else 0
    is_new = head is None or (head.state is ScheduleState.DELETED and now.state is not ScheduleState.DELETED)
    kept = None if is_new else head
    spec = ScheduleSpec(definition=lambda _: definition)
    closed = None
    if newest.active_until is None:
        by = {ScheduleState.PAUSED: ClosedBy.PAUSED, ScheduleState.DELETED: ClosedBy.DELETED}.get(now.state)
        ended = now.ended if by is not None else t0
        closed = replace(newest, active_until=ended, closed_by=by or ClosedBy.REPLACED)
    is_active = now.state is ScheduleState.ACTIVE
    if is_active and timetable_of(newest).next(t0) is None:
        return _finished(head, newest, now, restore, context)
    if is_active or (follows and now.state is ScheduleState.PAUSED):
        revision = replace(
            newest,
            number=number + 1,
            shard=context.services.agenda.layout().shard_of(newest.owner),
            active_from=t0,
            anchor=newest.counts_from,
            active_until=None if is_active else t0,
            closed_by=None if is_active else ClosedBy.PAUSED,
        )
        after = new_head(spec, kept, head, revision, restore.until, stays_paused=not is_active)
        closed = (
            closed if closed is None or is_active else replace(closed, active_until=t0, closed_by=ClosedBy.REPLACED)
        )
        arm = partial(_arm, after, expected, closed, revision, head, context)
        why = now.why or "its fires begin anew"
        kind = StepKind.MEND_SCHEDULE if now.why else StepKind.BEGIN_SCHEDULE
        return RestoreStep(kind=kind, target=newest.owner, why=why, apply=arm)
    if not now.why:
        return None
    after = new_head(spec, kept, head, newest, restore.until, stays_paused=True)
    after = replace(after, state=now.state, revision=number)
    if now.state is not ScheduleState.PAUSED:
        closed = closed if now.state is ScheduleState.DELETED else None
    close = partial(_close, after, expected, closed, resume_entry(after, newest.shard), AuditAct.RESTORE, head, context)
    return RestoreStep(kind=StepKind.MEND_SCHEDULE, target=newest.owner, why=now.why, apply=close)


def _finished(
    head: Head | None, newest: Revision, now: JoinedSchedule, restore: Restore, context: FireContext
) -> RestoreStep | None:
    """The schedule has no further fire."""
    state = end_of(newest.definition.options)
    after = new_head(
        ScheduleSpec(definition=lambda _: newest.definition), head, head, newest, restore.until, stays_paused=False
    )
    over = replace(after, state=state)
    close = partial(_close, over, head.version if head else 0, None, None, AuditAct.COMPLETE, head, context)
    return RestoreStep(
        kind=StepKind.MEND_SCHEDULE, target=newest.owner, why=now.why or "it has no further fire", apply=close
    )


def _arm(
    after: Head, expected: int, closed: Revision | None, revision: Revision, before: Head | None, context: FireContext
) -> None:
    is_open = revision.active_until is None
    audit = audit_entry(AuditAct.RESTORE, after.owner, context, before=before, after=after)
    done = context.services.schedules.arm(
        after,
        expected=expected,
        previous=closed,
        revision=revision,
        entry=first_entry(revision) if is_open else resume_entry(after, revision.shard),
        expect=success_check(revision, context.clock()) if is_open else None,
        audit=audit,
    )
    must([done], after.owner)


def _close(
    after: Head,
    expected: int,
    closed: Revision | None,
    entry: AgendaEntry | None,
    act: AuditAct,
    before: Head | None,
    context: FireContext,
) -> None:
    audit = audit_entry(act, after.owner, context, before=before, after=after)
    close: Any = context.services.schedules.close
    must([close(after, expected=expected, revision=closed, entry=entry, audit=audit)], after.owner)


def _put_timer(entry: AgendaEntry, services: Services) -> None:
    if entry.key not in services.agenda.put([entry]):
        raise Unavailable(f"the entry {entry.key} was not accepted; run it again")


def _remove(entry: AgendaEntry, services: Services) -> None:
    if entry.key not in services.agenda.remove([entry]):
        raise Unavailable(f"the entry {entry.key} was not removed; run it again")
