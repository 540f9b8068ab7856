"""One batch of messages of a worker function: the records of its event, at the shell that worker processes have as well."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any, Self

from minutehand.concurrency.pools import ThreadCache
from minutehand.daemon.worker_shell import WorkerShell
from minutehand.domain.message import Message
from minutehand.errors import Unavailable
from minutehand.ports.services import Services
from minutehand.ports.work_queue import RawMessage
from minutehand.sqs.queue_definitions import stripe_called
from minutehand.sqs.routing import held
from minutehand.worker.context import Done, KnownJobs
from minutehand.worker.delivery.visibility import HIDDEN
from minutehand.worker.stages import Outcome

log = logging.getLogger(__name__)

_SOON = 10  # seconds before a message comes back whose worker could not import its jobs
_threads = ThreadCache()  # of this process, from batch to batch


class Batch:
    """A batch at work. Leaving the context waits for its end; ``outcomes`` has it by message then."""

    def __init__(
        self,
        records: Iterable[dict[str, Any]],
        services: Services,
        import_jobs: Callable[[], KnownJobs],
        *,
        name: str,
        around: Callable[[Message], AbstractContextManager[object]],
        remaining: Callable[[], float | None],
    ) -> None:
        self.outcomes: dict[str, Outcome] = {}
        self._deliveries = [_delivery(record) for record in records]
        self._services, self._import_jobs = services, import_jobs
        self._name, self._around, self._remaining = name, around, remaining

    def __enter__(self) -> Self:
        try:
            self._hide(HIDDEN)  # before the import, which may take long or end the process
        except Unavailable as problem:  # the heartbeat sets it in 20 s; an error now would cost the queue's visibility
            log.warning("worker.visibility_not_set", extra={"error": str(problem)})
        self._shell = WorkerShell(
            self._services,
            self._imported(),
            name=self._name,
            around=self._around,
            remaining=self._remaining,
            report=self._report,
            threads=_threads,
        )
        try:
            self._shell.start()
            self._shell.work(self._deliveries)
        except Exception:  # Lambda sees it, and all messages come back: nothing may go on keeping them
            self._shell.stop()
            raise
        return self

    def _hide(self, seconds: int) -> None:
        """Set the visibility of all messages. Lambda's own is that of the queue, 90 minutes, which a crash would cost."""
        self._services.work.hide([delivery.receipt for delivery in self._deliveries], seconds)

    def _imported(self) -> KnownJobs:
        """The jobs; if they cannot be imported, the messages are released and the error goes to Lambda."""
        try:
            return self._import_jobs()
        except BaseException:  # a package may call sys.exit when it is imported
            with suppress(Unavailable):  # then they come back when the visibility of a lease ends
                self._hide(_SOON)
            raise

    def _report(self, done: Sequence[Done]) -> None:
        self.outcomes |= {received.delivery.id: outcome for received, outcome in done}

    def __exit__(self, *_: object) -> None:
        self._shell.wait()
        self._shell.stop()

    @property
    def must_recycle(self) -> bool:
        """Whether a job's thread was abandoned: only the process's end ends it."""
        return self._shell.worker.abandoned.is_set()


def _delivery(record: dict[str, Any]) -> RawMessage:
    """An SQS record as Lambda gives it: of whichever stripe of its queue."""
    return RawMessage(
        body=record["body"],
        receipt=held(record["receiptHandle"], stripe_called(record.get("eventSourceARN", ""))),
        receives=int(record.get("attributes", {}).get("ApproximateReceiveCount", "1")),
        id=record["messageId"],
    )
