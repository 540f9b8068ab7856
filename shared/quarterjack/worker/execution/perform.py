"""Perform: call the job in this thread with its context, and the limits by which the watch ends its attempt.

Whatever a job raises becomes a Failure; the process survives all that Python can survive.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import traceback
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from quarterjack.domain.job import Context, check_fit
from quarterjack.domain.names import storable
from quarterjack.domain.payload import LARGEST_RESULT
from quarterjack.domain.policies import Isolation, Retry
from quarterjack.domain.run import Failure
from quarterjack.domain.times import SECOND, from_ms
from quarterjack.errors import Continue, InvalidInput, JobError, JobSignal, LeaseLost, Parking, RunCancelled
from quarterjack.logs import RunLogger
from quarterjack.masking import Masking, SecretValues
from quarterjack.middlewares import Middleware
from quarterjack.state.retry import is_permanent, stuck
from quarterjack.timing import zone
from quarterjack.values import replace
from quarterjack.worker.context import WorkerContext
from quarterjack.worker.execution.effects import Effects
from quarterjack.worker.execution.http_status import http_status
from quarterjack.worker.execution.job_values import json_text
from quarterjack.worker.execution.run_store import RunStore
from quarterjack.worker.middleware import JobCall
from quarterjack.worker.spans import job_span
from quarterjack.worker.stages import (
    AttemptResult,
    Cancelled,
    Failed,
    LeasedRun,
    Outcome,
    Parked,
    Returned,
    SliceEnded,
)

log = logging.getLogger(__name__)

MESSAGE = 2_000  # characters kept of an error's message
TRACEBACK = 16_000  # characters kept of a traceback: its end, where the cause is
CODE, NOTE = 100, 200  # characters kept of an error's code, and of the reason for which a result was not kept
_UNFOUNDED = {
    RunCancelled.__name__: "nobody has asked for the cancellation of its run",
    LeaseLost.__name__: "this worker holds the lease of its run",
}
_CAUGHT = "it caught quarterjack.errors.Parking: catch Exception, not BaseException"
_decode = json.JSONDecoder().decode
_RAW = 4  # times as much is looked at, because a secret that is cut in two is not recognised


def perform(worker: WorkerContext, leased: LeasedRun) -> AttemptResult:
    """One attempt, whatever it raises: a job's own KeyboardInterrupt ends its attempt and not its thread."""
    context = job_context(leased, Effects(leased, RunStore(worker, leased)), worker.remaining)
    try:
        with worker.around(leased.ids), job_span(leased) as tell:
            if leased.policies.isolation is Isolation.PROCESS and worker.isolated is not None:
                misfit = _misfit(leased)  # before it costs a process; the child does not know the schema
                return tell(worker.isolated(worker, leased) if misfit is None else misfit)
            return tell(call(leased, context, worker.jobs.around))
    except BaseException as problem:  # noqa: BLE001 (see above)
        return Failed(failure_of(problem, leased.policies.retry, leased.masked))


def judged(leased: LeasedRun, result: AttemptResult) -> AttemptResult:
    """The one place at which a failure is told from the end of a cancelled run; what the job claims is checked against the lease."""
    if not isinstance(result, Failed):
        return result
    failure, claim = result.failure, result.claim
    if leased.in_flight.cancel_seen is not None:
        return Cancelled("requested", None if claim == RunCancelled.__name__ else failure)
    if not claim:
        return result
    return Failed(replace(failure, message=f"the job raised {claim}, but {_UNFOUNDED[claim]}: {failure.message}"))


def presentable(leased: LeasedRun, result: AttemptResult) -> AttemptResult:
    """The one place at which the texts of a job's errors are redacted and cut: what follows stores, logs and sends them."""
    if isinstance(result, Returned) and result.note is None:
        return result

    def clean(text: str) -> str:
        return leased.policies.redact.text(leased.masked(text), leased.payload)

    if isinstance(result, Returned):
        return replace(result, note=clean(result.note or "")[:NOTE])
    failure = getattr(result, "failure", None)
    if not isinstance(result, (Failed, Cancelled)) or failure is None:
        return result
    shown = replace(
        failure,
        kind=leased.masked(failure.kind),
        message=clean(failure.message)[:MESSAGE],
        traceback=clean(failure.traceback)[-TRACEBACK:],
        code=None if failure.code is None else clean(failure.code)[:CODE],
    )
    return replace(result, failure=shown)


