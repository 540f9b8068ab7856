"""Replay a run as a new one-off with its job, payload and policies; redrive dead runs, each once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field

from quarterjack.concurrency.rate_limits import StopSignal, TokenBucket
from quarterjack.domain.audit import AuditAct
from quarterjack.domain.history.dead_run import DeadRunRow, dead_run_row
from quarterjack.domain.message import INLINE_PAYLOAD
from quarterjack.domain.names import PIPELINE, RunRef, one_off_ref
from quarterjack.domain.payload import fitting_tags, size, tags_of, text_of_tags
from quarterjack.domain.policies import Overrides
from quarterjack.domain.run import RunRow, RunState
from quarterjack.errors import AlreadyExists, Conflict, KeyReused, NotFound, QuarterjackError, Throttled, Unavailable
from quarterjack.fires.audit_entry import audit_entry
from quarterjack.fires.context import FireContext, read_revision, run_must_exist
from quarterjack.owner.limits import bounded, put_payload
from quarterjack.owner.runs.dead import DeadRunFilter, dead_runs, must_have_failed
from quarterjack.owner.runs.submit import SameTime, submit
from quarterjack.state.run_spec import own_overrides
from quarterjack.state.waits.park import pipeline_of, tasks_text
from quarterjack.values import replace, value

Check = Callable[[RunRow], object]


def replay(
    original: RunRow,
    ref: RunRef,
    context: FireContext,
    *,
    payload: str | None = None,
    check: Check = lambda run: None,
    act: AuditAct = AuditAct.REPLAY,
    as_it_was: bool = False,
    tags: str | None = None,
) -> RunRow:
    """Submit the replay of a run under ``ref``; if ``ref`` is that replay already, returns it.

    ``payload`` (JSON text) replaces the original's; ``check`` gets the new run before anything is written; ``as_it_was``: it keeps the
    application version; ``tags`` (JSON text) are added to those that it keeps.

    Raises what ``check`` raises, Conflict for a run that has not ended, NotFound if its payload has left
    the ledger, AlreadyExists if ``ref`` is another run, Unavailable.
    """
    planned = plan(original, ref, context, payload=payload, check=check)
    planned = replace(planned, tags=_tags_of(original, tags, context))
    wanted = _with_own_payload(replace(planned, app_version=original.app_version) if as_it_was else planned, context)
    audit = audit_entry(act, str(original.ref), context, replay=str(ref))
    run = submit(replace(wanted, actor=audit.actor), context, same_time=SameTime.ANY, audit=audit)
    if run.replay_of != wanted.replay_of:
        raise KeyReused(f"idempotency_key: run {ref} exists and is not a replay of {original.ref}; use another key")
    return run


def _with_own_payload(run: RunRow, context: FireContext) -> RunRow:
    """A run whose payload, if it is large, is its own: the original's goes with that run, a schedule's with its schedule."""
    text = run.payload if run.payload_ref is None else context.services.payloads.get(run.ref.tenant, run.payload_ref)
    if text is None or (run.payload_ref is None and size(text) <= INLINE_PAYLOAD):
        return run
    return replace(run, payload=None, payload_ref=put_payload(run.ref, text, context))


def _tags_of(original: RunRow, added: str | None, context: FireContext) -> str | None:
    """The tags of a replay, which has no schedule: the added ones, the original's own, and those that its schedule has now."""
    name = original.ref.schedule
    head = None if name is None else context.services.schedules.head(original.ref.tenant, name)
    return text_of_tags(fitting_tags(tags_of(added), original.own_tags, {} if head is None else head.tags))


def plan(
    original: RunRow,
    ref: RunRef,
    context: FireContext,
    *,
    payload: str | None = None,
    check: Check = lambda run: None,
) -> RunRow:
    """The replay as it would be submitted. Raises as ``replay``; writes nothing."""
    planned = _bounded(_planned(original, ref, context, payload), context)
    check(planned)
    return planned


def _bounded(again: RunRow, context: FireContext) -> RunRow:
    """With a priority that the tenant may use by now."""
    policies = Overrides.parse(again.overrides)
    if policies.priority is None:
        return again
    lowered = bounded(policies.priority, again.ref.tenant, context.services, context.clock())
    return (
        again
        if lowered is policies.priority
        else replace(again, overrides=replace(policies, priority=lowered).encode())
    )


def pipeline_awaited(original: RunRow) -> str | None:
    """Of a pipeline's run the tasks with their revision: a replay has the same. None: it is no pipeline's."""
    if original.job.startswith(PIPELINE) and original.ref.schedule is not None:
        return tasks_text(original.ref.schedule, original.defined_by or original.revision)
    return original.awaits if pipeline_of(original) is not None else None


