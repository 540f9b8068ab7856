"""Explain: from the facts about one fire or run to its answer. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from quarterjack.domain.run import RunRow, RunState
from quarterjack.domain.tenants.access import NOT_GRANTED, job_problem
from quarterjack.domain.times import from_ms
from quarterjack.state.incidents import limit_of
from quarterjack.why import ended, under_way
from quarterjack.why.answer import Answer, Cause, Sentence, Verdict, span
from quarterjack.why.facts import Facts, not_known, of_run
from quarterjack.why.no_run import Judgement, passed_over, without_run
from quarterjack.why.parked import parked
from quarterjack.why.tasks import of_pipeline, without_task_run

_BY_STATE: dict[RunState, Callable[[Facts, RunRow], Judgement]] = {
    RunState.QUEUED: under_way.queued,
    RunState.RUNNING: under_way.running,
    RunState.RETRYING: under_way.between,
    RunState.CONTINUED: under_way.between,
    RunState.PARKED: parked,
    RunState.SUCCEEDED: ended.succeeded,
    RunState.DEAD: ended.dead,
    RunState.LOST: ended.lost,
    RunState.CANCELLED: ended.cancelled,
    RunState.EXPIRED: ended.expired,
    RunState.SUPERSEDED: ended.superseded,
    RunState.SKIPPED: ended.skipped,
    RunState.SHADOWED: ended.shadowed,
}


_NEVER_STARTED = (RunState.SKIPPED, RunState.SUPERSEDED, RunState.SHADOWED)
_TO_START = (Verdict.UPCOMING, Verdict.NOT_CLAIMED, Verdict.WAITING, Verdict.PARKED, Verdict.VANISHED)


def _overdue(facts: Facts, run: RunRow) -> Iterator[Sentence]:
    """That a run of a schedule is over its time, or was when it ended."""
    limit = None if facts.defining is None or run.backfill is not None else limit_of(run, facts.defining)
    if limit is None or (run.ended_at or facts.now) <= limit.at or run.state in _NEVER_STARTED:
        return
    over = span((run.ended_at or facts.now) - limit.at)
    text = f"It is overdue for {over}: {limit}." if run.ended_at is None else f"It ended {over} too late: {limit}."
    yield of_run(run, text, Cause.OVERDUE if run.ended_at is None else None)


def explain(facts: Facts, task: int | None = None) -> Answer:
    """The answer. Evidence that could not be read is named at its end. ``task``: about the task of that number, which has no run."""
    run = facts.run
    if task is not None and facts.pipeline is not None:
        verdict, sentences = without_task_run(facts.pipeline, task)
        run = None
    elif run is None:
        verdict, sentences = without_run(facts)
    else:
        verdict, sentences = passed_over(facts) if facts.gaps else _BY_STATE[run.state](facts, run)
    if run is not None:
        sentences = [*sentences, *_overdue(facts, run), *of_pipeline(run)]
    sentences = [*sentences[:1], *_of_grant(facts, verdict), *sentences[1:]]
    unread = [not_known(f"The {what} could not be read: {why}") for what, why in facts.unread.items()]
    return Answer(
        tenant=facts.tenant,
        schedule=None if facts.head is None else facts.head.name,
        at=from_ms(facts.at),
        run_id=None if run is None else str(run.ref),
        verdict=verdict,
        sentences=[*sentences, *unread],
        asked_at=from_ms(facts.now),
    )


def _of_grant(facts: Facts, verdict: Verdict) -> Iterator[Sentence]:
    """Whether the tenant may run the job of what is still to start, or died because it might not."""
    job, governance, source = facts.job, facts.holds.governance, f"profile of tenant {facts.tenant}"
    if job is None or governance is None:
        return
    entry = None if facts.delivery.catalogue is None else facts.delivery.catalogue.entries.get(job)
    problem = job_problem(governance, job, by_name=entry is not None and entry.job.by_name)
    if verdict in _TO_START and problem is not None:
        text = f"As things stand it will be DEAD once a worker has it: {problem}."
        yield Sentence(text=text, source=source, cause=Cause.NOT_GRANTED)
    if verdict is Verdict.DEAD and facts.run is not None and facts.run.reason == NOT_GRANTED and problem is None:
        text = f"By now the tenant may run job {job!r}: `quarterjack dead redrive {facts.run.ref}` runs it."
        yield Sentence(text=text, source=source)
