"""What came between the time of a run and its start: a late claim, a held queue, an open circuit breaker, a freeze, other runs, or a
queue without a worker.

due                 created_at                published_at          started_at
─┼──────────────────────┼──────────────────────────┼─────────────────────┼───►
└ ticker, held queue ──┘                          └─ freeze, overlap, queue
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from quarterjack.domain.run import MISSED, RunRow, RunState
from quarterjack.domain.schedule import Revision
from quarterjack.domain.times import SECOND, STAMP_DIGITS
from quarterjack.state.backpressure import GRACE, HoldPeriod
from quarterjack.state.overlap import Turns, waits_in_turn
from quarterjack.why.answer import Cause, Sentence, clock, count, exact, show, span
from quarterjack.why.facts import Facts, not_known, of_revision, of_run
from quarterjack.why.holds import broken_between, frozen_between, held_now, suspended_between
from quarterjack.why.no_run import resumed_from_pause
from quarterjack.why.timeline import by
from quarterjack.why.workers import given_back, of_queue

LATE = (
    5 * SECOND
)  # a run that starts up to this after its time is in time: queues deliver to the second, workers wait two
_SHOWN = 3  # runs that one sentence names


def claim_delay(facts: Facts, run: RunRow) -> Iterator[Sentence]:
    """Why a fire's run was created after its time."""
    late = run.created_at - run.due
    if run.backfill is not None:
        yield of_backfill(facts, run)
        return
    if not run.ref.is_fire or late <= LATE:
        return
    revision = facts.revision(run.revision)
    if revision is not None and (paused := resumed_from_pause(facts, revision)) is not None:
        text = (
            f"It was due while the schedule was paused (since {show(paused.active_until or 0)}). With automatic_backfill such fires are "
            f"missed ones: it was claimed{by(revision)} at {show(run.created_at)}, {span(late)} after its time."
        )
        yield of_run(run, text, Cause.PAUSE)
    elif (period := _held(facts, run)) is not None:
        until = "on" if period.until is None else f"until {show(period.until)}"
        text = (
            f"The ticker held its queue back from {show(period.since)} {until}, so it claimed the fire {span(late)} late, "
            f"at {show(run.created_at)}."
        )
        yield Sentence(text=text, source="log of held queues", cause=Cause.HELD_QUEUE)
    elif broken := list(broken_between(facts, run.due, run.created_at, grace=GRACE)):
        yield of_run(
            run, f"It was claimed {span(late)} late, at {show(run.created_at)}: its fire was held in the agenda."
        )
        yield from broken
    else:
        yield of_run(
            run, f"It was claimed {span(late)} late, at {show(run.created_at)}: the ticker was behind.", Cause.TICKER
        )
        yield from _since_when(facts, run)
        if late > MISSED and revision is not None and revision.definition.options.backfills_missed:
            yield of_revision(revision, _backfilled(facts, run))
            return
    if late > MISSED and revision is not None:
        options = revision.definition.options
        policy = "automatic_backfill" if options.backfills_missed else f"catch_up={options.catch_up}"
        yield of_revision(revision, f"Claimed more than a minute late it counts as missed; {policy} let it run late.")


def of_backfill(facts: Facts, run: RunRow) -> Sentence:
    """That a backfill claimed the run."""
    backfill = facts.backfill
    begun = "" if backfill is None else f", which began at {show(backfill.created_at)}"
    text = f"It belongs to backfill {run.backfill}{begun}: it was claimed at {show(run.created_at)}, late on purpose."
    return of_run(run, text, Cause.BACKFILL)


def _held(facts: Facts, run: RunRow) -> HoldPeriod | None:
    """The time in which the run's queue was held back between its time and its claim."""
    periods = facts.delivery.held_back.periods if facts.delivery.held_back is not None else ()
    return next(
        (one for one in periods if one.since < run.created_at and (one.until is None or one.until >= run.due)), None
    )


def _backfilled(facts: Facts, run: RunRow) -> str:
    """That ``automatic_backfill`` let a fire run that was missed in an outage, and how long the outage was."""
    first, in_time = _outage(facts, run)
    earlier = "" if in_time is not None else " or earlier"
    return (
        f"Claimed more than a minute late it counts as missed. It was backfilled after an outage from {exact(first.due)}{earlier} "
        f"to {show(run.created_at)}: automatic_backfill runs such fires, however long ago they were due."
    )


