"""The index of a tenant's backfills: a record for each that was begun, by which they are listed without the names of their schedules.

A line says where the backfill's own record is, and nothing of its state. It is written before that record, so that none is missing;
one whose record is not there is passed over. It expires two retentions after the backfill was begun, or was last paused, resumed or
cancelled; a backfill that runs for longer is listed with its schedule.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

from quarterjack.domain.names import schedule_owner
from quarterjack.domain.times import stamp
from quarterjack.ports.services import Services
from quarterjack.state.backfill import StoredBackfill
from quarterjack.stores.records import Record

LINE = "~begun~"  # a line's key begins so
MOST_LINES = 5_000  # that a listing reads: about 1 MB
_LAST = 10**13  # ms from 1970 that lines count back from: the newest comes first
_RACES = 3  # other acts on the same backfill at the same time


@dataclass(frozen=True)
class BackfillLine:
    """Where a backfill is."""

    key: str  # of the line; the position of a cursor
    owner: str  # "tenant/name" of its schedule
    id: str


def note(backfill: StoredBackfill, services: Services, *, now: int) -> None:
    """Put the line of a backfill, or let it expire later. Raises Unavailable."""
    owner, key = _partition(backfill.tenant), f"{LINE}{stamp(_LAST - backfill.created_at)}~{backfill.id}"
    record = Record(
        owner=owner,
        key=key,
        version=1,
        body={"schedule": backfill.name, "id": backfill.id},
        expires=now + 2 * services.retention,
    )
    for _ in range(_RACES):
        if services.records.write(record):
            return
        present = services.records.read(owner, key)
        record = replace(record, version=1 if present is None else present.version + 1)


def lines(tenant: str, services: Services, *, after: str | None) -> Iterator[BackfillLine]:
    """A tenant's lines, the newest first, behind the one with the key ``after``."""
    listed = services.records.listed(_partition(tenant), LINE)
    for record in islice(listed, MOST_LINES):
        if after is None or record.key > after:
            body = record.body
            yield BackfillLine(record.key, schedule_owner(tenant, body["schedule"]), body["id"])


def _partition(tenant: str) -> str:
    """The owner of the records; `~` begins no name of a schedule."""
    return f"{tenant}/~backfills"
