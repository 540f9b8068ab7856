"""One batch of messages of a worker function: the records of its event, at the shell that worker processes have as well."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any

from quarterjack.concurrency.pools import ThreadCache
from quarterjack.daemon.worker_record import RecordKeeper
from quarterjack.daemon.worker_shell import WorkerShell
from quarterjack.errors import Unavailable
from quarterjack.ports.services import Services
from quarterjack.sqs.queues import delivery_of
from quarterjack.worker.breakers import BreakerBook
from quarterjack.worker.context import Done, KnownJobs
from quarterjack.worker.delivery.visibility import HIDDEN
from quarterjack.worker.stages import LeasedRun
from quarterjack.worker.versions import OwnVersion

log = logging.getLogger(__name__)

_SOON = 10  # seconds before a message comes back whose worker could not import its jobs
_threads = ThreadCache()  # of this process, from batch to batch
_breakers = BreakerBook()  # likewise


def work_off(
    records: Iterable[dict[str, Any]],
    services: Services,
    import_jobs: Callable[[], KnownJobs],
    *,
    name: str,
    started: Callable[[Sequence[LeasedRun]], None] = lambda leased: None,
    around: Callable[[Mapping[str, str]], AbstractContextManager[object]],
    remaining: Callable[[], float | None],
    keeper: Callable[[], RecordKeeper | None] = lambda: None,
    own_version: Callable[[], OwnVersion] = OwnVersion,
) -> tuple[dict[str, Done], bool]:
    """Run a batch to its end: what is done by message; and whether a job's thread was abandoned: only the process's end ends it.

    ``keeper`` gives the keeper of this environment's record.
    An error goes to Lambda, and all messages come back: soon, if the jobs cannot be imported.
    """
    deliveries, outcomes = [delivery_of(record) for record in records], dict[str, Done]()

    def hide(seconds: int) -> None:
        """Lambda's own visibility is that of the queue, 15 minutes, which a crash would cost."""
        services.work.hide([delivery.receipt for delivery in deliveries], seconds)

    def report(done: Sequence[Done]) -> None:
        outcomes.update({each[0].delivery.id: each for each in done})

    try:
        hide(HIDDEN)  # before the import, which may take long or end the process
    except Unavailable as problem:  # the heartbeat sets it in 20 s; an error now would cost the queue's visibility
        log.warning("worker.visibility_not_set", extra={"error": str(problem)})
    try:
        jobs = import_jobs()
    except BaseException:  # a package may call sys.exit when it is imported
        with suppress(Unavailable):  # then they come back when the visibility of a lease ends
            hide(_SOON)
        raise
    shell = WorkerShell(
        services,
        jobs,
        name=name,
        around=around,
        remaining=remaining,
        report=report,
        started=started,
        threads=_threads,
        breakers=_breakers,
        keeper=keeper(),
        own_version=own_version(),
    )
    try:
        shell.start()
        shell.work(deliveries)
        shell.wait()
    finally:  # also where it did not start: nothing may go on keeping the messages
        shell.stop()
    return outcomes, shell.worker.abandoned.is_set()
