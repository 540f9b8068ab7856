"""Submit many one-offs in few requests, and the run that starts when the last of them has ended.

    the run after the batch: timer ─► row (PARKED)
    for each 500 items: agenda entries ─► runs ─► messages ─► entries removed
    marks of refused items ─► the run after the batch starts, if nothing of it is open

Each item is what ``submit`` makes of it, so a process that dies anywhere leaves entries that the ticker finishes or drops. The ids of the
items follow from the batch's idempotency key: a repeated call finds the runs that exist and puts the others. The run after the batch is
PARKED until every item has ended or is marked as refused, so it waits for the repeated call, too.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from quarterjack.domain.run import WAITING, AgendaEntry, RunRow, RunState
from quarterjack.errors import KeyReused, QuarterjackError, Throttled, Unavailable
from quarterjack.fires.claim import one_off_message, put_runs
from quarterjack.fires.context import LOOKAHEAD, FireContext
from quarterjack.fires.gates import admitted
from quarterjack.fires.parking import notify_waiting
from quarterjack.owner.runs.submit import ORPHAN_PATIENCE, SameTime, entry_of, put_entry, same_run, send_new, wait_timer
from quarterjack.state.waits.batch import REFUSED, counts_of
from quarterjack.state.waits.park import BATCH, batch_size, submitted_parked
from quarterjack.values import replace, value

log = logging.getLogger(__name__)

_PART = 500  # items whose entries are put before their runs


@value(kw_only=True)
class BatchItem:
    """One run of a batch."""

    run: RunRow
    same_time: SameTime
    has_place: bool = True  # whether a place of the tenant's runs was taken for it


ItemResult = RunRow | QuarterjackError  # the run in the ledger, or why there is none


def put_batch_run(run: RunRow, size: int, context: FireContext) -> RunRow:
    """Put the run that starts when all ``size`` items have ended; returns it, or the one that exists.

    Raises KeyReused (it waits for another batch, or has another job), Unavailable.
    """
    services, now = context.services, context.clock()
    batch = run.ref.owner.partition("/~")[2]
    reason = f"waits for {size:,} items of batch {batch}"
    run = replace(run, payload=counts_of(batch, size))
    run = submitted_parked(run, awaits=f"{BATCH}{size}", reason=reason, now=now)
    timer = put_entry(wait_timer(run, services, now), services)
    existing = services.ledger.submit(run)
    if existing is None:
        if context.clock() - now > ORPHAN_PATIENCE // 2:  # this process stalled: the ticker may have dropped the timer
            put_entry(replace(timer, created_at=context.clock()), services)
        return run
    services.usage.give_back_place(run.ref.tenant)
    if existing.state is not RunState.PARKED:
        services.agenda.remove([timer])
    if batch_size(existing) != size or existing.job != run.job:
        raise KeyReused(f"idempotency_key: batch {run.ref} exists with other items or another on_end; use another key")
    return existing


def close_batch(batch: RunRow, refused: Sequence[int], context: FireContext) -> RunRow:
    """Mark refused items, and start the run after the batch if all others have ended. Raises Unavailable."""
    services = context.services
    if batch.state is not RunState.PARKED:
        return batch
    services.waits.mark_items(batch.ref, dict.fromkeys(refused, REFUSED), context.clock())
    return notify_waiting(batch.ref, services, context.clock) or batch


def submit_many(items: Sequence[BatchItem], context: FireContext) -> Sequence[ItemResult]:
    """Accept runs; for each the run in the ledger, or the error. No two have the same key. Raises nothing for a single run."""
    results: list[ItemResult] = []
    for start in range(0, len(items), _PART):
        results += _submit_part(items[start : start + _PART], context)
    return results


def _submit_part(items: Sequence[BatchItem], context: FireContext) -> Sequence[ItemResult]:
    services, now = context.services, context.clock()
    entries = [entry_of(item.run, services, now) for item in items]
    accepted = services.agenda.put(entries)
    lost = Unavailable("the agenda did not accept the run; submit the batch again with the same idempotency key")
    results: list[ItemResult] = [lost] * len(items)
    going = [place for place, entry in enumerate(entries) if entry.key in accepted]
    for place, answer in zip(going, _put([items[place].run for place in going], context), strict=True):
        results[place] = _result(items[place], answer, context)
    if context.clock() - now > ORPHAN_PATIENCE // 2:  # this process stalled: the ticker may have dropped entries
        services.agenda.put([replace(entry, created_at=context.clock()) for entry in entries])
    put = [place for place in going if results[place] is items[place].run]
    found = {place: each for place in going if isinstance(each := results[place], RunRow) and place not in set(put)}
    gone = [entries[place] for place, run in found.items() if not _waits_with(run, entries[place])]
    gone += _sent([(items[place].run, entries[place]) for place in put], context)
    services.agenda.remove(gone)
    return results


def _waits_with(run: RunRow, entry: AgendaEntry) -> bool:
    """Whether a run that exists may wait with this very entry."""
    return run.state in WAITING and run.not_before == entry.due


def _put(runs: Sequence[RunRow], context: FireContext) -> Sequence[RunRow | QuarterjackError | None]:
    """Put runs: None for each that was put, or the run that exists, or the error."""
    answers = put_runs(runs, context.services.ledger)
    lost = Unavailable("the ledger did not answer; submit the batch again with the same idempotency key")
    return [answers.get(run.ref, lost) for run in runs]


def _result(item: BatchItem, answer: RunRow | QuarterjackError | None, context: FireContext) -> ItemResult:
    if answer is None:
        return item.run
    if isinstance(answer, QuarterjackError):
        return answer
    if item.has_place:
        context.services.usage.give_back_place(item.run.ref.tenant)
    if answer.parent != item.run.parent:
        return KeyReused(f"idempotency_key: run {answer.ref} exists, and is not of this batch; use another key")
    try:
        return same_run(answer, item.run, item.same_time)
    except KeyReused as problem:
        return problem


def _sent(put: Sequence[tuple[RunRow, AgendaEntry]], context: FireContext) -> list[AgendaEntry]:
    """Send the messages of runs that are due before the next tick; their entries. The ticker sends what was not accepted."""
    due = [(run, entry) for run, entry in put if run.not_before <= context.clock() + LOOKAHEAD]
    admits = {entry.key for entry in admitted(context.gates, [entry for _, entry in due])}
    going = [(run, entry) for run, entry in due if entry.key in admits]
    messages = [(run, one_off_message(run, context.trace)) for run, _ in going]
    try:
        accepted = send_new(messages, context.services, context.clock) if messages else []
    except QuarterjackError as problem:
        log.warning("submit.left_to_tick", extra={"runs": len(messages), "error": str(problem)})
        return []
    return [entry for (_, entry), sent in zip(going, accepted, strict=True) if sent]


def refused_for_good(results: Mapping[int, ItemResult]) -> list[int]:
    """The numbers of the items that have no run, and will have none if the same call is repeated."""
    later = (Unavailable, Throttled, KeyReused)  # the latter has one
    return [n for n, each in results.items() if isinstance(each, QuarterjackError) and not isinstance(each, later)]
