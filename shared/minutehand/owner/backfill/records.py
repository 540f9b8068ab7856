"""Where backfills are stored: one record each, beside the runs of their schedule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace

from minutehand.domain.message import reading
from minutehand.domain.run import RunRow
from minutehand.ports.records import Record
from minutehand.ports.services import Services
from minutehand.state.backfill import StoredBackfill, ref_of

_PREFIX = "~backfill~"
_GARBAGE = (ValueError, KeyError, TypeError)  # a row that this release cannot read as a run


def read_backfill(owner: str, identity: str, services: Services) -> StoredBackfill | None:
    """One, read strongly."""
    record = services.records.read(owner, f"{_PREFIX}{identity}")
    return None if record is None else _backfill_of(record)


def write_backfill(backfill: StoredBackfill, services: Services) -> StoredBackfill | None:
    """Write it over the version that was read; None if the record has changed since."""
    after = replace(backfill, version=backfill.version + 1)
    record = Record(
        owner=after.owner,
        key=f"{_PREFIX}{after.id}",
        version=after.version,
        body=after.as_body(),
        expires=None if after.ended_at is None else after.ended_at + services.retention,
    )
    return after if services.records.write(record) else None


def backfills_of(owner: str, services: Services) -> Iterator[StoredBackfill]:
    """A schedule's backfills, oldest first, in one query."""
    return map(_backfill_of, services.records.listed(owner, _PREFIX))


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
        return StoredBackfill.of_body(record.body, record.version)
