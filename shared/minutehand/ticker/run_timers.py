"""Order: the agenda's entries of single runs. When one is due, its run's message is sent, if the run still waits for one.

A run that waits longer than its entry says moves on with it; a lone entry whose run is missing is kept for a while, because it is put
before its run is. The entry goes last, so dying before that sends again what the lease absorbs.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from minutehand.domain.agenda_entry import AgendaEntry
from minutehand.domain.formats.message import Message
from minutehand.domain.run import WAITING, RunRow
from minutehand.fires.context import FireContext
from minutehand.fires.plan import LOOKAHEAD
from minutehand.fires.send import message_of, send
from minutehand.fires.tick_counts import TickCounts
from minutehand.owner.runs.submit import ORPHAN_PATIENCE
from minutehand.ports.clock import Clock
from minutehand.ports.services import Services


def send_waiting_run(entry: AgendaEntry, context: FireContext, counts: TickCounts) -> bool:
    """Send the message of a run that waits. Returns whether the entry may be deleted."""
    services, clock = context.services, context.clock
    answer = _order(entry, services.ledger.read(entry.run), services, clock, context.trace)
    if not isinstance(answer, Message):
        return answer
    sent = send([answer], services.work, clock)[0]
    counts.sent += sent
    return sent


def send_waiting_runs(entries: Sequence[AgendaEntry], context: FireContext, counts: TickCounts) -> frozenset[str]:
    """Do the same for many entries in batches of reads, messages and deletions; returns the keys of the entries that were handled.

    The other entries have malformed ids, or their runs were not answered: the caller handles each of them alone.
    """
    services, clock = context.services, context.clock
    runs = _look(entries, services)
    going: list[tuple[AgendaEntry, Message]] = []
    gone: list[AgendaEntry] = []
    for entry in entries:
        if entry.key not in runs:
            continue
        try:
            answer = _order(entry, runs[entry.key], services, clock, context.trace)
        except Exception as problem:  # noqa: BLE001 (this entry's own failure)
            counts.failed_at(entry, problem)
            continue
        if isinstance(answer, Message):
            going.append((entry, answer))
        elif answer:
            gone.append(entry)
        else:
            counts.left += 1
    accepted = send([message for _, message in going], services.work, clock)
    gone += [entry for (entry, _), sent in zip(going, accepted, strict=True) if sent]
    counts.sent += sum(accepted)
    counts.left += len(accepted) - sum(accepted)
    counts.remove(gone, services)
    return frozenset(runs)


def _look(entries: Sequence[AgendaEntry], services: Services) -> dict[str, RunRow | None]:
    """The runs of entries, by the entries' keys."""
    refs = {}
    for entry in entries:
        with suppress(ValueError):  # the id of no run
            refs[entry.key] = entry.run
    looked = services.ledger.look(list(refs.values()))
    return {key: looked.found.get(ref) for key, ref in refs.items() if ref not in looked.unanswered}


def _order(
    entry: AgendaEntry, run: RunRow | None, services: Services, clock: Clock, trace: str | None
) -> Message | bool:
    """The message that a run waits for; or, if it waits for none, whether its entry may go."""
    if run is None:
        return clock() - entry.created_at > ORPHAN_PATIENCE
    if run.state not in WAITING:
        return True
    if run.not_before > entry.due and run.not_before > clock() + LOOKAHEAD:
        return put_again(entry, run.not_before, services)
    message = message_of(run, services, trace)
    return True if message is None else message


def put_again(entry: AgendaEntry, due: int, services: Services) -> bool:
    """Leave the same entry at a later time."""
    later = replace(entry, due=due, failures=0)
    return later.key in services.agenda.put([later])
