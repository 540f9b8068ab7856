"""Gauges: once in five minutes, what waits in the queues, and which leases have passed without anybody taking their runs over.

Leases are sampled: the runs that the records of workers name which fell silent, at most MOST of them. So a lease counts from a minute and a
half after its worker died, while the worker's record is there, and none counts in an installation without history, which has no records.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, islice

from quarterjack.errors import QuarterjackError
from quarterjack.owner.workers import read_workers
from quarterjack.ports.queues import WorkDepth
from quarterjack.ports.services import Services
from quarterjack.state.worker_record import SILENT, RunAtHand, is_left_behind

log = logging.getLogger(__name__)

MOST = 100  # runs whose rows are read: one batch


@dataclass(frozen=True, kw_only=True)
class Gauges:
    """What was measured; None where a service did not answer."""

    depths: Sequence[WorkDepth] = ()  # of all SQS queues of work
    ready: int | None = None  # messages that wait in all queues
    expired: int | None = None  # leases of the sample


def measure(services: Services, now: int) -> Gauges:
    """Measure. Raises nothing: what cannot be measured is left out."""
    depths: Sequence[WorkDepth] = ()
    ready = expired = None
    try:
        depths = services.work.survey()
        ready = sum(each.depth.waiting for each in depths if each.depth is not None)
    except QuarterjackError as problem:
        log.warning("gauges.queues_not_read", extra={"error": str(problem)})
    try:
        expired = _expired(services, now)
    except QuarterjackError as problem:
        log.warning("gauges.leases_not_read", extra={"error": str(problem)})
    return Gauges(depths=depths, ready=ready, expired=expired)


def _expired(services: Services, now: int) -> int:
    """The runs of silent workers that are still as these had them, and whose leases are over."""
    silent = (row.runs for row in read_workers(services, now) if now - row.seen_at > SILENT)
    sample: Sequence[RunAtHand] = list(islice(chain.from_iterable(silent), MOST))
    found = services.ledger.look(list({run.ref for run in sample})).found if sample else {}
    return len({run.ref for run in sample if is_left_behind(run, found.get(run.ref), now)})