def call(leased: LeasedRun, context: Context, around: Sequence[Middleware]) -> AttemptResult:
    """Call the job's function in this thread, with its middleware ``around`` it. What is logged meanwhile is masked."""
    with Masking(leased.hidden):
        has_some = around or leased.job.middleware
        return _call(leased, context, JobCall(leased.job, around) if has_some else None)


def _call(leased: LeasedRun, context: Context, layered: JobCall | None) -> AttemptResult:
    try:
        try:
            payload = payload_of(leased)
        except (InvalidInput, JobError) as problem:  # it would fit no better the next time
            return Failed(replace(failure_of(problem, leased.policies.retry, leased.masked), permanent=True))
        function = leased.job.function if layered is None else layered.enter
        result = function(context, payload)
        if result is not None and inspect.isawaitable(result):
            result = asyncio.run(_awaited(result))
        if context.effects.parked is not None:
            raise JobError(f"the job went on although its run parks ({context.effects.parked.reason}); {_CAUGHT}")
        context.effects.check_all_asked()
    except Continue as signal:
        return slice_ended(leased, signal)
    except (Parking, BaseExceptionGroup) as problem:  # a task group raises what its tasks do as a group
        parked: Parked | None = context.effects.parked
        if parked is not None:
            return parked
        if not isinstance(problem, Exception):
            raise
        return _failed(leased, problem, layered)
    except (Exception, SystemExit, asyncio.CancelledError) as problem:  # noqa: BLE001 (a job's sys.exit() is its failure too)
        claim = next((kind.__name__ for kind in (RunCancelled, LeaseLost) if isinstance(problem, kind)), "")
        return _failed(leased, problem, layered, claim)
    return returned(result, leased.hidden)


def _failed(leased: LeasedRun, problem: BaseException, layered: JobCall | None, claim: str = "") -> Failed:
    failure = failure_of(problem, leased.policies.retry, leased.masked)
    return Failed(failure if layered is None else layered.blamed(problem, failure), claim)


async def _awaited(result: Any) -> Any:
    return await result


def _misfit(leased: LeasedRun) -> Failed | None:
    """The end of an attempt whose payload does not fit the job's schema: it would fit no better the next time."""
    try:
        check_fit(leased.job, leased.payload or "null")
    except InvalidInput as problem:
        return Failed(replace(failure_of(problem, leased.policies.retry), permanent=True))
    return None


def payload_of(leased: LeasedRun) -> Any:
    """The payload as the job takes it. Raises InvalidInput or JobError if it does not fit the job, ValueError if it is no JSON."""
    text, kind = leased.payload or "null", leased.job.payload_type
    check_fit(leased.job, text)
    return _decode(text) if kind is None else kind.converted(text, redact=leased.policies.redact)


def slice_ended(leased: LeasedRun, signal: Continue) -> AttemptResult:
    """The job asks for another slice. One that would only repeat this one is a failed attempt, and says what to do."""
    problem = stuck(checkpointed=leased.checkpointed, slices=leased.run.slices)
    if problem is None:
        return SliceEnded()
    return Failed(replace(failure_of(signal, leased.policies.retry, leased.masked), message=problem))


def returned(result: Any, hidden: SecretValues) -> Returned:
    """A result as it is kept, masked: the run does not read it back. One that cannot be kept is noted: the job has done its work."""
    if result is None:
        return Returned()
    try:
        text = json_text("result", result, LARGEST_RESULT)
        return Returned(json_text("result", hidden.data(json.loads(text)), LARGEST_RESULT) if hidden else text)
    except InvalidInput as problem:
        return Returned(None, hidden.text(f"result not kept: {problem}")[: NOTE * _RAW])


