"""What runs now: the records of the workers, and the runs that they have at hand, as the ledger has them.

A record is up to 20 s old, but a run that has run for 2 s is in it within 8 s of its begin. One that has ended since then is left out after
a look at its row. So what is listed as running is RUNNING; what began within the last 8 s may be missing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import nsmallest

from quarterjack.domain.message import GARBAGE
from quarterjack.domain.names import RunRef
from quarterjack.domain.run import RunRow, RunState
from quarterjack.ports.services import Services
from quarterjack.state.worker_record import KEY, WorkerRow, WorkerState, is_left_behind, owner_of, owners, parse_record

log = logging.getLogger(__name__)

_MOST = 1_000  # runs of a page
_Place = tuple[int, str, RunRef]  # of a run in the listing: when it began, negative; its id


@dataclass(frozen=True, kw_only=True)
class RunningRuns:
    """The runs that are RUNNING, as far as the records of the workers name them."""

    runs: Sequence[RunRow]  # the one that began last first
    cursor: str | None = None  # pass it as ``after`` for the next page; None: there is none
    unlisted: int = 0  # runs at hand, of any tenant, that did not fit their workers' records
    unread: int = 0  # rows that were not answered


def read_workers(services: Services, now: int, *, after: str | None = None) -> Iterator[WorkerRow]:
    """The records of all workers from beyond a position on, in a stable order; read partition by partition as they are asked for.

    Raises Unavailable. A record that cannot be read is logged and left out.
    """
    for owner in owners():
        if after is not None and owner < after.partition("#")[0]:
            continue
        for record in services.records.listed(owner, KEY):
            if after is not None and f"{owner}#{record.key}" <= after:
                continue
            if record.expires is not None and record.expires <= now:  # DynamoDB removes it within days
                continue
            try:
                yield parse_record(record.body)
            except GARBAGE as problem:
                log.error("worker.record_unreadable", extra={"owner": owner, "key": record.key, "error": str(problem)})


def position_of(row: WorkerRow) -> str:
    """Its position in the listing of ``read_workers``."""
    name = row.identity.name
    return f"{owner_of(name)}#{KEY}{name}"


def with_states(rows: Sequence[WorkerRow], services: Services, now: int) -> list[WorkerState]:
    """The state of each worker. Reads the runs of Lambda environments that fell silent with runs at hand. Raises Unavailable."""
    asked = {row.identity.name: row.runs_to_ask(now) for row in rows}
    refs = list({run.ref for runs in asked.values() for run in runs})
    found = services.ledger.look(refs).found if refs else {}
    states = []
    for row in rows:
        left = any(is_left_behind(run, found.get(run.ref), now) for run in asked[row.identity.name])
        states.append(row.state(now, left))
    return states


def running_runs(
    tenant: str | None,
    services: Services,
    now: int,
    *,
    limit: int = _MOST,
    after: str | None = None,
    wanted: Callable[[RunRow], bool] = lambda run: True,
) -> RunningRuns:
    """The runs of a tenant (None: of all) that are RUNNING, by the records of the workers and the rows of the ledger.

    A query for each of the 16 partitions of the records, and a batch read of at most ``limit`` rows, of which those that are not
    ``wanted`` are left out. ``after`` is the ``cursor`` of an earlier page; a page may have fewer runs than ``limit``, or none,
    although others follow. Raises Unavailable.
    """
    unlisted, places = 0, dict[RunRef, _Place]()
    for row in read_workers(services, now):
        unlisted += row.at_hand - len(row.runs)
        for run in row.runs:
            place = (-run.started_at, str(run.ref), run.ref)
            if tenant in (None, run.ref.tenant):  # a run that was taken over is where it began last
                places[run.ref] = min(place, places.get(run.ref, place))
    begin = None if after is None else _parse_place(after)
    page = nsmallest(limit + 1, (place for place in places.values() if begin is None or place[:2] > begin))
    read = services.ledger.look([ref for _, _, ref in page[:limit]])
    running = [run for run in read.found.values() if run.state is RunState.RUNNING and wanted(run)]
    running.sort(key=lambda run: (-(run.leased_at or 0), run.ref))
    cursor = f"{page[limit - 1][0]}#{page[limit - 1][1]}" if len(page) > limit else None
    return RunningRuns(runs=running, cursor=cursor, unlisted=unlisted, unread=len(read.unanswered))


def _parse_place(cursor: str) -> tuple[int, str]:
    started, _, run = cursor.partition("#")
    return int(started), run
