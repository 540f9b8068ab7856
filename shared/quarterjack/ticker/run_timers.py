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
from quarterjack.fires.context import (
    LOOKAHEAD,
    FireContext,
    Handled,
    TickCounts,
    failed_at,
    left,
    postpone,
    removed,
    sends,
)
from quarterjack.owner.runs.submit import ORPHAN_PATIENCE


def send_waiting_run(entry: AgendaEntry, context: FireContext) -> Handled:
    """Send the message of a run that waits."""
    run = context.services.ledger.read(entry.run)
    answer = _message_for(entry, run, context)
    if not isinstance(answer, Message):
        return Handled(may_go=answer)
    accepted, counts = _send([answer], context)
    return Handled(may_go=accepted[0], counts=counts)


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
    if run.state not in WAITING:
        return True
    if run.not_before > entry.due and run.not_before > now + LOOKAHEAD:
        return postpone(entry, run.not_before, context.services)
    return message_of(run, context.services, context.trace) or True
