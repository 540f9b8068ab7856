"""Dispatch agenda entries by their kind. Entries of chains are handled together, each other entry by a timer of its own.

A timer is a function that returns whether its entry may be deleted. It is called again for an entry that stayed, perhaps by two tickers
at the same time, so calling it twice must be harmless. A failing timer stops no other entry.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from minutehand.domain.agenda_entry import AgendaEntry, EntryKind
from minutehand.domain.run import WAITING, RunState
from minutehand.domain.times import SECOND
from minutehand.fires.agenda_entries import postpone
from minutehand.fires.chain import advance_chains
from minutehand.fires.context import FireContext
from minutehand.fires.tick_counts import TickCounts
from minutehand.owner.backfill.timer import look_after
from minutehand.owner.schedules.resume import end_pause
from minutehand.state.lease_refusal import vanished
from minutehand.state.transitions.ending import lose
from minutehand.state.transitions.lease import SKEW
from minutehand.ticker.run_timers import send_waiting_run, send_waiting_runs
from minutehand.undertaker.notify import notify
from minutehand.undertaker.success_watch import watch_success
from minutehand.worker.admission.attempts import record
from minutehand.worker.admission.report import report
from minutehand.worker.admission.slot import look_at

log = logging.getLogger(__name__)

# Handles one entry and counts what it did; returns whether the entry may be deleted.
Timer = Callable[[AgendaEntry, FireContext, TickCounts], bool]


def dispatch(entries: Sequence[AgendaEntry], context: FireContext) -> TickCounts:
    """Handle entries of any kinds. An entry stays unless all of its work was done."""
    chains = [entry for entry in entries if entry.kind is EntryKind.CHAIN]
    counts = advance_chains(chains, context) if chains else TickCounts()
    counts.entries = len(entries)
    others = [entry for entry in entries if entry.kind is not EntryKind.CHAIN]
    runs = [entry for entry in others if entry.kind is EntryKind.RUN]
    done = send_waiting_runs(runs, context, counts) if len(runs) > 1 else frozenset()
    timers = [entry for entry in others if entry.key not in done]
    # The notice of an incident goes before the timer that looks for its end.
    timers.sort(key=lambda entry: entry.kind is not EntryKind.NOTICE)
    for entry in timers:
        _run_timer(entry, context, counts)
    return counts


def _run_timer(entry: AgendaEntry, context: FireContext, counts: TickCounts) -> None:
    """Handle one timer. A failure is counted on its entry, which moves aside in the end, and stops no other entry."""
    try:
        done = TIMERS[entry.kind](entry, context, counts)
    except Exception as problem:  # noqa: BLE001 (no other entry stops)
        counts.failed_at(entry, problem)
        return
    if done:
        counts.remove([entry], context.services)
    else:
        counts.left += 1


def _watch(entry: AgendaEntry, context: FireContext, counts: TickCounts) -> bool:
    """Declare an at-most-once run LOST that is RUNNING past its lease; check a live one again at the end of its lease."""
    services, clock = context.services, context.clock
    now, token = clock(), entry.id.rpartition("#")[2]
    run = services.ledger.read(entry.run)
    if run is not None and run.state is RunState.LOST:  # its dead letter may not have been sent
        report(run, services)
        return True
    if run is None or run.state is not RunState.RUNNING or run.lease_token != token:
        lease_may_follow = (run is None or run.state in WAITING) and now < entry.due + SKEW
        return not lease_may_follow
    if now < entry.due:
        return False
    moved = services.ledger.move(run.ref, lose(now=now, expires=now + services.retention, token=token))
    if moved.applied and moved.run is not None:
        counts.lost += 1
        log.warning("run.lost", extra={"run_id": str(run.ref), "job": run.job, "tenant": run.ref.tenant})
        last = vanished(run, now)
        if last is not None:
            record(replace(last, next_attempt_at=None), services.ledger)
        report(moved.run, services)
        return True
    until = max((moved.run or run).lease_until or 0, now) + SKEW + SECOND
    return postpone(entry, until, services)


TIMERS: dict[EntryKind, Timer] = {
    EntryKind.RUN: send_waiting_run,
    EntryKind.WATCH: _watch,
    EntryKind.RESUME: end_pause,
    EntryKind.BACKFILL: look_after,
    EntryKind.SLOT: look_at,
    EntryKind.NOTICE: notify,
    EntryKind.EXPECT: watch_success,
}
