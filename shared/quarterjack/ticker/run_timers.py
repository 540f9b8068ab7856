"""The agenda entries of single runs: when one is due, its run's message is sent, if the run still waits for it.

An entry moves on with its run if the run waits longer than the entry says. An entry without a run is kept for a while, because a
submitter puts the entry before the run. The entry is removed last, so a crash before that only sends the message twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from quarterjack.domain.message import Message
from quarterjack.domain.run import WAITING, AgendaEntry, RunRow
from quarterjack.fires.claim import due_of, message_of, send
from quarterjack.fires.context import LOOKAHEAD, FireContext, TickCounts, postpone
from quarterjack.owner.runs.submit import ORPHAN_PATIENCE


def send_waiting_run(entry: AgendaEntry, context: FireContext, counts: TickCounts) -> bool:
    """Send the message of a run that waits. Returns whether the entry may be deleted."""
    run = context.services.ledger.read(entry.run)
    answer = _message_for(entry, run, context)
    if not isinstance(answer, Message):
        return answer
    accepted = send([answer], context.services.work, context.clock)
    now = context.clock()
    counts.count_sends([due_of(answer, now, context.services.work)], accepted, now)
    return accepted[0]


def send_waiting_runs(entries: Sequence[AgendaEntry], context: FireContext, counts: TickCounts) -> frozenset[str]:
    """Do the same for many entries in batches of reads, messages and deletions; returns the keys of the entries that were handled.

    The other entries have malformed ids, or their runs could not be read: the caller handles each of them alone.
    """
    refs = {}
    for entry in entries:
        with suppress(ValueError):  # a malformed id
            refs[entry.key] = entry.run
    looked = context.services.ledger.look(list(refs.values()))
    runs = {key: looked.found.get(ref) for key, ref in refs.items() if ref not in looked.unanswered}
    going: list[tuple[AgendaEntry, Message]] = []
    gone: list[AgendaEntry] = []
    for entry in entries:
        if entry.key not in runs:
            continue
        try:
            answer = _message_for(entry, runs[entry.key], context)
        except Exception as problem:  # noqa: BLE001 (this entry's own failure)
            counts.failed_at(entry, problem)
            continue
        if isinstance(answer, Message):
            going.append((entry, answer))
        elif answer:
            gone.append(entry)
        else:
            counts.left += 1
    accepted = send([message for _, message in going], context.services.work, context.clock)
    gone += [entry for (entry, _), sent in zip(going, accepted, strict=True) if sent]
    now = context.clock()
    counts.count_sends([due_of(message, now, context.services.work) for _, message in going], accepted, now)
    counts.left += len(accepted) - sum(accepted)
    counts.remove(gone, context.services)
    return frozenset(runs)


def _message_for(entry: AgendaEntry, run: RunRow | None, context: FireContext) -> Message | bool:
    """The message that a run waits for; if it waits for none, whether its entry may be deleted."""
    now = context.clock()
    if run is None:
        return now - entry.created_at > ORPHAN_PATIENCE
    if run.state not in WAITING:
        return True
    if run.not_before > entry.due and run.not_before > now + LOOKAHEAD:
        return postpone(entry, run.not_before, context.services)
    return message_of(run, context.services, context.trace) or True