def _outage(facts: Facts, run: RunRow) -> tuple[RunRow, RunRow | None]:
    """The first of the fires up to this one that were claimed late, and the one before it, claimed in time, if it was read."""
    first, in_time = run, None
    for earlier in facts.before:
        if not earlier.ref.is_fire or earlier.backfill is not None or earlier.revision != run.revision:
            continue
        if earlier.created_at - earlier.due <= LATE:
            in_time = earlier
            break
        first = earlier
    return first, in_time


def _since_when(facts: Facts, run: RunRow) -> Iterator[Sentence]:
    """Since when the ticker had been behind, by the schedule's fires before this one."""
    first, in_time = _outage(facts, run)
    if first is not run:
        late = span(first.created_at - first.due)
        yield of_run(
            first, f"The ticker had been behind since {exact(first.due)} at least: that fire was claimed {late} late."
        )
    if in_time is not None:
        yield of_run(in_time, f"The fire of {exact(in_time.due)} had been claimed in time.")


# Between the claim and the start.


def start_delay(facts: Facts, run: RunRow, until: int) -> Iterator[Sentence]:
    """Why a run that was claimed had not started before ``until`` (UTC ms)."""
    ready = max(run.due, run.created_at)
    if until - ready <= LATE:
        return
    known = _holds(facts, run, ready, until)
    yield from known
    if not _has_cause(known):
        yield from _by_queue(facts, run, ready, until)
    yield from _beyond_catch_up(facts, run)


def _holds(facts: Facts, run: RunRow, ready: int, until: int) -> Sequence[Sentence]:
    """What held a run that was ready."""
    return [
        *frozen_between(facts, ready, until),
        *suspended_between(facts, ready, until),
        *broken_between(facts, ready, until),
        *_by_overlap(facts, run, until),
    ]


def _has_cause(sentences: Sequence[Sentence]) -> bool:
    return any(sentence.cause for sentence in sentences)


def was_sent_again(facts: Facts, run: RunRow) -> bool:
    """Whether a run started late, by a message that was sent late, and nothing that was read held it: an earlier message may have met a
    worker that does not know the job.
    """
    ready, sent, began = max(run.due, run.created_at), _first_message(run), run.started_at
    if began is None or began - ready <= LATE or (sent is not None and sent - ready <= LATE):
        return False
    return not _has_cause(_holds(facts, run, ready, began))


def _beyond_catch_up(facts: Facts, run: RunRow) -> Iterator[Sentence]:
    """That ``catch_up`` does not decide about a fire that was claimed in time and started late."""
    revision = facts.revision(run.revision)
    if revision is None or run.started_at is None or not run.missed or run.created_at - run.due > MISSED:
        return
    text = (
        f"It was claimed in time, so catch_up={revision.definition.options.catch_up} does not decide about it: a claimed fire "
        "runs however late, unless its deadline has passed."
    )
    yield of_revision(revision, text)


def _by_overlap(facts: Facts, run: RunRow, until: int) -> Iterator[Sentence]:
    """Runs of the same schedule that held its places."""
    revision = facts.defining
    if revision is None or not revision.definition.options.is_exclusive:
        return
    if waits_in_turn(run):
        yield of_run(run, f"{_policy(revision)}: it {run.reason}.", Cause.OVERLAP)
        yield from _turn(facts.turn, run)
        return
    enqueued = run.turn_waited_since
    if enqueued is None:
        return
    others = [one for one in facts.before if one.started_at is not None and enqueued < _end(one, until) <= until]
    waited = f"It waited for its turn from {show(enqueued)} on: {_policy(revision)}"
    yield of_run(run, f"{waited}, and {_named(others)}." if others else f"{waited}.", Cause.OVERLAP)


def _first_message(run: RunRow) -> int | None:
    """When the message was sent (UTC ms) by which the run was leased first; None: a later lease has written over it."""
    return run.published_at if run.leased_at == run.started_at else None


def _end(run: RunRow, until: int) -> int:
    return run.ended_at if run.ended_at is not None else until


