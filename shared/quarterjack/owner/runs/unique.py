"""Submit a run under a unique key: at most one run has a key of a job at a time, and at most one more follows it.

    read the record and the runs that it names ─► the key is free: entry ─► record and run, one transaction ─► message
                                               └► a run has it: ``on_duplicate`` decides

The record names runs, and their rows say whether they have ended. So the end of a run frees its key without a write.

| a process dies | why nothing is lost |
|---|---|
| before the transaction | the entry has no run, and the ticker drops it |
| after the transaction | the entry sends the run's message; a follower's timer checks whether the run before it has ended |
| that ended a run, before it woke the follower | its message, letter or entry comes back and wakes it; else the timer |

A follower is put PARKED, and then the row of the run before it is read once more; who ends that run reads the record after it has
written the end. So one of the two sees the other.
"""

from __future__ import annotations

from quarterjack.domain.payload import size
from quarterjack.domain.policies import OnDuplicate, Overrides
from quarterjack.domain.run import RunRow, RunState
from quarterjack.domain.times import from_ms
from quarterjack.errors import Conflict
from quarterjack.fires.context import LOOKAHEAD, FireContext, run_must_exist
from quarterjack.fires.parking import notify_waiting
from quarterjack.owner.runs.submit import (
    ORPHAN_PATIENCE,
    SameTime,
    StorePayload,
    entry_of,
    put_entry,
    same_run,
    send_now,
    sent_or_left,
    wait_timer,
)
from quarterjack.state.before_start import resubmit
from quarterjack.state.waits.park import RUN, leased_from, submitted_parked
from quarterjack.state.waits.unique import KeyHolders, UniqueSpec, has_begun, holders
from quarterjack.stores.siblings import INLINE_PAYLOAD
from quarterjack.stores.unique_keys import UniqueKey
from quarterjack.values import replace

_ROUNDS = 10  # times that the key, or the run that has it, may change between the read and the write


def submit_unique(
    run: RunRow,
    store: StorePayload,
    spec: UniqueSpec,
    context: FireContext,
    *,
    same_time: SameTime = SameTime.DUE,
    keyed: bool = False,
) -> RunRow:
    """Accept a run unless another one has its unique key; returns the run in the ledger: this one, or the one that has the key.

    ``run`` has no payload yet: ``store`` stores it. ``keyed``: its id is an idempotency key, so it may exist.
    Raises Conflict (``on_duplicate``, or the key changed too often meanwhile), KeyReused, Unavailable.
    """
    if keyed and (existing := context.services.ledger.read(run.ref)) is not None:
        return _returned(same_run(existing, _with_payload(run, store), same_time), context)
    for _ in range(_ROUNDS):
        record, held = _read(run, spec, context)
        done = _submitted(run, store, spec, record, held, context)
        if done is not None:
            return done
    raise Conflict(f"unique={spec.key!r}: its run changed {_ROUNDS} times meanwhile; submit again")


def _read(run: RunRow, spec: UniqueSpec, context: FireContext) -> tuple[UniqueKey | None, KeyHolders]:
    services = context.services
    record = services.unique_keys.read(run.ref.tenant, run.job, spec.key)
    if record is None:
        return None, KeyHolders()
    first = services.ledger.read(record.run)
    follower = None if record.follower is None else services.ledger.read(record.follower)
    return record, holders(first, follower, span=spec.span, now=context.clock())


def _submitted(
    run: RunRow, store: StorePayload, spec: UniqueSpec, record: UniqueKey | None, held: KeyHolders, context: FireContext
) -> RunRow | None:
    """The answer to one round; None: what was read has changed."""
    first, version = held.first, 1 if record is None else record.version + 1
    key = UniqueKey(tenant=run.ref.tenant, job=run.job, text=spec.key, run=run.ref, version=version)
    if first is None:
        return _put(_with_payload(run, store), key, context)
    if spec.on_duplicate is OnDuplicate.RETURN:
        return _returned(first, context)
    last = held.follower or first
    if spec.on_duplicate is OnDuplicate.AFTER and held.follower is None:
        return _put_follower(_with_payload(run, store), replace(key, run=first.ref, follower=run.ref), first, context)
    if spec.on_duplicate is OnDuplicate.REFUSE or has_begun(last):
        _give_back(context, run)
        raise Conflict(f"unique={spec.key!r}: {_why(last, spec)}")
    return _resubmitted(run, store, last, context)


