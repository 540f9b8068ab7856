"""Perform: call the job, watched. Whatever it raises becomes a Failure; the process survives all that Python can survive.

The job runs in a thread of its own. A thread cannot be killed: at its timeout, after its cancel grace or with its lease lost it is
abandoned, its fence is gone, and the process is marked for recycling.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import json
import logging
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

from minutehand.domain.job import Context
from minutehand.domain.policies import Policies, Retry
from minutehand.domain.run import Failure
from minutehand.domain.times import SECOND
from minutehand.errors import Continue, InvalidInput, JobSignal, LeaseLost, RunCancelled
from minutehand.flow.assignment import Abandoned, Assignment, Cancelled, Ended, Failed, Returned, SliceEnded
from minutehand.flow.effects import LARGEST, json_text
from minutehand.ports.clock import Clock
from minutehand.state.retry import is_permanent, stuck

log = logging.getLogger(__name__)

MESSAGE = 2_000  # characters kept of an error's message
TRACEBACK = 16_000  # characters kept of a traceback: its end, where the cause is


def perform(assignment: Assignment, context: Context, payload: str | None) -> Ended:
    """Run one attempt to its end, or to the limit of one of its policies."""
    ticket, ends, timeout_at = assignment.ticket, list[Ended](), timeout_of(assignment)

    def run() -> None:
        ended = attempt_of(assignment, context, payload)
        with ticket.changed:
            ends.append(ended)
            ticket.changed.notify_all()

    inherited = contextvars.copy_context()
    assignment.desk.threads.start(lambda: inherited.run(run), f"job {assignment.run.ref}")
    ended = watch(assignment, ends, timeout_at)
    if not ends:
        assignment.desk.abandoned.set()
        log.error("job.abandoned", extra={"run_id": str(assignment.run.ref), "job": assignment.job.name})
    return ended


def attempt_of(
    assignment: Assignment,
    context: Context,
    payload: str | None,
    around: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> Ended:
    """One attempt in this thread, whatever it raises: a job's own KeyboardInterrupt ends its attempt, not the waiting for it."""
    try:
        with around():
            return call(assignment, context, payload)
    except BaseException as problem:  # noqa: BLE001 (see above)
        return Failed(failure_of(problem, assignment.policies.retry))


def timeout_of(assignment: Assignment) -> int | None:
    """When the attempt that starts now is over by its timeout (UTC ms)."""
    timeout = assignment.policies.timeout
    return None if timeout is None else assignment.desk.clock() + int(timeout * SECOND)


def watch(
    assignment: Assignment,
    ends: list[Ended],
    timeout_at: int | None,
    *,
    tell_cancelled: Callable[[], None] = lambda: None,
) -> Ended:
    """Wait for the job's end, or for what ends it. ``tell_cancelled`` is called while its cancellation is asked for."""
    ticket, clock = assignment.ticket, assignment.desk.clock
    with ticket.changed:
        while True:
            if ends:
                return ends[0]
            if ticket.lost:
                return Abandoned()
            limit = limit_of(assignment, timeout_at, clock)
            if isinstance(limit, (Failed, Cancelled)):
                return limit
            if ticket.cancel_seen is not None:
                tell_cancelled()
            ticket.changed.wait(limit)


def limit_of(assignment: Assignment, timeout_at: int | None, clock: Clock) -> Failed | Cancelled | float | None:
    """How the job ends now by one of its limits, or else the seconds until the next one (None: there is none)."""
    ticket, policies, now = assignment.ticket, assignment.policies, clock()
    limits = []
    if timeout_at is not None:
        limits.append(timeout_at - now)
        if now >= timeout_at:
            return Failed(timed_out(policies))
    if ticket.cancel_seen is not None:
        grace_ends = ticket.cancel_seen + int(policies.cancel_grace * SECOND)
        limits.append(grace_ends - now)
        if now >= grace_ends:
            return Cancelled(f"did not end within {policies.cancel_grace:g} s of its cancellation")
    return min(limits) / SECOND if limits else None


def timed_out(policies: Policies) -> Failure:
    """The failure of an attempt that took longer than its timeout."""
    kinds = ("Timeout", *(kind.__name__ for kind in TimeoutError.__mro__))
    return Failure(
        kind="Timeout",
        message=f"the attempt took longer than its timeout of {policies.timeout:g} s",
        permanent=is_permanent(kinds, None, policies.retry),
    )


def call(assignment: Assignment, context: Context, payload: str | None) -> Ended:
    """Call the job's function in this thread."""
    try:
        result = assignment.job.function(context, json.loads(payload or "null"))
        if result is not None and inspect.isawaitable(result):
            result = asyncio.run(_awaited(result))
    except Continue as signal:
        return slice_ended(assignment, signal)
    except RunCancelled:
        return Cancelled("requested")
    except LeaseLost:
        return Abandoned()
    except (Exception, SystemExit, asyncio.CancelledError) as problem:  # noqa: BLE001 (a job's sys.exit() is its failure too)
        failure = failure_of(problem, assignment.policies.retry)
        return Cancelled("requested", failure) if assignment.ticket.cancel_seen is not None else Failed(failure)
    return returned(result)


def slice_ended(assignment: Assignment, signal: Continue) -> Ended:
    """The job asks for another slice. One that would only repeat this one is a failed attempt, and says what to do."""
    problem = stuck(checkpointed=assignment.ticket.checkpointed, slices=assignment.run.slices)
    if problem is None:
        return SliceEnded()
    failure = replace(failure_of(signal, assignment.policies.retry), message=problem)
    return Cancelled("requested", failure) if assignment.ticket.cancel_seen is not None else Failed(failure)


async def _awaited(result: Any) -> Any:
    return await result


def returned(result: Any) -> Returned:
    """A result as it is kept. The job has done its work: a result that cannot be kept is noted and not a failure."""
    if result is None:
        return Returned()
    try:
        return Returned(json_text("result", result, LARGEST))
    except InvalidInput as problem:
        return Returned(None, f"result not kept: {problem}"[:200])


def failure_of(problem: BaseException, retry: Retry) -> Failure:
    """An exception as bounded text, with what it means for a further attempt."""
    text = "".join(traceback.format_exception(problem))
    status = status_of(problem)
    kinds = [kind.__name__ for kind in type(problem).__mro__]
    code = getattr(problem, "code", None) if status is None else status
    signal = problem if isinstance(problem, JobSignal) else JobSignal()
    return Failure(
        kind=type(problem).__name__,
        message=_storable(_text(problem)[:MESSAGE]),
        traceback=_storable(text[-TRACEBACK:]),
        code=_storable(str(code)[:100]) if isinstance(code, (int, str)) else None,
        permanent=signal.permanent or is_permanent(kinds, status, retry),
        retry_after=signal.seconds,
    )


def _text(problem: BaseException) -> str:
    try:
        return str(problem)
    except Exception:  # noqa: BLE001 (it is somebody else's code)
        return "its text cannot be had"


def _storable(text: str) -> str:
    """Text as a table takes it: the name of a file may hold bytes that are no text, and so may an error about it."""
    return text.encode("utf-8", "backslashreplace").decode()


def status_of(problem: BaseException) -> int | None:
    """The HTTP status that an exception of a usual client library carries."""
    holders = (problem, getattr(problem, "response", None))
    names = ("status_code", "status", "code")
    found = (getattr(holder, name, None) for holder in holders for name in names)
    return next((s for s in found if isinstance(s, int) and 100 <= s <= 599), None)
