"""Submit a run that belongs to no chain, now or later: a one-off, or a trigger of a schedule.

The agenda entry is put first, then the run, then the message: after a crash between any two, the ticker finishes or drops the rest.

    trigger     (record of the idempotency key ──►) entry ──► run ──► message

A triggered run's key is its instant and a word, so it collides with no fire, and no chain claims it. It has the definition of the current
revision. An update leaves it alone, like a one-off; a later pause or delete withdraws it unless it has started. A trigger after a pause
runs, because the owner asked for it. The instant of an idempotency key is stored first, so that a repeated call, also after a crash of
the first, has the same run.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Sequence
from enum import Enum

from quarterjack.domain.audit import AuditAct, AuditEntryRow
from quarterjack.domain.message import Message, reading
from quarterjack.domain.names import RunRef, aside_ref
from quarterjack.domain.payload import is_same_content
from quarterjack.domain.policies import Overrides, Priority
from quarterjack.domain.run import WAITING, AgendaEntry, EntryKind, RunRow, RunState
from quarterjack.domain.schedule import Head, Revision
from quarterjack.domain.times import HOUR
from quarterjack.errors import Conflict, KeyReused, QuarterjackError, Unavailable
from quarterjack.fires.audit_entry import actor_of, audit_entry
from quarterjack.fires.claim import fire_message, message_of, send
from quarterjack.fires.context import LOOKAHEAD, FireContext, find_revision
from quarterjack.fires.gates import admitted
from quarterjack.fires.plan import overdue_check
from quarterjack.owner.schedules.client_tokens import ScheduleCall
from quarterjack.ports.services import Clock, Services
from quarterjack.state.waits.park import next_check, wait_id
from quarterjack.stores.records import Record
from quarterjack.values import replace, value

log = logging.getLogger(__name__)

Stored = tuple[str | None, str | None]  # a stored payload: its JSON text, or its key in the bucket
StorePayload = Callable[[RunRef], Stored]  # stores a run's own payload
_RACES = 3  # writes that another call with the same key may win
_TOKEN = 32  # characters of the token in a triggered run's key
ORPHAN_PATIENCE = HOUR  # how long an entry is kept without the run that its submitter was about to put


class SameTime(Enum):
    """What a call that finds a run by its key has to agree with. A run that was rescheduled or requeued is found whatever the call says."""

    DUE = "due"  # the instant: the caller gave one
    DELAY = "delay"  # the time from the submission to the due time: the caller gave that
    ANY = "any"  # the key says it all


def submit(
    run: RunRow,
    context: FireContext,
    *,
    same_time: SameTime = SameTime.DUE,
    audit: AuditEntryRow | None = None,
    revision: Revision | None = None,
) -> RunRow:
    """Accept a run; returns the run in the ledger: this one, or the run that its key already has. ``audit``: of a trigger or replay.

    ``revision``: of a trigger, if it was read. Its options say whether the run is watched, until it ends in time.

    Raises KeyReused if that run has other content, or another time as far as ``same_time`` says; Unavailable.
    """
    services, clock = context.services, context.clock
    now = clock()
    check = None if revision is None else overdue_check(revision, run.ref, run.due, now)
    entry = put_entry(entry_of(run, services, now), services, beside=check)
    existing = services.ledger.submit(run, audit)
    if existing is not None:
        services.usage.give_back_place(run.ref.tenant)
        # The new entry is removed, unless it is the same entry with which that run still waits.
        if existing.state not in WAITING or existing.not_before != run.not_before:
            services.agenda.remove([entry])
        return same_run(existing, run, same_time)
    sent_or_left(run, entry, context, revision)
    return run


def same_run(existing: RunRow, run: RunRow, same_time: SameTime) -> RunRow:
    """The run that has the key of ``run``. Raises KeyReused if it is another one.

    Of a one-off whose row was lost and restored from the archive only the job is known.
    """
    is_known = not run.ref.is_one_off or existing.payload or existing.payload_ref or existing.payload_beside
    if not is_known and existing.job == run.job:
        return existing
    compared = ["payload", *(["job"] if run.ref.is_one_off else [])]
    if not (run.ref.is_one_off and existing.revision):
        compared += ["overrides", *(["queue"] if run.ref.is_one_off else [])]
    other = [name for name in compared if getattr(existing, name) != getattr(run, name)]
    if not is_same_content(existing.payload_ref, run.payload_ref):
        other.append("payload_ref")
    if other:
        raise KeyReused(f"idempotency_key: run {run.ref} exists with another {other[0]}; use another key")
    if not _is_same_time(existing, run, same_time):
        raise KeyReused(f"idempotency_key: run {run.ref} exists with another {same_time.value}; use another key")
    return existing


def sent_or_left(run: RunRow, entry: AgendaEntry, context: FireContext, revision: Revision | None = None) -> None:
    """Send the message of a run that was put; if it is due later, its entry does. Raises Unavailable."""
    clock = context.clock
    if clock() - entry.created_at > ORPHAN_PATIENCE // 2:  # this process stalled: the ticker may have dropped the entry
        put_entry(replace(entry, created_at=clock()), context.services)
    if run.not_before <= clock() + LOOKAHEAD:
        send_now(run, entry, context, revision)


def _is_same_time(existing: RunRow, run: RunRow, compared: SameTime) -> bool:
    if compared is SameTime.ANY or existing.revision:
        return True
    if compared is SameTime.DUE:
        return existing.due == run.due
    return existing.due - existing.created_at == run.due - run.created_at


def entry_of(run: RunRow, services: Services, now: int) -> AgendaEntry:
    """The entry with which a run waits. No two of a run that was moved are equal, so removing one leaves the others."""
    shard, identity = services.agenda.layout().shard_of(run.ref.owner), str(run.ref)
    if run.ref.is_one_off and run.revision:
        identity += f"#{run.revision}"
    priority = Overrides.parse(run.overrides).priority or Priority.NORMAL
    return AgendaEntry(
        shard=shard,
        due=run.not_before,
        kind=EntryKind.RUN,
        id=identity,
        created_at=now,
        queue=run.queue,
        priority=priority,
    )


def wait_timer(run: RunRow, services: Services, now: int) -> AgendaEntry:
    """The timer that checks the wait of a run that parks now; ``run`` as it will be.

    Its id has the number of the wait: a timer of an earlier wait is no longer needed.
    """
    due = next_check(parked_at=now, not_before=run.not_before, now=now, ahead=LOOKAHEAD)
    return replace(entry_of(run, services, now), due=due, id=wait_id(str(run.ref), run.wait_no))


def put_entry(entry: AgendaEntry, services: Services, *, beside: AgendaEntry | None = None) -> AgendaEntry:
    """Put the entry of a run, and one ``beside`` it, before the run. Raises Unavailable."""
    entries = [entry] if beside is None else [entry, beside]
    if len(services.agenda.put(entries)) < len(entries):
        raise Unavailable(
            "the agenda did not accept the run; nothing was submitted, try again with the same idempotency key"
        )
    return entry


def send_now(run: RunRow, entry: AgendaEntry, context: FireContext, revision: Revision | None = None) -> None:
    """Send the message of a run that is due before the next tick.

    If that fails, or its low lane is held back, the ticker sends it.
    """
    services, clock = context.services, context.clock
    if not admitted(context.gates, [entry]):
        return
    try:
        trace = context.trace
        message = message_of(run, services, trace) if revision is None else fire_message(run, revision, trace)
        if message is None:
            return
        if send_new([(run, message)], services, clock)[0]:
            services.agenda.remove([entry])
    except QuarterjackError as problem:
        log.warning("submit.left_to_tick", extra={"run_id": str(run.ref), "error": str(problem)})


def send_new(runs: Sequence[tuple[RunRow, Message]], services: Services, clock: Clock) -> list[bool]:
    """Send the messages of new one-offs, or let those with a flow wait for a permit; for each, whether its entry is needed no more."""
    if any(run.overrides is not None and "flow" in run.overrides for run, _ in runs):
        from quarterjack.fires.flow.dispatch import dispatch  # noqa: PLC0415 (who has no flows does not load it)

        return dispatch(runs, services, clock)
    return send([message for _, message in runs], services.work, clock)


@value(kw_only=True)
class TriggerSpec:
    """A request to trigger a schedule."""

    token: str  # random text, for a trigger without a key
    key: str | None = None  # its idempotency key
    payload: Callable[[Head], StorePayload | None] = lambda head: None  # checks it; None: the run has the schedule's
    overrides: str | None = None  # what it overrides of the schedule's policies: JSON text
    tags: str | None = None  # its own: JSON text of an object


def trigger(call: ScheduleCall, spec: TriggerSpec, context: FireContext) -> RunRow:
    """Run a schedule now. Raises NotFound, InvalidInput, AlreadyExists (its key has another payload), Conflict, Unavailable."""
    head, now = call.read(context.services), context.clock()
    store = spec.payload(head)
    token = spec.token if spec.key is None else hashlib.sha256(spec.key.encode()).hexdigest()
    at = now if spec.key is None else _instant_of(head, spec.key, token, context.services, now)
    ref = aside_ref(head.owner, at, f"trigger-{token[:_TOKEN]}")
    text, place = (None, None) if store is None else store(ref)
    run = RunRow(
        ref=ref,
        state=RunState.QUEUED,
        revision=head.revision,
        job=head.job,
        due=at,
        not_before=at,
        created_at=now,
        payload=text,
        payload_ref=place,
        overrides=spec.overrides,
        tags=spec.tags,
        actor=actor_of(context),
        app_version=context.services.tenants.app_versions.current(now).assigned(str(ref)),
    )
    revision = find_revision(head.owner, head.revision, context.services)
    return submit(run, context, audit=audit_entry(AuditAct.TRIGGER, str(ref), context, key=spec.key), revision=revision)


def _instant_of(head: Head, key: str, token: str, services: Services, now: int) -> int:
    """The instant (UTC ms) of an idempotency key's run; the key is kept as long as the ledger keeps ended runs."""
    place, version = f"~trigger~{token[:_TOKEN]}", 0
    for _ in range(_RACES):  # the write first: most keys are new
        expires = now + services.retention
        record = Record(owner=head.owner, key=place, version=version + 1, body={"at": now}, expires=expires)
        if services.records.write(record):
            return now
        there = services.records.read(head.owner, place)
        if there is not None and (there.expires or 0) > now:
            with reading(f"idempotency_key={key!r}", there.body):
                return int(there.body["at"])
        version = 0 if there is None else there.version
    raise Conflict(f"idempotency_key={key!r}: others used it {_RACES} times meanwhile; try again")
