"""What workers and queues do now.

Workers: their records, and the runs that they have at hand, as the ledger has them. A record is up to 20 s old, but a run that has run
for 2 s is in it within 8 s of its begin. One that has ended since then is left out after a look at its row. So what is listed as running
is RUNNING; a run that began within the last 8 s may be missing.

Queues: how many messages wait in each SQS queue, how long the oldest has waited, whether a queue is held back. SQS tells the age of a
queue's oldest message only by CloudWatch, with minutes of delay. So it is taken from the ledger, as backpressure takes it: from the due
runs of a few schedules of the queue. If these show none, the age is unknown.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from itertools import groupby

from quarterjack.domain.message import GARBAGE
from quarterjack.domain.names import RunRef
from quarterjack.domain.policies import Priority
from quarterjack.domain.queue import PLAIN, held_part
from quarterjack.domain.run import AgendaEntry, RunRow, RunState
from quarterjack.errors import Misconfigured
from quarterjack.fires.backpressure import read_hold_log
from quarterjack.fires.context import FAR
from quarterjack.fires.waits import longest_wait
from quarterjack.ports.queues import WorkDepth
from quarterjack.ports.services import Services
from quarterjack.state.backpressure import HoldLog, QueueHolds
from quarterjack.state.worker_record import KEY, WorkerRow, WorkerState, is_left_behind, owner_of, owners, parse_record

log = logging.getLogger(__name__)

_MOST = 1_000  # runs of a page
_Place = tuple[int, str, RunRef]  # of a run in the listing: when it began, negative; its id
_ENTRIES = 100  # of a shard of the agenda that are read to find schedules of the queues


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


@dataclass(frozen=True, kw_only=True)
class FoundQueue:
    """A queue that exists."""

    name: str | None  # of a declared queue; None: the default one
    sqs_queues: Sequence[WorkDepth]  # of all lanes, in their order
    oldest: int | None  # ms that a due run has waited for a worker, at least; 0: nothing waits; None: unknown
    holds: QueueHolds | None  # its hold periods; None: unknown


def survey_queues(services: Services, now: int) -> list[FoundQueue]:
    """All queues, the default one first.

    A request for each SQS queue, one for the list, one for the hold log; and where messages wait, the agenda's next entries and a few
    runs. Raises Unavailable, Misconfigured.
    """
    there = services.work.survey()
    holds = _holds(services)
    crowded = any(each.depth is not None and each.depth.waiting for each in there)
    entries = _entries(services) if crowded else []
    return [
        FoundQueue(
            name=name,
            sqs_queues=found,
            oldest=longest_wait(name, entries, services, now) if _waiting(found) else 0,
            holds=None if holds is None else _of(name, holds),
        )
        for name, of_it in groupby(there, key=lambda each: each.queue)
        for found in [list(of_it)]
    ]


def _of(name: str | None, holds: HoldLog) -> QueueHolds:
    """The hold periods of a queue, or of another of its lanes if that is held back now and the normal one is not."""
    own, *others = (holds.of(held_part(name, lane)) for lane in sorted(Priority, key=lambda each: each not in PLAIN))
    return next((each for each in (own, *others) if each.now is not None), own)


def _waiting(counted: Sequence[WorkDepth]) -> bool:
    """Whether messages may wait for a worker."""
    return any(each.depth is None or each.depth.waiting for each in counted)


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
