"""Submit a run that belongs to no chain, now or later: a one-off, or a manual trigger of a schedule.

The agenda entry is put first, then the run, then the message: after a crash between any two, the ticker finishes or drops the rest.
"""

from __future__ import annotations

import logging

from minutehand.domain.names import shard_of
from minutehand.domain.run import WAITING, AgendaEntry, EntryKind, RunRow
from minutehand.domain.times import MINUTE
from minutehand.errors import AlreadyExists, MinutehandError, Unavailable
from minutehand.fires.claim import message_of, send
from minutehand.fires.plan import LOOKAHEAD
from minutehand.ports.clock import Clock
from minutehand.ports.services import Services

log = logging.getLogger(__name__)

ORPHAN_PATIENCE = 10 * MINUTE  # how long an entry is kept without the run that its submitter was about to put


def submit(
    run: RunRow, services: Services, clock: Clock, *, same_time: bool = True, trace: str | None = None
) -> RunRow:
    """Accept a run; returns the run in the ledger: this one, or the run that its key already has.

    Raises AlreadyExists if that run has other content, or with ``same_time`` another due time; Unavailable.
    """
    entry = _entry(run, services, clock())
    _put(entry, services)
    existing = services.ledger.submit(run)
    if existing is not None:
        return _existing(existing, run, entry, services, same_time=same_time)
    if clock() - entry.created_at > ORPHAN_PATIENCE // 2:  # this process stalled: the ticker may have dropped the entry
        _put(_entry(run, services, clock()), services)
    if run.not_before <= clock() + LOOKAHEAD:
        _send_now(run, entry, services, clock, trace)
    return run


def _existing(existing: RunRow, run: RunRow, entry: AgendaEntry, services: Services, *, same_time: bool) -> RunRow:
    """The key has its run already. The new entry is removed, unless it is the same entry with which that run still waits."""
    if existing.state not in WAITING or existing.not_before != run.not_before:
        services.agenda.remove([entry])
    _same_or_raise(existing, run, same_time=same_time)
    return existing


def _entry(run: RunRow, services: Services, now: int) -> AgendaEntry:
    shard = shard_of(run.ref.owner, services.agenda.shards())
    return AgendaEntry(
        shard=shard, due=run.not_before, kind=EntryKind.RUN, id=str(run.ref), created_at=now, queue=run.queue
    )


def _put(entry: AgendaEntry, services: Services) -> None:
    if entry.key not in services.agenda.put([entry]):
        raise Unavailable(
            "the agenda did not accept the run; nothing was submitted, try again with the same idempotency key"
        )


def _same_or_raise(existing: RunRow, run: RunRow, *, same_time: bool) -> None:
    """The same key must mean the same content."""
    content = ("payload", "payload_ref", *(("job", "overrides", "queue") if run.ref.is_one_off else ()))
    for field in content:
        if getattr(existing, field) != getattr(run, field):
            raise AlreadyExists(f"idempotency_key: run {run.ref} exists with another {field}; use another key")
    if same_time and existing.due != run.due:
        raise AlreadyExists(f"idempotency_key: run {run.ref} exists for another time; use another key")


def _send_now(run: RunRow, entry: AgendaEntry, services: Services, clock: Clock, trace: str | None) -> None:
    """Send the message now if the run is due before the next tick; if that fails, the ticker sends it."""
    try:
        message = message_of(run, services, trace)
        if message is not None and send([message], services.work, clock)[0]:
            services.agenda.remove([entry])
    except MinutehandError as problem:
        log.warning("submit.left_to_tick", extra={"run_id": str(run.ref), "error": str(problem)})
