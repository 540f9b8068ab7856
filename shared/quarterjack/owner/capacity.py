"""What an installation's capacity depends on, as far as it is known here; and how many fires of an instant the agenda has.

An instant is counted in one shard of the agenda, which has an even share of all schedules: one query, which ends early where it is quiet.
Schedules that fire more often than every ten minutes have one entry for several fires, and so count at some of their instants only.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable

from quarterjack.domain.queue import DEFAULT_QUEUE, Queue
from quarterjack.domain.run import AgendaEntry, EntryKind
from quarterjack.domain.times import stamp
from quarterjack.errors import QuarterjackError
from quarterjack.owner.workers import read_workers
from quarterjack.ports.services import Services
from quarterjack.state.capacity.figures import DECLARED_FUNCTIONS
from quarterjack.state.capacity.model import Stack
from quarterjack.state.worker_record import WorkerKind, WorkerState

log = logging.getLogger(__name__)

MOST = 2_000  # entries of a shard that are read: about 300 KB
_SEEN = 8  # entries of an instant in one shard, below which their number says nothing of the others
_FIRES = (EntryKind.CHAIN, EntryKind.RUN)
Place = tuple[int, str | None]  # an instant (UTC ms), and a declared queue; None: the default one


def crowd_at(at: int, services: Services) -> tuple[str | None, int]:
    """The queue with the most fires at an instant (UTC ms), and about how many. One query; raises Unavailable, Misconfigured."""
    shards = services.agenda.layout().shards
    page = services.agenda.due(at // 1_000 % shards, upto=at, after=stamp(at), limit=MOST)
    places = crowds(page.entries, shards)
    return max(((queue, fires) for (_, queue), fires in places.items()), key=lambda pair: pair[1], default=(None, 0))


def crowds(entries: Iterable[AgendaEntry], shards: int) -> dict[Place, int]:
    """About how many fires of all shards are due at the instants of some entries of one shard."""
    counted = Counter((entry.due, entry.queue) for entry in entries if entry.kind in _FIRES)
    return {place: count * shards for place, count in counted.items() if count >= _SEEN or shards == 1}


def stack_of(queue: str | None, declared: Queue | None, stripes: int, services: Services, now: int) -> Stack | None:
    """What starts the runs of a queue: its worker processes if there are some, else functions as the stack makes them.

    A query for each of the 16 partitions of the workers' records. None: the queue has processes alone, and none is there.
    """
    slots = _slots(queue or DEFAULT_QUEUE, services, now)
    if slots:
        return Stack(processes=len(slots), slots=sum(slots))
    if queue is None:
        return Stack(stripes=stripes)
    if declared is None:
        return Stack(stripes=stripes, functions=int(DECLARED_FUNCTIONS.value))
    if declared.container:
        return None
    batch, each = declared.functions
    most = int(DECLARED_FUNCTIONS.value) if each is None else each * declared.stripes
    return Stack(
        stripes=declared.stripes,
        functions=most if declared.pollers is None else None,
        pollers=declared.pollers,
        batch=batch,
        warm=declared.provisioned_concurrency > 0,
    )


def _slots(queue: str, services: Services, now: int) -> list[int]:
    """Runs at once of each worker process of a queue; none where the records may not be read."""
    there = (WorkerState.BUSY, WorkerState.IDLE)
    try:
        return [
            row.identity.concurrency or 1
            for row in read_workers(services, now)
            if row.identity.kind is WorkerKind.PROCESS
            and row.identity.queue == queue
            and row.state(now, left_behind=False) in there
        ]
    except QuarterjackError as problem:  # an estimate fails no call
        log.info("capacity.workers_unread", extra={"error": str(problem)})
        return []
