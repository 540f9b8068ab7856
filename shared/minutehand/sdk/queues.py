"""Whether a queue may be named: it is declared by the jobs at hand, or it exists in the cloud.

Declared is enough: the next deployment creates it, and what is sent to it before that waits. Existing is enough: who schedules need not
have the jobs. Only a name that the jobs do not know costs a call.
"""

from __future__ import annotations

from minutehand.domain.queue import DEFAULT_QUEUE
from minutehand.errors import InvalidInput
from minutehand.jobs import Registry
from minutehand.ports.work_queue import WorkQueue


def check_declared(name: str, jobs: Registry, work: WorkQueue) -> None:
    """Raises InvalidInput, with the list of those that are known, for a queue that is neither declared nor there."""
    if jobs.find_queue(name) is not None or name in (there := work.names()):
        return
    known = sorted({*there, *(queue.name for queue in jobs.queues())})
    raise InvalidInput(
        "queue",
        name,
        "is not declared",
        f"known queues: {', '.join((DEFAULT_QUEUE, *known))}; declare it beside its jobs, Queue({name!r}), and deploy",
    )
