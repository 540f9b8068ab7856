"""The spans of a run whose message carries a trace: queue wait, lease, job, settle. None where nobody collects spans."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from quarterjack import tracing
from quarterjack.domain.run import RunRow
from quarterjack.domain.times import SECOND
from quarterjack.state.start import delay_for
from quarterjack.worker.context import WorkerContext
from quarterjack.worker.stages import AttemptResult, EndedRun, Failed, LeasedRun, ReadyRun


@contextmanager
def lease_spans(worker: WorkerContext, ready: Sequence[ReadyRun]) -> Iterator[None]:
    """The spans of the runs that get their lease meanwhile: their wait in the queue before it, and the lease."""
    if not tracing.is_on():
        yield
        return
    asked = worker.clock()
    yield
    answered = worker.clock()
    for each in ready:
        lease = each.in_flight.lease
        if lease is not None and each.message.trace is not None:
            visible = _visible_at(each)
            if visible is not None:
                _tell("queue wait", each, lease.run, min(visible, asked), asked)
            _tell("lease", each, lease.run, asked, answered)


def job_span(leased: LeasedRun) -> AbstractContextManager[Callable[[AttemptResult], AttemptResult]]:
    """The span around a job's code, its present span meanwhile. What it gives is told the result, and returns it."""
    return _UNTRACED if leased.message.trace is None else _traced(leased)


# A trace of the process itself goes on.
_UNTRACED = nullcontext[Callable[[AttemptResult], AttemptResult]](lambda result: result)


@contextmanager
def _traced(leased: LeasedRun) -> Iterator[Callable[[AttemptResult], AttemptResult]]:
    with tracing.span("job", leased.message.trace, _attributes(leased, leased.run)) as started:

        def tell(result: AttemptResult) -> AttemptResult:
            if isinstance(result, Failed):
                tracing.failed(started, result.failure.kind)
            return result

        yield tell


@contextmanager
def settle_spans(worker: WorkerContext, ended: Sequence[EndedRun]) -> Iterator[None]:
    """A span for each of the runs that are settled meanwhile."""
    if not tracing.is_on():
        yield
        return
    began = worker.clock()
    yield
    for leased, _ in ended:
        _tell("settle", leased, leased.run, began, worker.clock())


def _tell(name: str, ready: ReadyRun, run: RunRow, began: int, ended: int) -> None:
    tracing.past_span(name, ready.message.trace, began, ended, _attributes(ready, run))


def _attributes(ready: ReadyRun, run: RunRow) -> dict[str, str | int]:
    return {
        "quarterjack.run_id": str(run.ref),
        "quarterjack.job": ready.job.name,
        "quarterjack.tenant": run.ref.tenant,
        "quarterjack.attempt": run.attempt,
    }


def _visible_at(ready: ReadyRun) -> int | None:
    """When the message could be received first (UTC ms); None if its time of sending is not known."""
    sent, message = ready.received.delivery.sent_at, ready.message
    return sent + delay_for(message.not_before, message.start, sent) * SECOND if sent else None