def _policy(revision: Revision) -> str:
    options = revision.definition.options
    if options.max_running is not None:
        return f"max_running={options.max_running} lets {count(options.max_running, 'run')} go at a time"
    return f"overlap={options.overlap} lets one run go at a time"


def _named(others: Sequence[RunRow]) -> str:
    texts = [f"the run of {exact(one.due)} {_lasted(one)}" for one in others[:_SHOWN]]
    more = len(others) - len(texts)
    return " and ".join([*texts, *([count(more, "other")] if more else [])])


def _lasted(run: RunRow) -> str:
    if run.ended_at is None:
        return f"has gone since {clock(run.started_at or 0)} and has not ended"
    return f"went from {clock(run.started_at or 0)} to {clock(run.ended_at)}"


def _turn(turns: Turns | None, run: RunRow) -> Iterator[Sentence]:
    """The place of a run in the wait queue of its schedule."""
    if turns is None:
        return
    ahead = [waiter for waiter in turns.waiting if waiter.holder.key < run.ref.key and not waiter.behind]
    names = " and ".join(f"the run of {exact(int(pair.key[:STAMP_DIGITS]))}" for pair in turns.holders[:_SHOWN])
    taken = f"The turn is taken by {names}" if names else "The turn is free"
    text = (
        f"{taken}; of the {count(len(turns.waiting), 'run')} in the wait queue, {len(ahead) or 'none'} come before it."
    )
    yield Sentence(text=text, source=f"turn of {run.ref.owner}")


def _by_queue(facts: Facts, run: RunRow, ready: int, until: int) -> Iterator[Sentence]:
    """That no worker took the run, and what is known about its queue."""
    waited, began = span(until - ready), run.started_at
    if began is None and not run.is_terminal:
        text = f"It has been ready since {show(ready)}, for {waited}, and no worker has leased it."
    else:
        text = f"It was ready at {show(ready)}, and no worker leased it for {waited}, until {show(until)}."
    yield of_run(run, text, Cause.QUEUE)
    if not run.is_terminal and run.state is RunState.QUEUED:
        yield from held_now(facts)
        yield from of_queue(facts, run)
        yield from _depths(facts)
    yield from _meanwhile(facts, run, ready, until)
    if run.started_at is not None or run.is_terminal or not facts.delivery.workers:
        yield from _message(facts, run, ready)


def _message(facts: Facts, run: RunRow, ready: int) -> Iterator[Sentence]:
    """When the message was sent by which the run was leased first, and what that does not tell."""
    sent, back = _first_message(run), given_back(facts, run, ready)
    if back is not None:
        yield back
    elif sent is None:
        yield not_known(
            "Whether its message was sent late or came late, all workers were busy, none was there, or none knew the job, is "
            "not recorded: see the queue's metrics and the workers' logs of that time."
        )
    elif sent - ready <= LATE:
        yield of_run(run, f"Its message was sent at {show(sent)}, so it lay in the queue.")
        yield not_known("Whether all workers were busy or none was there is not recorded: see their logs of that time.")
    else:
        yield of_run(run, f"The message by which a worker took it was sent at {show(sent)}.")
        yield not_known(
            "Why no earlier message led to a start is not recorded: it was sent late, or a worker that did not know the job, "
            "or a freeze, had it sent again."
        )


def _depths(facts: Facts) -> Iterator[Sentence]:
    if facts.delivery.depth:
        waiting, at_hand = (sum(getattr(one, name) for one in facts.delivery.depth) for name in ("waiting", "at_hand"))
        text = f"In its queue {count(waiting, 'message')} wait for a worker, and workers have {at_hand:,}."
        yield Sentence(text=text, source="queue")
    elif "queue" in facts.unread:
        yield not_known(f"The depth of its queue could not be read: {facts.unread['queue']}")


def _meanwhile(facts: Facts, run: RunRow, ready: int, until: int) -> Iterator[Sentence]:
    """Whether workers started other runs of the schedule in that time."""
    started = [one for one in facts.before if one.started_at is not None and ready < one.started_at < until]
    if started:
        names = sorted({one.worker or "?" for one in started})
        text = f"In that time {count(len(started), 'earlier run')} of the schedule started, on {', '.join(names[:_SHOWN])}."
        yield Sentence(text=text, source=f"runs of {run.ref.owner}")
