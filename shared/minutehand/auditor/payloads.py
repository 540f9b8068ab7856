"""Remove the large payloads of runs that have left the ledger.

No rule of the bucket could: a run may be due in a hundred years, or wait for ever in a freeze, and S3 knows an object's age only. A
payload of one run has that run in its key. So it goes when the run's row is gone, which is a retention after the run's end; a
payload that was removed too early would be a run that was accepted and cannot run.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import islice

from minutehand.domain.payload import run_of_object
from minutehand.domain.times import DAY
from minutehand.ports.services import Clock, Services

log = logging.getLogger(__name__)

_BATCH = 100  # rows of one read


def remove_payloads(services: Services, clock: Clock, *, after: str = "") -> Iterator[tuple[str, int]]:
    """Look at payloads beyond this key, in batches; of each batch the last key, and how many were removed. Raises Unavailable.

    A younger payload than the retention is of a run that is in the ledger, or about to be.
    """
    keys = services.payloads.of_runs(after=after, before=clock() - services.retention - DAY)
    while batch := list(islice(keys, _BATCH)):
        runs = {key: run for key in batch if (run := run_of_object(key)) is not None}
        read = services.ledger.look(list(runs.values()))
        gone = [key for key, run in runs.items() if run not in read.found and run not in read.unanswered]
        if gone:
            services.payloads.remove(gone)
            log.info("audit.payloads_removed", extra={"payloads": len(gone)})
        yield batch[-1], len(gone)