def _planned(original: RunRow, ref: RunRef, context: FireContext, payload: str | None) -> RunRow:
    if not original.is_terminal:
        raise Conflict(
            f"run_id={str(original.ref)!r}: it is {original.state}, so it may still happen by itself; "
            "replay it once it has ended, or cancel it first"
        )
    now = context.clock()
    text, key = (original.payload, original.payload_ref) if payload is None else (payload, None)
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
        awaits=pipeline_awaited(original),
        app_version=context.services.tenants.app_versions.current(now).assigned(str(original.ref)),
    )
    if original.ref.is_one_off:
        return _check_payload(again)
    definition = read_revision(
        original.ref.owner, original.defined_by or original.revision, context.services
    ).definition
    if original.payload_beside or text is not None or key is not None:  # a trigger's or a backfill's own
        _check_payload(again)
    else:
        text, key = definition.payload, definition.payload_ref
    return replace(
        again,
        payload=text,
        payload_ref=key,
        overrides=own_overrides(definition.overrides, original.overrides).encode(),
        queue=definition.options.queue,
        timezone=definition.rule.timezone,
    )


def _check_payload(again: RunRow) -> RunRow:
    """A large payload is stored beside its run's row, and expires within days of it, not at the same moment. Raises NotFound."""
    if again.payload is None and again.payload_ref is None:
        raise NotFound(f"run_id={again.replay_of!r}: its payload has left the ledger; pass payload= to replay_run()")
    return again


@value(kw_only=True)
class Redriving:
    """How dead runs are redriven."""

    context: FireContext
    payload: str | None = None  # JSON text, instead of each run's own
    check: Check = lambda run: None  # raises InvalidInput for a replay whose payload does not fit its job
    begin: Callable[[], None] = lambda: None  # before each replay; raises Throttled
    dry_run: bool = False  # check only, submit nothing
    allow_repeat: bool = False  # LOST runs too, although their jobs may have done their work
    as_it_was: bool = False  # each keeps the application version of its original
    rate: float = 50.0  # runs a second at the most
    stop: StopSignal  # waits between two runs
    on_progress: Callable[[int], object] = lambda handled: None  # gets the number of runs handled so far


@dataclass(kw_only=True)
class RedriveResult:
    """The dead runs that were redriven."""

    runs: list[DeadRunRow] = field(default_factory=list)  # each with the id of its replay, except on a dry run
    failed: dict[str, str] = field(default_factory=dict)  # run id to the reason why the run cannot be replayed
    cursor: str | None = None  # key of the last run that was handled; None: all were

    @property
    def handled(self) -> int:
        return len(self.runs) + len(self.failed)


def redrive_one(ref: RunRef, how: Redriving) -> DeadRunRow:
    """Redrive one run. Raises NotFound, Conflict unless it failed for good, AlreadyExists if it was redriven with another payload."""
    run = run_must_exist(ref, how.context.services.ledger.read(ref))
    must_have_failed(run, "replay_run() repeats any run that has ended")
    return _redrive(dead_run_row(run), run, how)


def redrive_all(
    tenant: str, wanted: DeadRunFilter, how: Redriving, *, limit: int | None, cursor: str | None
) -> RedriveResult:
    """Redrive the wanted runs, newest first. A run that cannot be replayed stops no other. Ends where the tenant is throttled.

    Raises Throttled before the first run, and Unavailable: call again to go on.

    A replay that dies meanwhile is newer than all runs that are still to be redriven, so the same call does not redrive it.
    """
    done, last, pace = RedriveResult(), None, TokenBucket(how.rate, how.context.clock, how.stop)
    for dead in dead_runs(tenant, wanted, how.context.services, before=cursor):
        if last is not None and (done.handled == limit or not pace.go_on(wait=not how.dry_run)):
            done.cursor = last.key
            break
        try:
            run = run_must_exist(dead.run, how.context.services.ledger.read(dead.run))
            done.runs.append(_redrive(dead, run, how))
        except Throttled:
            if last is None:
                raise
            done.cursor = last.key
            break
        except Unavailable as problem:
            raise Unavailable(f"{len(done.runs)} runs are redriven; call again to go on: {problem}") from problem
        except QuarterjackError as problem:
            done.failed[str(dead.run)] = str(problem)
        how.on_progress(done.handled)
        last = dead
    return done


def _redrive(dead: DeadRunRow, run: RunRow, how: Redriving) -> DeadRunRow:
    """Submit the replay of one run and mark the run's line in the index; the line."""
    if run.state is RunState.LOST and not how.allow_repeat:
        raise Conflict(
            f"run_id={str(run.ref)!r}: it is LOST: it was to be run at most once, and nobody knows how far its job came; "
            "pass allow_repeat=True to run it again all the same"
        )
    ref, index = replay_ref(run), how.context.services.dead_index
    if how.dry_run:
        plan(run, ref, how.context, payload=how.payload, check=how.check)
        return dead
    how.begin()
    try:
        again = replay(
            run,
            ref,
            how.context,
            payload=how.payload,
            check=how.check,
            act=AuditAct.REDRIVE,
            as_it_was=how.as_it_was,
        )
    except AlreadyExists as problem:
        index.mark(dead, redriven_as=str(ref))
        raise AlreadyExists(
            f"run_id={str(run.ref)!r}: it was redriven already, with another payload, as {ref}; replay_run() repeats it anew"
        ) from problem
    index.mark(dead, redriven_as=str(again.ref))
    return replace(dead, redriven_as=str(again.ref))


def replay_ref(run: RunRow) -> RunRef:
    """The id of the replay: the same for the same death."""
    death = hashlib.sha256(f"{run.ref}#{run.fence}".encode()).hexdigest()
    return one_off_ref(run.ref.tenant, f"redrive-{death[:32]}")
