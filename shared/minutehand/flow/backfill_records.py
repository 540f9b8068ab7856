"""Where backfills are kept: records beside the runs of their schedule, one for the backfill and one for each lane that has moved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from minutehand.domain.formats.schema import reading
from minutehand.ports.records import Record
from minutehand.ports.services import Services
from minutehand.state.backfill import ENDED, Backfill, BackfillState, Lane

_PREFIX = "~backfill~"


@dataclass(frozen=True)
class Kept:
    """A backfill as it is kept; its version decides races."""

    backfill: Backfill
    version: int  # of its record; 0 before it has one


def read_backfill(owner: str, backfill: str, services: Services) -> Kept | None:
    """One, read strongly."""
    record = services.records.read(owner, _key(backfill))
    return None if record is None else _kept(record)


def write_backfill(kept: Kept, services: Services, *, expires: int | None = None) -> bool:
    """Put it over the version that was read; False if it has moved since."""
    record = _record(kept.backfill, _key(kept.backfill.id), kept.version + 1, kept.backfill.as_body(), expires)
    return services.records.write(record)


def moved_to(kept: Kept, state: BackfillState, services: Services, *, now: int, reason: str | None) -> Kept | None:
    """The backfill in another state, written; None if it has moved since it was read."""
    ended_at = now if state in ENDED else None
    after = replace(kept.backfill, state=state, reason=reason, ended_at=ended_at)
    expires = None if ended_at is None else now + services.retention
    written = write_backfill(Kept(after, kept.version), services, expires=expires)
    return Kept(after, kept.version + 1) if written else None


def read_lane(backfill: Backfill, number: int, services: Services) -> Lane:
    """One lane, read strongly; at its beginning if it has no record."""
    record = services.records.read(backfill.owner, _lane_key(backfill.id, number))
    return Lane(number=number) if record is None else Lane.of_body(record.body, record.version)


def write_lane(backfill: Backfill, lane: Lane, services: Services, *, expires: int | None = None) -> bool:
    """Put a lane that has moved; False if somebody else moved it first."""
    key = _lane_key(backfill.id, lane.number)
    return services.records.write(_record(backfill, key, lane.version, lane.as_body(), expires))


def lanes_of(backfill: Backfill, services: Services) -> list[Lane]:
    """All lanes of a backfill, in order of number, in one query."""
    return _all_lanes(backfill, services.records.listed(backfill.owner, f"{_key(backfill.id)}~"))


def forget_lanes(backfill: Backfill, services: Services, *, expires: int) -> None:
    """Let the lanes of a backfill that has ended leave the table with it (UTC ms)."""
    for lane in lanes_of(backfill, services):
        if lane.version:
            write_lane(backfill, replace(lane, version=lane.version + 1), services, expires=expires)


def backfills_of(owner: str, services: Services) -> Iterator[tuple[Backfill, list[Lane]]]:
    """A schedule's backfills with their lanes, oldest first, in one query."""
    records = services.records.listed(owner, _PREFIX)
    for _, group in groupby(records, key=lambda record: record.key.removeprefix(_PREFIX).partition("~")[0]):
        first, *lanes = group
        if first.key.count("~") == _PREFIX.count("~"):
            backfill = _kept(first).backfill
            yield backfill, _all_lanes(backfill, lanes)


def _all_lanes(backfill: Backfill, records: Iterable[Record]) -> list[Lane]:
    found = {lane.number: lane for lane in (Lane.of_body(record.body, record.version) for record in records)}
    return [found.get(number, Lane(number=number)) for number in range(backfill.concurrency)]


def _kept(record: Record) -> Kept:
    with reading(f"backfill {record.key!r} of {record.owner!r}", record.body):
        return Kept(Backfill.of_body(record.body), record.version)


def _record(backfill: Backfill, key: str, version: int, body: dict[str, Any], expires: int | None) -> Record:
    return Record(owner=backfill.owner, key=key, version=version, body=body, expires=expires)


def _key(backfill: str) -> str:
    return f"{_PREFIX}{backfill}"


def _lane_key(backfill: str, lane: int) -> str:
    return f"{_key(backfill)}~{lane:03d}"
