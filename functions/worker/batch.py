"""One batch of messages: what may start at once together, the others each for itself, one heartbeat for all."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import partial
from typing import Any, Self

from minutehand.concurrency.threads import ThreadCache
from minutehand.domain.times import SECOND
from minutehand.errors import Unavailable
from minutehand.flow.desk import Desk
from minutehand.flow.erase import Eraser
from minutehand.flow.heartbeat import HIDDEN, Heartbeat
from minutehand.flow.outcome import Outcome
from minutehand.flow.task import Task
from minutehand.flow.together import groups, start_together
from minutehand.flow.work import Around, Jobs, Worker
from minutehand.ports.services import Services
from minutehand.ports.work_queue import RawMessage
from minutehand.services import system_clock
from minutehand.sqs.queue_definitions import stripe_called
from minutehand.sqs.routing import held
from minutehand.state.transitions.lease import HEARTBEAT

log = logging.getLogger(__name__)

_SOON = 10  # seconds before a message comes back whose worker could not import its jobs
_threads = ThreadCache()  # of this process, from batch to batch


class Batch:
    """A batch at work. ``outcome`` waits for one message's end; leaving the context ends the heartbeat."""

    def __init__(
        self,
        records: Iterable[dict[str, Any]],
        services: Services,
        import_jobs: Callable[[], Jobs],
        *,
        name: str,
        around: Around,
        remaining: Callable[[], float | None],
    ) -> None:
        self._deliveries = [_delivery(record) for record in records]
        self._services, self._import_jobs = services, import_jobs
        self._heartbeat = Heartbeat(services)
        self._eraser = Eraser(services.work)
        self._ended = threading.Event()
        self._desk = Desk(
            services=services,
            clock=system_clock,
            heartbeat=self._heartbeat,
            eraser=self._eraser,
            wait=threading.Event().wait,
            random=random.Random(),
            name=name,
            threads=_threads,
        )
        self._around, self._remaining = around, remaining
        self._futures: dict[str, Future[Outcome]] = {delivery.id: Future() for delivery in self._deliveries}

    def __enter__(self) -> Self:
        self._hide(HIDDEN)  # before the import, which may take long or end the process
        worker = Worker(desk=self._desk, jobs=self._imported(), around=self._around, remaining=self._remaining)
        try:
            _threads.start(self._beat, "heartbeat")
            _threads.start(partial(self._eraser.serve, self._ended), "eraser")
            to_start = groups(worker, worker.take(self._deliveries))
        except Exception:  # Lambda sees it, and all messages come back: nothing may go on keeping them
            self._end()
            raise
        for group in to_start:
            start_together(worker, group, self._done)
        return self

    def _hide(self, seconds: int) -> None:
        """Set the visibility of all messages. Lambda's own is that of the queue, 90 minutes, which a crash would cost."""
        self._services.work.hide([delivery.receipt for delivery in self._deliveries], seconds)

    def _imported(self) -> Jobs:
        """The jobs; if they cannot be imported, the messages are released and the error goes to Lambda."""
        try:
            return self._import_jobs()
        except BaseException:  # a package may call sys.exit when it is imported
            with suppress(Unavailable):  # then they come back when the visibility of a lease ends
                self._hide(_SOON)
            raise

    def _done(self, done: Sequence[tuple[Task, Outcome]]) -> None:
        for task, outcome in done:
            self._futures[task.delivery.id].set_result(outcome)

    def __exit__(self, *_: object) -> None:
        wait(self._futures.values())
        self._end()

    def _end(self) -> None:
        self._ended.set()
        self._eraser.stop()

    @property
    def must_recycle(self) -> bool:
        """Whether a job's thread was abandoned: only the process's end ends it."""
        return self._desk.abandoned.is_set()

    def _beat(self) -> None:
        while not self._ended.wait(HEARTBEAT / SECOND):
            try:
                self._heartbeat.beat(system_clock())
            except Exception:  # the next beat may succeed, and without beats every lease is lost
                log.exception("heartbeat.failed")

    def outcome(self, message_id: str) -> Outcome:
        """What became of a message, when it is known."""
        return self._futures[message_id].result()


def _delivery(record: dict[str, Any]) -> RawMessage:
    """An SQS record as Lambda gives it: of whichever stripe of its queue."""
    return RawMessage(
        body=record["body"],
        receipt=held(record["receiptHandle"], stripe_called(record.get("eventSourceARN", ""))),
        receives=int(record.get("attributes", {}).get("ApproximateReceiveCount", "1")),
        id=record["messageId"],
    )
