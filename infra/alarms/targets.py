"""What of a stack has alarms."""

from __future__ import annotations

from quarterjack.domain.policies import Priority
from quarterjack.sqs.routing import work_suffix

from ..storage.queues import InstallationQueues, worker_part
from .plan import QueueParts, StackParts
from .spec import Need


def stack_parts(queues: InstallationQueues, *, history: bool, events: bool, api: bool) -> StackParts:
    """The parts of an installation with these queues; ``history``, ``events`` and ``api``: whether it has those."""
    names = [None, *(queue.name for queue in queues.declared)]
    contained = {queue.name for queue in queues.declared if queue.container}
    found = [
        QueueParts(
            stripes=[work_suffix(*stripe) for stripe in queues.lanes_of(name)],
            low=[work_suffix(*stripe) for stripe in queues.lanes_of(name) if stripe.priority is Priority.LOW],
            worker=worker_part(name),
            is_declared=name is not None,
            has_function=name not in contained,
        )
        for name in names
    ]
    workers = [queue.worker for queue in found if queue.has_function]
    needs = {Need.HISTORY} if history else set[Need]()
    return StackParts(
        queues=found,
        functions=["ticker", "undertaker", "auditor", *workers, *(["api"] if api else [])],
        has=frozenset(needs | ({Need.EVENTS} if events else set())),
    )
