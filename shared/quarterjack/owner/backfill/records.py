"""The records of backfills: each one's own, beside the runs of its schedule, and the index of a tenant's backfills.

The index has a record for each backfill that was begun, by which they are listed without the names of their schedules.
It says where the backfill's own record is, and nothing of its state. It is written before that record, so that none is missing;
one whose record is not there is passed over. It expires two retentions after the backfill was begun, or was last paused, resumed or
cancelled; a backfill that runs for longer is listed with its schedule.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice

from quarterjack.domain.audit import AuditEntryRow
from quarterjack.domain.message import reading
from quarterjack.domain.names import schedule_owner
from quarterjack.domain.run import RunRow
from quarterjack.domain.times import stamp
from quarterjack.ports.services import Services
from quarterjack.state.backfill import (
    RECORD,
    StoredBackfill,
    ref_of,
)
from quarterjack.stores.records import Record
from quarterjack.values import replace, value

_GARBAGE = (ValueError, KeyError, TypeError)  # a row that this release cannot read as a run
LINE = "~begun~"  # an audit entry's key begins so
MOST_LINES = 5_000  # that a listing reads: about 1 MB
_LAST = 10**13  # ms from 1970 that audit entries count back from: the newest comes first
_RACES = 3  # other acts on the same backfill at the same time


@value()
class BackfillLine:
    """Where a backfill is."""

    key: str  # of the audit entry; the position of a cursor
    owner: str  # "tenant/name" of its schedule
    id: str


def note(backfill: StoredBackfill, services: Services, *, now: int) -> None:
    """Put the audit entry of a backfill, or let it expire later. Raises Unavailable."""
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
    """A tenant's audit entries, the newest first, behind the one with the key ``after``."""
    listed = services.records.listed(_partition(tenant), LINE)
    for record in islice(listed, MOST_LINES):
        if after is None or record.key > after:
            body = record.body
            yield BackfillLine(record.key, schedule_owner(tenant, body["schedule"]), body["id"])


def _partition(tenant: str) -> str:
    """The owner of the records; `~` begins no name of a schedule."""
    return f"{tenant}/~backfills"


# The record, beside the runs of its schedule.


def read_backfill(owner: str, identity: str, services: Services) -> StoredBackfill | None:
    """One, read strongly."""
    record = services.records.read(owner, f"{RECORD}{identity}")
    return None if record is None else _backfill_of(record)


def write_backfill(
    backfill: StoredBackfill, services: Services, audit: AuditEntryRow | None = None
) -> StoredBackfill | None:
    """Write it over the version that was read, with the audit entry of an act; None if the record has changed since."""
    after = replace(backfill, version=backfill.version + 1)
    record = Record(
        owner=after.owner,
        key=f"{RECORD}{after.id}",
        version=after.version,
        body=after.as_body(),
        expires=None if after.ended_at is None else after.ended_at + services.retention,
    )
    return after if services.records.write(record, audit) else None


def backfills_of(owner: str, services: Services) -> Iterator[StoredBackfill]:
    """A schedule's backfills, oldest first, in one query."""
    return map(_backfill_of, services.records.listed(owner, RECORD))


def read_runs(backfill: StoredBackfill, fires: Iterable[int], services: Services) -> dict[int, RunRow | None]:
    """The runs of fires (None: there is none), in batches; a fire whose row cannot be read as a run is left out. Raises Unavailable."""
    refs = {fire: ref_of(backfill, fire) for fire in fires}
    if not refs:
        return {}
    answer = services.ledger.look(list(refs.values()))
    runs: dict[int, RunRow | None] = {}
    for fire, ref in refs.items():
        with suppress(*_GARBAGE):
            runs[fire] = services.ledger.read(ref) if ref in answer.unanswered else answer.found.get(ref)
    return runs


def _backfill_of(record: Record) -> StoredBackfill:
    with reading(f"backfill {record.key!r} of {record.owner!r}", record.body):
        backfill = StoredBackfill.of_body(record.body, record.version)
        if (backfill.owner, f"{RECORD}{backfill.id}") != (record.owner, record.key):
            raise ValueError(f"it is about {backfill.owner!r}")
        return backfill
