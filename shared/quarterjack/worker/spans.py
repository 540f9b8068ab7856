"""The spans of a run whose message carries a trace: queue wait, lease, job, settle. None where nobody collects spans."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from quarterjack import tracing
from quarterjack.domain.times import SECOND
from quarterjack.state.start import delay_for
from quarterjack.worker.context import WorkerContext
from quarterjack.worker.stages import AttemptResult, EndedRun, Failed, LeasedRun, Outcome, ReadyRun

T = TypeVar("T")
Leases = Sequence[LeasedRun | Outcome | None]


def traced_leases(
    worker: WorkerContext, ready: Sequence[ReadyRun], take: Callable[[WorkerContext, Sequence[ReadyRun]], Leases]
) -> Leases:
    """The answers of ``take``, with the spans of those that got their lease: their wait in the queue before it, and the lease."""
    if not tracing.is_on():
        return take(worker, ready)
    asked = worker.clock()
    answers = take(worker, ready)
    answered = worker.clock()
    for leased in answers:
        if isinstance(leased, LeasedRun) and leased.message.trace is not None:
            visible = _visible_at(leased)
            if visible is not None:
                _tell("queue wait", leased, min(visible, asked), asked)
            _tell("lease", leased, asked, answered)
    return answers


@contextmanager
def job_span(leased: LeasedRun) -> Iterator[Callable[[AttemptResult], AttemptResult]]:
    """The span around a job's code, its present span meanwhile. What it gives is told the result, and returns it."""
    if leased.message.trace is None:  # a trace of the process itself goes on
        yield lambda result: result
        return
    with tracing.span("job", leased.message.trace, _attributes(leased)) as started:

        def tell(result: AttemptResult) -> AttemptResult:
            if isinstance(result, Failed):
                tracing.failed(started, result.failure.kind)
            return result

        yield tell


def traced_settlement(worker: WorkerContext, ended: Sequence[EndedRun], settle: Callable[[], T]) -> T:
    """What ``settle`` returns, with a span for each of the runs that it settles."""
    if not tracing.is_on():
        return settle()
    began = worker.clock()
    settled = settle()
    for leased, _ in ended:
        _tell("settle", leased, began, worker.clock())
    return settled


def _tell(name: str, leased: LeasedRun, began: int, ended: int) -> None:
    tracing.past_span(name, leased.message.trace, began, ended, _attributes(leased))


def _attributes(leased: LeasedRun) -> dict[str, str | int]:
    run = leased.run
    return {
        "quarterjack.run_id": str(run.ref),
        "quarterjack.job": leased.job.name,
        "quarterjack.tenant": run.ref.tenant,
        "quarterjack.attempt": run.attempt,
    }


def _visible_at(leased: LeasedRun) -> int | None:
    """When the message could be received first (UTC ms); None if its time of sending is not known."""
    sent, message = leased.received.delivery.sent_at, leased.message
    return sent + delay_for(message.not_before, message.start, sent) * SECOND if sent else None
