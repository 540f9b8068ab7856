"""Check whether the ticker holds queues back because their workers are too slow (backpressure)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from minutehand.doctor.context import DoctorContext
from minutehand.doctor.findings import Finding, ok, warn
from minutehand.domain.queue import DEFAULT_QUEUE
from minutehand.domain.times import SECOND, from_ms
from minutehand.fires.backpressure import read_hold_log
from minutehand.state.backpressure import QueueHolds


def backpressure(context: DoctorContext) -> Iterator[Finding]:
    """One finding for each queue that is held back, or one for all that are not."""
    if "runs" not in context.tables:
        return
    held = {queue: each for queue, each in held_back(context).items() if each.now is not None}
    for queue, each in held.items():
        yield _finding(queue or DEFAULT_QUEUE, each)
    if not held:
        yield ok("backpressure", "no queue is held back")


def held_back(context: DoctorContext) -> Mapping[str | None, QueueHolds]:
    """The stored hold state of each queue. Raises MinutehandError."""
    return read_hold_log(context.services).queues


def _finding(queue: str, held: QueueHolds) -> Finding:
    assert held.now is not None
    why = f"{held.depth:,} messages in one of its SQS queues"
    if held.why == "age" and held.age is not None:
        why = f"its runs waited for {held.age // SECOND} s"
    return warn(
        "backpressure",
        f"queue {queue} is held back since {from_ms(held.now.since):%Y-%m-%d %H:%M:%SZ}: {why}; its fires wait in the agenda",
        "start more workers, raise their concurrency, or remove the delay that their jobs wait for",
    )