def failure_of(problem: BaseException, retry: Retry, masked: Callable[[str], str] = str) -> Failure:
    """An exception as bounded text, not yet redacted, with what it means for a further attempt. It is ``masked`` before it is cut."""
    text = masked("".join(traceback.format_exception(problem)))
    status = http_status(problem)
    kinds = [kind.__name__ for kind in type(problem).__mro__]
    code = getattr(problem, "code", None) if status is None else status
    signal = problem if isinstance(problem, JobSignal) else JobSignal()
    known = None if signal is problem else status  # a signal says itself whether another attempt may help
    return Failure(
        kind=type(problem).__name__,
        message=storable(masked(_text(problem))[: MESSAGE * _RAW]),
        traceback=storable(text[-TRACEBACK * _RAW :]),
        code=storable(masked(str(code))[: CODE * _RAW]) if isinstance(code, (int, str)) else None,
        permanent=signal.permanent or is_permanent(kinds, known, retry, invalid=_is_of_payload(problem)),
        retry_after=signal.seconds,
    )


def _text(problem: BaseException) -> str:
    try:
        return str(problem)
    except Exception:  # noqa: BLE001 (it is somebody else's code)
        return "its text cannot be had"


def _is_of_payload(problem: BaseException) -> bool:
    """Whether Quarterjack refused a payload: the job's own, or one that it submits, schedules or triggers."""
    return isinstance(problem, InvalidInput) and problem.field.startswith("payload")


# What it is given.


def job_context(leased: LeasedRun, effects: Effects, remaining: Callable[[], float | None]) -> Context:
    """What the job is given."""
    spec, run, ids = leased.spec, leased.run, leased.ids
    # A replay is about the instant that the run which it repeats was about.
    scheduled_at = spec.due if run.scheduled_at is None else run.scheduled_at
    return Context(
        run_id=ids["run_id"],
        idempotency_key=ids["run_id"],
        tenant=ids["tenant"],
        job=ids["job"],
        schedule=run.ref.schedule,
        scheduled_at=from_ms(scheduled_at, zone(spec.timezone)),
        attempt=run.attempt,
        fence=run.fence,
        logger=RunLogger(_logger_of(ids["job"]), ids),
        remaining=remaining,
        effects=effects,
        missed=run.missed,
        backfill=run.backfill,
    )


@lru_cache(maxsize=1024)
def _logger_of(job: str) -> logging.Logger:
    """``logging`` looks a logger up under a lock."""
    return logging.getLogger(f"quarterjack.job.{job}")


# What is logged of it.


def log_start(leased: LeasedRun) -> None:
    run = leased.run
    lateness = leased.began_at - leased.message.not_before
    more = {"attempt": run.attempt, "fence": run.fence, "slice": run.slices, "lateness_ms": lateness}
    log.info("run.started", extra={**leased.ids, **more})


def log_end(leased: LeasedRun, outcome: Outcome, result: AttemptResult) -> None:
    state, reason = outcome.state and str(outcome.state), outcome.why or outcome.action
    if isinstance(result, Parked) and outcome.state is not None:
        reason = result.reason
    extra = {**leased.ids, "attempt": leased.run.attempt, "state": state, "reason": reason}
    if isinstance(result, Failed):
        failure = result.failure
        log.warning("run.ended", extra=extra | {"error_type": failure.kind, "error": failure.message[:500]})
    else:
        log.info("run.ended", extra=extra)


# Limits.


def timeout_of(worker: WorkerContext, leased: LeasedRun) -> int | None:
    """When the attempt that starts now is over by its timeout (UTC ms)."""
    timeout = leased.policies.timeout
    return None if timeout is None else worker.clock() + int(timeout * SECOND)


def limit_of(leased: LeasedRun, timeout_at: int | None, now: int) -> Failed | Cancelled | float | None:
    """How the job ends now by one of its limits, or else the seconds until the next one (None: there is none)."""
    in_flight, policies = leased.in_flight, leased.policies
    limits = []
    if timeout_at is not None:
        limits.append(timeout_at - now)
        if now >= timeout_at:
            kinds = ("Timeout", *(kind.__name__ for kind in TimeoutError.__mro__))
            text = f"the attempt took longer than its timeout of {policies.timeout:g} s"
            return Failed(Failure(kind="Timeout", message=text, permanent=is_permanent(kinds, None, policies.retry)))
    if in_flight.cancel_seen is not None:
        grace_ends = in_flight.cancel_seen + int(policies.cancel_grace * SECOND)
        limits.append(grace_ends - now)
        if now >= grace_ends:
            return Cancelled(f"did not end within {policies.cancel_grace:g} s of its cancellation")
    return min(limits) / SECOND if limits else None
