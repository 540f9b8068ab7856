"""The worker as a process: of which queue, how much at a time."""

from __future__ import annotations

import logging
import threading
from dataclasses import replace

from minutehand.daemon.worker_process import CONCURRENCY, WorkerProcess
from minutehand.domain.queue import declared_name, striped, striped_text
from minutehand.errors import Unavailable
from minutehand.jobs import Registry
from minutehand.ports.services import Services
from minutehand.sdk.queues import check_declared
from minutehand.services import connect
from minutehand.settings import Settings

log = logging.getLogger(__name__)


def run_worker(
    settings: Settings, jobs: Registry, *, stop: threading.Event, concurrency: int | None = None, grace: float = 10.0
) -> bool:
    """Work until ``stop``; then finish what can be finished within ``grace`` seconds and release the rest.

    Orders come from ``settings.work_queue``; ``concurrency`` is by default what that queue declares, or CONCURRENCY. InvalidInput
    for a queue that neither the jobs declare nor the cloud has.
    Runs execute in threads. A thread cannot be killed: when this returns, end the process, so that a released run's thread ends
    too. True: it stopped by itself because a job's thread had to be abandoned; start another process.
    """
    services = connect(settings)
    queue = declared_name(settings.work_queue)
    if queue is not None:
        check_declared(queue, jobs, services.work)
    declared = jobs.find_queue(queue)
    services = _with_all_stripes(services, settings, queue)
    most = concurrency or (None if declared is None else declared.concurrency) or CONCURRENCY
    process = WorkerProcess(services, jobs, concurrency=most, queue=queue)
    process.run(stop=stop, grace=grace)
    return process.must_recycle


def _with_all_stripes(services: Services, settings: Settings, queue: str | None) -> Services:
    """The same services, that know of every stripe which they take from, whatever MINUTEHAND_STRIPES says."""
    try:
        there = services.work.count_stripes()
    except Unavailable as problem:  # then what the settings say has to do
        log.warning("worker.stripes_not_counted", extra={"error": str(problem)})
        return services
    if there <= services.work.stripes:
        return services
    known = {**striped(settings.stripes), queue: there}
    return connect(replace(settings, stripes=striped_text(known)))
