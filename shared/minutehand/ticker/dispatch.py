"""Timers: every kind of agenda entry but a chain's is one, and is handled by itself. A failing one stops no other.

A kind is a function that says whether its entry may go. It is called again for an entry that stayed, and by two tickers at once, so
what it does must be harmless when done twice.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from minutehand.domain.agenda_entry import AgendaEntry, EntryKind
from minutehand.domain.run import WAITING, RunState
from minutehand.domain.times import SECOND
from minutehand.fires.chain import advance_chains
from minutehand.fires.plan import REACH
from minutehand.fires.tick_counts import TickCounts
from minutehand.flow.attempts import record
from minutehand.flow.backfill_piece import piece
from minutehand.flow.report import report
from minutehand.flow.slot import look_at
from minutehand.owner.schedules.resume import end_pause
from minutehand.ports.clock import Clock
from minutehand.ports.services import Services
from minutehand.state.decisions import vanished
from minutehand.state.transitions import SKEW, lose
from minutehand.ticker.run_timers import put_again, send_waiting_run, send_waiting_runs
from minutehand.undertaker.notify import notify
from minutehand.undertaker.success_watch import watch_success

log = logging.getLogger(__name__)


# Entry, services, clock, trace, counts → whether the entry may go.
Kind = Callable[[AgendaEntry, Services, Clock, str | None, TickCounts], bool]


def dispatch(
    entries: Sequence[AgendaEntry], services: Services, clock: Clock, *, reach: int = REACH, trace: str | None = None
) -> TickCounts:
    """Handle entries of any kinds; each stays unless all of it was done."""
    chains = [entry for entry in entries if entry.kind is EntryKind.CHAIN]
    result = advance_chains(chains, services, clock, reach=reach, trace=trace) if chains else TickCounts()
    result.entries = len(entries)
    others = [entry for entry in entries if entry.kind is not EntryKind.CHAIN]
    runs = [entry for entry in others if entry.kind is EntryKind.RUN]
    done = send_waiting_runs(runs, services, clock, trace, result) if len(runs) > 1 else frozenset()
    timers = [entry for entry in others if entry.key not in done]
    timers.sort(key=lambda entry: entry.kind is not EntryKind.NOTICE)  # what began is told before its end is found
    for entry in timers:
        _one(entry, services, clock, trace, result)
    return result


def _one(entry: AgendaEntry, services: Services, clock: Clock, trace: str | None, result: TickCounts) -> None:
    """Handle one timer; its failure is its own: counted on the entry, quarantined in the end."""
    try:
        done = KINDS[entry.kind](entry, services, clock, trace, result)
    except Exception as problem:  # noqa: BLE001 (nothing else stops)
        result.failed_at(entry, problem)
        return
    if done:
        result.remove([entry], services)
    else:
        result.left += 1


def _watch(entry: AgendaEntry, services: Services, clock: Clock, trace: str | None, result: TickCounts) -> bool:
    """An at-most-once run still RUNNING past its lease is LOST; a live one is looked at again at its lease's end."""
    del trace
    now, token = clock(), entry.id.rpartition("#")[2]
    run = services.ledger.read(entry.run)
    if (
        run is not None and run.state is RunState.LOST
    ):  # somebody died before the letter was sent, or is about to send it
        report(run, services)
        return True
    if run is None or run.state is not RunState.RUNNING or run.lease_token != token:
        announced = (run is None or run.state in WAITING) and now < entry.due + SKEW
        return not announced  # the lease that it announces may still be on its way
    if now < entry.due:
        return False
    moved = services.ledger.move(run.ref, lose(now=now, expires=now + services.retention, token=token))
    if moved.applied and moved.run is not None:
        result.lost += 1
        log.warning("run.lost", extra={"run_id": str(run.ref), "job": run.job, "tenant": run.ref.tenant})
        last = vanished(run, now)
        if last is not None:
            record(replace(last, next_attempt_at=None), services.ledger)
        report(moved.run, services)
        return True
    until = max((moved.run or run).lease_until or 0, now) + SKEW + SECOND
    return put_again(entry, until, services)


KINDS: dict[EntryKind, Kind] = {
    EntryKind.RUN: send_waiting_run,
    EntryKind.WATCH: _watch,
    EntryKind.RESUME: end_pause,
    EntryKind.BACKFILL: piece,
    EntryKind.SLOT: look_at,
    EntryKind.NOTICE: notify,
    EntryKind.EXPECT: watch_success,
}