def _why(run: RunRow, spec: UniqueSpec) -> str:
    since = f"run {str(run.ref)!r} has the key: submitted {from_ms(run.created_at).isoformat(timespec='seconds')}, now {run.state}"
    if spec.on_duplicate is OnDuplicate.REPLACE:
        return f"{since}, so it cannot be replaced; nothing was submitted; on_duplicate='after' submits one more run after it"
    until = "its end" if spec.span is None else from_ms(run.created_at + spec.span).isoformat(timespec="seconds")
    return f"{since}; nothing was submitted; submit again after {until}, or give another on_duplicate"


def _with_payload(run: RunRow, store: StorePayload) -> RunRow:
    text, place = store(run.ref)
    return replace(run, payload=text, payload_ref=place)


def _returned(run: RunRow, context: FireContext) -> RunRow:
    _give_back(context, run)
    return run


def _give_back(context: FireContext, run: RunRow) -> None:
    context.services.usage.give_back_place(run.ref.tenant)


def _put(run: RunRow, key: UniqueKey, context: FireContext) -> RunRow | None:
    """Put the first run of a key."""
    services = context.services
    entry = put_entry(entry_of(run, services, context.clock()), services)
    if not _was_put(run, key, context):
        services.agenda.remove([entry])
        return None
    sent_or_left(run, entry, context)
    return run


def _was_put(run: RunRow, key: UniqueKey, context: FireContext) -> bool:
    """Put a run with its key; False: the key has moved. A run that is there was put by a request whose answer was lost.

    Raises KeyReused: or by another call with its idempotency key, and with another payload.
    """
    if context.services.unique_keys.submit(run, key):
        return True
    there = context.services.ledger.read(run.ref)
    return there is not None and same_run(there, run, SameTime.ANY) is there


def _put_follower(run: RunRow, key: UniqueKey, first: RunRow, context: FireContext) -> RunRow | None:
    """Put the run that starts when the first one has ended. It waits as a run that has parked."""
    services, now = context.services, context.clock()
    reason = f"waits for the end of run {first.ref}"
    run = submitted_parked(run, awaits=f"{RUN}{first.ref}", reason=reason, now=now, deadline=_deadline(run))
    timer = put_entry(wait_timer(run, services, now), services)
    if not _was_put(run, key, context):
        services.agenda.remove([timer])
        return None
    if context.clock() - now > ORPHAN_PATIENCE // 2:  # this process stalled: the ticker may have dropped the timer
        put_entry(replace(timer, created_at=context.clock()), services)
    return notify_waiting(run.ref, services, context.clock) or run


def _deadline(run: RunRow) -> float | None:
    return Overrides.parse(run.overrides).deadline


# A run that has not begun gets another payload.


def _resubmitted(run: RunRow, store: StorePayload, seen: RunRow, context: FireContext) -> RunRow | None:
    """The run that has the key, with the payload, time and policies of ``run``."""
    services, is_parked = context.services, seen.state is RunState.PARKED
    text, place = store(seen.ref)
    beside = text if text is not None and size(text) > INLINE_PAYLOAD else None
    order = replace(
        run,
        not_before=leased_from(seen.wake_at or 0, due=run.due, deadline=_deadline(run)) if is_parked else run.due,
        payload=None if beside is not None else text,
        payload_ref=place,
        payload_beside=beside is not None,
    )
    entries = None
    if not is_parked:
        now, after = context.clock(), replace(order, ref=seen.ref, revision=seen.revision + 1)
        entries = entry_of(after, services, now), entry_of(seen, services, now)
    move = resubmit(order=order, revision=seen.revision, parked=is_parked)
    if not services.unique_keys.resubmit(seen, move, beside=beside, entries=entries):
        return None
    _give_back(context, seen)
    if is_parked:  # the process that ended the run before it may have read the old revision
        return notify_waiting(seen.ref, services, context.clock)
    there = run_must_exist(seen.ref, services.ledger.read(seen.ref))
    if entries is not None and run.due <= context.clock() + LOOKAHEAD:
        send_now(there, entries[0], context)
    return there
