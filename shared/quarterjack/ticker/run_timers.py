"""The agenda entries of single runs: when one is due, its run's message is sent, if the run still waits for it.

An entry moves on with its run if the run waits longer than the entry says, or has a worker that may vanish. An entry without a run is
kept for a while, because a submitter puts the entry before the run. The entry is removed last, so a crash before that only sends the
message twice.

A watch entry finds the at-most-once run whose worker vanished.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress

from quarterjack.domain.message import Message
from quarterjack.domain.run import WAITING, AgendaEntry, RunRow, RunState
from quarterjack.domain.times import MINUTE, SECOND
from quarterjack.fires.claim import due_of, message_of, send
from quarterjack.fires.context import (
    GOES,
    LOOKAHEAD,
    STAYS,
    FireContext,
    Handled,
    ScheduleCounts,
    TickCounts,
    WaitCounts,
    failed_at,
    left,
    postpone,
    removed,
    sends,
)
from quarterjack.fires.parking import keep_recorded, tell_end, wake_if_over
from quarterjack.owner.runs.change import end_children
from quarterjack.owner.runs.submit import ORPHAN_PATIENCE
from quarterjack.state.ending import lose
from quarterjack.state.lease import SKEW, has_live_lease, takeable_at
from quarterjack.state.refusal import vanished
from quarterjack.state.waits.park import kind_of_wait, next_check, wait_id
from quarterjack.state.waits.retention import must_be_kept_again
from quarterjack.values import replace
from quarterjack.worker.admission.refused import record, report

log = logging.getLogger(__name__)

_UNDER_WAY = LOOKAHEAD + 5 * MINUTE  # how long at least an entry rests whose run has a worker


def send_waiting_run(entry: AgendaEntry, context: FireContext) -> Handled:
    """Send the message of a run that waits."""
    run = context.services.ledger.read(entry.run)
    answer, checked = _message_for(entry, run, context), _checked(entry, run, context)
    if not isinstance(answer, Message):
        return Handled(may_go=answer, counts=checked)
    accepted, counts = _send([answer], context)
    return Handled(may_go=accepted[0], counts=counts + checked)


def send_waiting_runs(entries: Sequence[AgendaEntry], context: FireContext) -> tuple[frozenset[str], TickCounts]:
    """Do the same for many entries in batches of reads, messages and deletions; the keys of the entries that were handled.

    The other entries have malformed ids, or their runs could not be read: the caller handles each of them alone.
    """
    refs = {}
    for entry in entries:
        with suppress(ValueError):  # a malformed id
            refs[entry.key] = entry.run
    looked = context.services.ledger.look(list(refs.values()))
    runs = {key: looked.found.get(ref) for key, ref in refs.items() if ref not in looked.unanswered}
    going: list[tuple[AgendaEntry, Message]] = []
    gone, counts = list[AgendaEntry](), TickCounts()
    for entry in entries:
        if entry.key not in runs:
            continue
        try:
            answer = _message_for(entry, runs[entry.key], context)
        except Exception as problem:  # noqa: BLE001 (this entry's own failure)
            counts += failed_at(entry, problem)
            continue
        counts += _checked(entry, runs[entry.key], context)
        if isinstance(answer, Message):
            going.append((entry, answer))
        elif answer:
            gone.append(entry)
        else:
            counts += left(1)
    accepted, sends = _send([message for _, message in going], context)
    gone += [entry for (entry, _), sent in zip(going, accepted, strict=True) if sent]
    counts += sends + left(len(accepted) - sum(accepted)) + removed(gone, context.services)
    return frozenset(runs), counts


def _send(messages: Sequence[Message], context: FireContext) -> tuple[list[bool], TickCounts]:
    """Send messages; for each, whether it was accepted."""
    work = context.services.work
    accepted, now = send(messages, work, context.clock), context.clock()
    return accepted, TickCounts(messages=sends([due_of(each, now, work) for each in messages], accepted, now))


def _message_for(entry: AgendaEntry, run: RunRow | None, context: FireContext) -> Message | bool:
    """The message that a run waits for; if it waits for none, whether its entry may be deleted."""
    now = context.clock()
    if run is None:
        return now - entry.created_at > ORPHAN_PATIENCE
    if run.state is RunState.CANCELLED:
        end_children(run, context)  # whoever cancelled it may have ended before that
    if run.state is RunState.RUNNING:
        return _if_its_worker_vanishes(entry, run, context)
    if run.state not in WAITING or run.is_undecided:
        return True
    if run.state is RunState.PARKED and run.not_before > now + LOOKAHEAD:
        return _check_wait(entry, run, context)
    if run.not_before > entry.due and run.not_before > now + LOOKAHEAD:
        return postpone(entry, run.not_before, context.services)
    return message_of(run, context.services, context.trace) or True


def _if_its_worker_vanishes(entry: AgendaEntry, run: RunRow, context: FireContext) -> Message | bool:
    """The message of a run whose worker let its lease lapse; the entry of one that is under way moves on.

    Such a run may have no message: its worker can have leased it by a message that another worker has deleted since, when it parked
    that run, or left this entry for it.
    """
    now = context.clock()
    if entry.id == wait_id(str(run.ref), run.wait_no + 1):  # put before the run parks, by a worker that may be slow
        return False
    if has_live_lease(run, now):
        return postpone(entry, max(takeable_at(run.lease_until or 0), now + _UNDER_WAY), context.services)
    return message_of(run, context.services, context.trace) or True


def _checked(entry: AgendaEntry, run: RunRow | None, context: FireContext) -> TickCounts:
    """Counts the check of a wait, by the run as it was read for that."""
    if run is None or run.state is not RunState.PARKED or entry.id != wait_id(str(run.ref), run.wait_no):
        return TickCounts()
    age = max(context.clock() - (run.parked_at or run.created_at), 0)
    return TickCounts(waits=WaitCounts(checks=((kind_of_wait(run.awaits), age),)))


def _check_wait(entry: AgendaEntry, run: RunRow, context: FireContext) -> Message | bool:
    """The message of a parked run for which what it waits for has happened; else its timer moves on."""
    services, now = context.services, context.clock()
    if entry.id == str(run.ref):  # the end of a sleep, or of the wait in which a message came back
        return postpone(entry, run.not_before, services)
    if entry.id != wait_id(str(run.ref), run.wait_no):
        return True
    woken = wake_if_over(run, services, context.clock, rows=True)
    if woken is not None:
        return message_of(woken, services, context.trace) or True
    if must_be_kept_again(kept_at=entry.created_at, now=now, retention=services.retention):
        if not keep_recorded(
            run, services, context.clock, until=now + 2 * services.retention // 3, since=entry.created_at
        ):
            return postpone(entry, min(now + LOOKAHEAD + MINUTE, run.not_before), services)  # the rest soon
        entry = replace(entry, created_at=now)
    due = next_check(parked_at=run.parked_at or now, not_before=run.not_before, now=now, ahead=LOOKAHEAD)
    return postpone(entry, due, services)


def watch_run(entry: AgendaEntry, context: FireContext) -> Handled:
    """Declare an at-most-once run LOST that is RUNNING past its lease; check a live one again at the end of its lease."""
    services, clock = context.services, context.clock
    now, token = clock(), entry.id.rpartition("#")[2]
    run = services.ledger.read(entry.run)
    if run is not None and run.state is RunState.LOST:  # its dead letter may not have been sent
        tell_end(run, services, clock)
        report(run, services)
        return GOES
    if run is None or run.state is not RunState.RUNNING or run.lease_token != token:
        lease_may_follow = (run is None or run.state in WAITING) and now < entry.due + 2 * SKEW
        return Handled(may_go=not lease_may_follow)
    if now < entry.due:
        return STAYS
    ended = run.end_time(now)
    moved = services.ledger.move(run.ref, lose(now=ended, expires=ended + services.retention, token=token))
    if moved.applied and moved.run is not None:
        log.warning("run.lost", extra={"run_id": str(run.ref), "job": run.job, "tenant": run.ref.tenant})
        last = vanished(run, now)
        if last is not None:
            record(replace(last, next_attempt_at=None), services.siblings)
        tell_end(moved.run, services, clock)
        report(moved.run, services)
        return Handled(may_go=True, counts=TickCounts(schedules=ScheduleCounts(lost=1)))
    until = takeable_at((moved.run or run).lease_until or 0)
    return Handled(may_go=postpone(entry, max(until, now + SECOND), services))
