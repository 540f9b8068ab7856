"""Replay: a new one-off with exactly the job, payload, policies and ``ctx.scheduled_at`` of a run that has ended.

A schedule may have been changed or deleted since: the run's row names its revision, and revisions never change.
"""

from __future__ import annotations

from dataclasses import replace

from minutehand.domain.names import RunRef
from minutehand.domain.run import RunRow, RunState
from minutehand.errors import AlreadyExists, Conflict, NotFound
from minutehand.fires.current import read_revision
from minutehand.owner.runs.submit import submit
from minutehand.ports.clock import Clock
from minutehand.ports.services import Services

Stored = tuple[str | None, str | None]  # a stored payload: its JSON text, or its key in the bucket


def replay(original: RunRow, ref: RunRef, services: Services, clock: Clock, *, payload: Stored | None = None) -> RunRow:
    """Submit the replay of a run under ``ref``; if ``ref`` is that replay already, returns it.

    ``payload`` replaces the original's. Raises Conflict for a run that has not ended, NotFound if its payload has left
    the ledger, AlreadyExists if ``ref`` is another run, Unavailable.
    """
    wanted = plan(original, ref, services, clock(), payload=payload)
    run = submit(wanted, services, clock, same_time=False)
    if run.replay_of != wanted.replay_of:
        raise AlreadyExists(f"idempotency_key: run {ref} exists and is no replay of {original.ref}; use another key")
    return run


def plan(original: RunRow, ref: RunRef, services: Services, now: int, *, payload: Stored | None = None) -> RunRow:
    """The replay as it would be submitted. Raises as ``replay``; writes nothing."""
    if not original.is_terminal:
        raise Conflict(
            f"run_id={str(original.ref)!r}: it is {original.state}, so it may still happen by itself; "
            "replay it once it has ended, or cancel it first"
        )
    text, key = payload or (original.payload, original.payload_ref)
    again = RunRow(
        ref=ref,
        state=RunState.QUEUED,
        revision=0,
        job=original.job,
        due=now,
        not_before=now,
        created_at=now,
        payload=text,
        payload_ref=key,
        overrides=original.overrides,
        queue=original.queue,
        replay_of=str(original.ref),
        scheduled_at=original.due if original.scheduled_at is None else original.scheduled_at,
        timezone=original.timezone,
    )
    if original.ref.is_one_off:
        return _check_payload(again)
    definition = read_revision(original.ref.owner, original.defined_by or original.revision, services).definition
    own = original.payload_beside or text is not None or key is not None  # a trigger's or a backfill's
    if own:
        _check_payload(again)
    else:
        text, key = definition.payload, definition.payload_ref
    return replace(
        again,
        payload=text,
        payload_ref=key,
        overrides=definition.overrides.encode(),
        queue=definition.options.queue,
        timezone=definition.rule.timezone,
    )


def _check_payload(again: RunRow) -> RunRow:
    """A large payload is stored beside its run's row, and expires within days of it, not at the same moment. Raises NotFound."""
    if again.payload is None and again.payload_ref is None:
        raise NotFound(f"run_id={again.replay_of!r}: its payload has left the ledger; pass payload=")
    return again
