"""The queues as an operator sees them: how much waits in each stripe, how long the oldest has waited, whether a queue is held back.

SQS tells the age of a queue's oldest message only by CloudWatch, with minutes of delay. So it is taken from the ledger, as backpressure
takes it: from the due runs of a few schedules of the queue. If these show none, the age is unknown, and is said to be.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby

from quarterjack.domain.policies import Priority
from quarterjack.domain.queue import PLAIN, Stripe, held_part
from quarterjack.domain.run import AgendaEntry
from quarterjack.errors import Misconfigured
from quarterjack.fires.backpressure import longest_wait, read_hold_log
from quarterjack.fires.context import FAR
from quarterjack.ports.services import Services
from quarterjack.state.backpressure import HoldLog, QueueDepth, QueueHolds

log = logging.getLogger(__name__)

_ENTRIES = 100  # of a shard of the agenda that are read to find schedules of the queues


@dataclass(frozen=True, kw_only=True)
class FoundQueue:
    """A queue that exists."""

    name: str | None  # of a declared queue; None: the default one
    stripes: Mapping[Stripe, QueueDepth | None]  # of all lanes, in their order; None: it did not answer
    oldest: int | None  # ms that a due run has waited for a worker, at least; 0: nothing waits; None: unknown
    holds: QueueHolds | None  # its hold periods; None: unknown


def survey_queues(services: Services, now: int) -> list[FoundQueue]:
    """All queues, the default one first.

    A request for each stripe, one for the list, one for the hold log; and where messages wait, the agenda's next entries and a few
    runs. Raises Unavailable, Misconfigured.
    """
    there = services.work.survey()
    holds = _holds(services)
    crowded = any(depth is not None and depth.waiting for depth in there.values())
    entries = _entries(services) if crowded else []
    return [
        FoundQueue(
            name=name,
            stripes=stripes,
            oldest=longest_wait(name, entries, services, now) if _waiting(stripes) else 0,
            holds=None if holds is None else _of(name, holds),
        )
        for name, found in groupby(sorted(there, key=lambda each: each.order), key=lambda each: each.queue)
        for stripes in [{stripe: there[stripe] for stripe in found}]
    ]


def _of(name: str | None, holds: HoldLog) -> QueueHolds:
    """The hold periods of a queue, or of another of its lanes if that is held back now and the normal one is not."""
    own, *others = (holds.of(held_part(name, lane)) for lane in sorted(Priority, key=lambda each: each not in PLAIN))
    return next((each for each in (own, *others) if each.now is not None), own)


def _waiting(stripes: Mapping[Stripe, QueueDepth | None]) -> bool:
    """Whether messages may wait for a worker."""
    return any(depth is None or depth.waiting for depth in stripes.values())


def _holds(services: Services) -> HoldLog | None:
    try:
        return read_hold_log(services)
    except Misconfigured as problem:  # one tenant's role may not read what concerns all
        log.info("queues.holds_unread", extra={"error": str(problem)})
        return None


def _entries(services: Services) -> list[AgendaEntry]:
    """The entries that are due next, of every shard."""
    pages = (
        services.agenda.due(shard, upto=FAR, after=None, limit=_ENTRIES)
        for shard in range(services.agenda.layout().shards)
    )
    return [entry for page in pages for entry in page.entries]
