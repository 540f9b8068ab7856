"""Handle the agenda entries of chains: claim and send their fires, put the next entries, and count what was done."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

from quarterjack.domain.names import RunRef
from quarterjack.domain.run import AgendaEntry
from quarterjack.domain.schedule import Revision
from quarterjack.domain.times import STAMP_DIGITS, from_ms
from quarterjack.errors import Unavailable
from quarterjack.fires.audit_entry import completion_entry
from quarterjack.fires.backpressure import RecentHolds
from quarterjack.fires.claim import FireClaim, MaterialiseResult, materialise
from quarterjack.fires.context import (
    GOES,
    NOTHING,
    FireContext,
    FireCounts,
    Handled,
    MissedFires,
    ScheduleCounts,
    TickCounts,
    failed_at,
    left,
    removed,
)
from quarterjack.fires.gates import plan_limit
from quarterjack.fires.plan import (
    LARGEST,
    ChainPlan,
    MissedResult,
    chain_entry,
    end_of,
    overdue_check,
    plan_chain,
    record_missed,
)
from quarterjack.fires.withdraw import withdraw_beyond
from quarterjack.state.catch_up import LATE
from quarterjack.values import value

log = logging.getLogger(__name__)

_FIRES_AT_ONCE = 2_000  # fires claimed and sent together: bounds memory and fills batches
_NONE_MISSED = MissedResult()
_PASSED_PER_FIRE = 50  # skipped fires that take as much memory as one claimed fire


def advance_chains(entries: Sequence[AgendaEntry], context: FireContext) -> TickCounts:
    """Handle chain entries. An entry stays unless all of its work was done. Raises Unavailable if no revision could be read."""
    found, counts = _read_revisions(entries, context)
    holds = RecentHolds(context.services, context.clock)
    group: list[_PlannedEntry] = []
    fires = 0
    for entry, revision in found:
        try:
            plan = _plan(revision, entry, context, holds)
        except Exception as problem:  # noqa: BLE001 (an unreadable rule, or one of a later release: this entry's own failure)
            counts += failed_at(entry, problem)
            continue
        group.append(_PlannedEntry(entry, revision, plan, [FireClaim(revision, fire) for fire in plan.fires]))
        fires += len(plan.fires) + len(plan.passed) // _PASSED_PER_FIRE
        if fires >= _FIRES_AT_ONCE:
            counts += _carry_out(group, context)
            group, fires = [], 0
    return counts + _carry_out(group, context) if group else counts


@value()
class _PlannedEntry:
    """A chain entry, the revision that it is about, and what is to be done for it."""

    entry: AgendaEntry
    revision: Revision
    plan: ChainPlan
    claims: Sequence[FireClaim]  # of the plan's fires


def _read_revisions(
    entries: Sequence[AgendaEntry], context: FireContext
) -> tuple[list[tuple[AgendaEntry, Revision]], TickCounts]:
    """The entries with their revisions. An entry without one stops no other."""
    keys, counts = [], NOTHING
    for entry in entries:
        try:
            keys.append((entry, revision_key(entry)))
        except ValueError as problem:
            counts += failed_at(entry, problem)
    answer = context.services.schedules.revisions({key for _, key in keys}, context.clock())
    found, orphans = [], []
    for entry, key in keys:
        if key in answer.found:
            found.append((entry, answer.found[key]))
        elif key in answer.unanswered:
            counts += left(1)
        elif key in answer.broken:
            counts += failed_at(entry, answer.broken[key])
        else:
            log.warning("entry.orphan", extra={"entry": entry.key})
            orphans.append(entry)
    return found, counts + removed(orphans, context.services)


def _plan(revision: Revision, entry: AgendaEntry, context: FireContext, holds: RecentHolds) -> ChainPlan:
    """The entry's plan. Fires that the ticker held back were not missed, so the hold log is read before any fire is skipped."""
    now = context.clock()
    oldest = now - context.services.retention
    limit = plan_limit(context.gates, entry)
    make = partial(
        plan_chain,
        revision,
        after=entry.after,
        now=now,
        oldest=oldest,
        ahead=context.ahead if limit.until is None else limit.until - now,
        reach=context.reach if limit.until is None else limit.until - now,
        most=LARGEST if limit.fires is None else limit.fires,
    )
    plan = make()
    if plan.passed:
        following = chain_entry(revision, 0, 0)
        if excused := holds.excused(following.queue, following.priority):
            return make(excused=excused)
    return plan


def revision_key(entry: AgendaEntry) -> tuple[str, int]:
    """Owner and number of the revision that a chain entry is about.

    Raises ValueError for a malformed id: DynamoDB would refuse the whole batch of reads for it.
    """
    owner, _, number = entry.id.rpartition("#")
    if not owner or len(number) > STAMP_DIGITS:
        raise ValueError(f"{entry.id!r} is not the id of a revision")
    return owner, int(number)


def _carry_out(planned: Sequence[_PlannedEntry], context: FireContext) -> TickCounts:
    """Claim and send the planned fires, record the fires that are skipped, then replace the entries by the next ones."""
    made = materialise([claim for each in planned for claim in each.claims], context)
    unwatched = _watch_ends(planned, made, context)
    done = made.done - unwatched
    finished = [each for each in planned if all(claim.ref in done for claim in each.claims)]
    recorded, misses = _record_missed(finished, made, context)
    sent, sends = _send_waiting(recorded, context)
    return left(len(planned) - len(finished)) + made.counts + misses + sends + _replace_entries(sent, context)


