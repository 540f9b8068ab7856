"""Checks whether messages wait, from the queues' own attributes, and whether the ticker holds queues back (backpressure)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta

from minutehand.doctor.context import DoctorContext, Finding, ok, warn
from minutehand.domain.queue import DEFAULT_QUEUE
from minutehand.domain.times import SECOND, from_ms
from minutehand.fires.backpressure import read_hold_log

_FULL = 100_000  # messages in flight: at about 120,000 SQS gives no more, without saying so
_MANY = 1_000  # messages that wait for a worker
_OLD = 300.0  # seconds that the oldest waits
_METRIC = timedelta(minutes=15)


def backlog(context: DoctorContext) -> Iterator[Finding]:
    """One finding a queue."""
    for suffix, attributes in context.queues.items():
        yield _dead(context, attributes) if suffix == "dead" else _work(context, suffix, attributes)


def _dead(context: DoctorContext, attributes: Mapping[str, str]) -> Finding:
    name, (waiting, *_) = context.settings.queue("dead"), _counts(attributes)
    if not waiting:
        return ok(f"{name} is empty")
    return warn(
        f"{name} holds {waiting} dead letters that no undertaker has recorded{_age(context, name)}",
        f"look at the log of the function {context.settings.prefix}-undertaker, or run `minutehand undertaker`",
    )


def _work(context: DoctorContext, suffix: str, attributes: Mapping[str, str]) -> Finding:
    name, (waiting, in_flight, delayed) = context.settings.queue(suffix), _counts(attributes)
    what = f"{name}: {waiting} waiting{_age(context, name)}, {in_flight} in flight, {delayed} delayed"
    if in_flight > _FULL:
        remedy = "SQS gives no more than about 120,000 at a time: start more workers, or lower their concurrency"
        return warn(what, remedy)
    if waiting and not in_flight:
        remedy = "start a worker: `minutehand worker`, or look at the worker function"
        return warn(f"{what}; no worker has any", remedy)
    if waiting > _MANY:
        remedy = "start more workers: raise max_concurrency of the stack, or run further `minutehand worker`"
        return warn(what, remedy)
    return ok(what)


def _counts(attributes: Mapping[str, str]) -> list[int]:
    """Messages that wait, are in flight, and are delayed."""
    return [int(attributes.get(f"ApproximateNumberOfMessages{which}", "0")) for which in ("", "NotVisible", "Delayed")]


def _age(context: DoctorContext, name: str) -> str:
    """Age of the oldest message, if CloudWatch has the metric."""
    points = context.probe.metric("AWS/SQS", "ApproximateAgeOfOldestMessage", ("QueueName", name), "Maximum", _METRIC)
    return f", the oldest for {points[-1]['Maximum']:.0f} s" if points and points[-1]["Maximum"] >= _OLD else ""


def backpressure(context: DoctorContext) -> Iterator[Finding]:
    """One finding for each queue that is held back, or one for all that are not."""
    if "runs" not in context.tables:
        return
    queues = read_hold_log(context.services).queues
    for queue, held in queues.items():
        if held.now is None:
            continue
        why = f"{held.depth:,} messages in one of its SQS queues"
        if held.why == "age" and held.age is not None:
            why = f"its runs waited for {held.age // SECOND} s"
        yield warn(
            f"queue {queue or DEFAULT_QUEUE} is held back since {from_ms(held.now.since):%Y-%m-%d %H:%M:%SZ}: {why}; "
            "its fires wait in the agenda",
            "start more workers, raise their concurrency, or remove the delay that their jobs wait for",
        )
    if all(held.now is None for held in queues.values()):
        yield ok("no queue is held back")
