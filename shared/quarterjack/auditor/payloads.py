"""Remove the large payloads of runs that have left the ledger, and those that their schedule does not need any more.

No rule of the bucket could: a run may be due in a hundred years, or wait for ever in a freeze, and S3 knows an object's age only. The
key of a payload says whose it is. One of a run goes when the run's row is gone, which is a retention after the run's end. One of a
schedule goes when no revision, no backfill and no run of the schedule names it: it was stored in vain, its backfill is long over, or the
schedule was deleted a retention ago. A payload that was removed too early would be a run that was accepted and cannot run.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from itertools import groupby, islice

from quarterjack.domain.names import RunRef
from quarterjack.domain.payload import owner_of_object
from quarterjack.domain.times import DAY
from quarterjack.ports.services import Clock, Services
from quarterjack.stores.leftovers import MOST_KEYS

log = logging.getLogger(__name__)


def remove_payloads(services: Services, clock: Clock, *, after: str = "") -> Iterator[tuple[str, int]]:
    """Look at payloads beyond this key, in batches; of each batch the last key, and how many were removed. Raises Unavailable.

    A younger payload than the retention is of a run or schedule that is in the tables, or about to be.
    """
    keys = services.payloads.stored(after=after, before=clock() - services.retention - DAY)
    while batch := list(islice(keys, MOST_KEYS)):
        gone = [*_of_runs(batch, services), *_of_schedules(batch, services)]
        if gone:
            services.payloads.remove(gone)
            log.info("audit.payloads_removed", extra={"payloads": len(gone)})
        yield batch[-1], len(gone)


def _of_runs(keys: Sequence[str], services: Services) -> Iterator[str]:
    """Those of runs that are not in the ledger."""
    runs = {key: run for key in keys if isinstance(run := owner_of_object(key), RunRef)}
    read = services.ledger.look(list(runs.values()))
    return (key for key, run in runs.items() if run not in read.found and run not in read.unanswered)


def _of_schedules(keys: Sequence[str], services: Services) -> Iterator[str]:
    """Those of schedules that nothing names: keys are in order, so those of one schedule are together."""
    for owner, group in groupby(keys, owner_of_object):
        if isinstance(owner, str):
            found = list(group)
            yield from sorted(set(found) - services.leftovers.named(owner, found))
