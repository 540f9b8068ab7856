"""Checks the name of a queue: the loaded jobs declare it, or it exists in AWS.

A declared queue need not exist yet: the next deployment creates it, and runs wait until then. An existing queue need not be declared
here: a process that creates schedules need not have the jobs. Only a name that the jobs do not declare costs a call.
"""

from __future__ import annotations

from minutehand.domain.queue import DEFAULT_QUEUE
from minutehand.errors import InvalidInput
from minutehand.jobs import Registry
from minutehand.ports.work_queue import WorkQueue


def check_declared(name: str, jobs: Registry, work: WorkQueue) -> None:
    """Raises InvalidInput, with the known queues, for a queue that is neither declared nor existing."""
    if jobs.find_queue(name) is not None or name in (existing := work.names()):
        return
    known = sorted({*existing, *(queue.name for queue in jobs.queues())})
    raise InvalidInput(
        "queue",
        name,
        "is not declared",
        f"known queues: {', '.join((DEFAULT_QUEUE, *known))}; declare it beside its jobs, Queue({name!r}), and deploy",
    )
