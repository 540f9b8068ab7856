"""Explain: from the facts about one fire or run to its answer. Pure."""

from __future__ import annotations

from collections.abc import Callable

from minutehand.domain.run import RunRow, RunState
from minutehand.domain.times import from_ms
from minutehand.why import ended, under_way
from minutehand.why.answer import Answer
from minutehand.why.facts import Facts, not_known
from minutehand.why.no_run import Judgement, passed_over, without_run

_BY_STATE: dict[RunState, Callable[[Facts, RunRow], Judgement]] = {
    RunState.QUEUED: under_way.queued,
    RunState.RUNNING: under_way.running,
    RunState.RETRYING: under_way.between,
    RunState.CONTINUED: under_way.between,
    RunState.SUCCEEDED: ended.succeeded,
    RunState.DEAD: ended.dead,
    RunState.LOST: ended.lost,
    RunState.CANCELLED: ended.cancelled,
    RunState.EXPIRED: ended.expired,
    RunState.SUPERSEDED: ended.superseded,
    RunState.SKIPPED: ended.skipped,
    RunState.SHADOWED: ended.shadowed,
}


def explain(facts: Facts) -> Answer:
    """The answer. Evidence that could not be read is named at its end."""
    run = facts.run
    if run is None:
        verdict, sentences = without_run(facts)
    else:
        verdict, sentences = passed_over(facts) if facts.gaps else _BY_STATE[run.state](facts, run)
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