def _watch_ends(planned: Sequence[_PlannedEntry], made: MaterialiseResult, context: FireContext) -> set[RunRef]:
    """Put the timers of claimed runs that their schedules give a time to end in; the runs whose timers were not accepted."""
    now, checks = context.clock(), dict[RunRef, AgendaEntry]()
    for each in planned:
        for claim in each.claims if each.revision.definition.options.has_end else ():
            check = overdue_check(each.revision, claim.ref, claim.fire, now)
            if check is not None and claim.ref in made.done:
                checks[claim.ref] = check
    accepted = context.services.agenda.put(list(checks.values())) if checks else frozenset()
    return {ref for ref, check in checks.items() if check.key not in accepted}


def _send_waiting(
    recorded: Sequence[tuple[_PlannedEntry, MissedResult]], context: FireContext
) -> tuple[list[_PlannedEntry], TickCounts]:
    """Send the fires that were to be skipped but have a run that waits; the entries of which all were sent."""
    if not any(missed.waiting for _, missed in recorded):
        return [each for each, _ in recorded], NOTHING
    waiting = [[FireClaim(each.revision, fire) for fire in missed.waiting] for each, missed in recorded]
    made = materialise([claim for claims in waiting for claim in claims], context)
    sent = [
        each
        for (each, _), claims in zip(recorded, waiting, strict=True)
        if all(claim.ref in made.done for claim in claims)
    ]
    return sent, made.counts + left(len(recorded) - len(sent))


def _record_missed(
    planned: Sequence[_PlannedEntry], made: MaterialiseResult, context: FireContext
) -> tuple[list[tuple[_PlannedEntry, MissedResult]], TickCounts]:
    """Record the fires that each entry skips, and check whether another ticker has skipped a fire that was claimed late."""
    done, counts, now = [], NOTHING, context.clock()
    for each in planned:
        plan, fresh = each.plan, [claim for claim in each.claims if claim.ref in made.fresh]
        missed = _NONE_MISSED
        try:
            if plan.passed or any(now - claim.fire > LATE for claim in fresh):
                missed = record_missed(each.revision, plan.passed, each.entry.after, context)
        except Exception as problem:  # noqa: BLE001 (an unreadable row of this schedule: this entry's own failure)
            counts += failed_at(each.entry, problem)
            continue
        if (late := [claim.fire for claim in fresh if claim.ref in made.missed]) or missed.skipped:
            counts += TickCounts(fires=FireCounts(misses=(_log_missed(each, late, missed),)))
        done.append((each, missed))
    return done, counts


def _log_missed(planned: _PlannedEntry, late: Sequence[int], missed: MissedResult) -> MissedFires:
    revision, plan = planned.revision, planned.plan
    fires = MissedFires(tenant=revision.tenant, schedule=revision.name, late=len(late), skipped=max(missed.skipped, 0))
    times = [*plan.passed[:1], *plan.passed[-1:], *late[:1], *late[-1:]]
    span = {"first": from_ms(min(times)).isoformat(), "last": from_ms(max(times)).isoformat()} if times else {}
    log.warning("schedule.missed", extra=vars(fires) | {"policy": str(revision.definition.options.catch_up)} | span)
    return fires


def _replace_entries(planned: Sequence[_PlannedEntry], context: FireContext) -> TickCounts:
    """Put the next entries. The handled entry is deleted after its next one was accepted, or if there is none."""
    nexts = [each.plan.following for each in planned if each.plan.following is not None]
    accepted = context.services.agenda.put(nexts) if nexts else frozenset()
    handled, counts = list[_PlannedEntry](), NOTHING
    for each in planned:
        following = each.plan.following
        if following is None:
            ended = _end(each, context)
            counts += ended.counts
            handled += [each] if ended.may_go else []
        elif following.key in accepted and following.key != each.entry.key:
            handled.append(each)
        else:  # not accepted; or the clock went back meanwhile, and the entry is its own next one
            counts += left(1)
    if cut := sum(each.plan.cut for each in handled):
        counts += TickCounts(schedules=ScheduleCounts(cut=cut))
    return counts + removed([each.entry for each in handled], context.services)


def _end(planned: _PlannedEntry, context: FireContext) -> Handled:
    """The chain ends here: withdraw what lies beyond the revision's end, or complete the schedule."""
    revision = planned.revision
    ids = {"tenant": revision.tenant, "schedule": revision.name}
    try:
        if revision.active_until is not None:
            withdraw_beyond(revision, context)
        elif planned.plan.exhausted:
            to, audit = end_of(revision.definition.options), completion_entry(revision, context)
            complete = context.services.schedules.complete  # unless it was changed meanwhile
            if complete(audit, revision=revision.number, to=to):
                log.info("schedule.completed", extra=ids | {"state": str(to)})
                return Handled(may_go=True, counts=TickCounts(schedules=ScheduleCounts(completed=1)))
    except Unavailable as problem:
        return Handled(may_go=False, counts=failed_at(planned.entry, problem))
    return GOES
