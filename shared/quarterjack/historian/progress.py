"""Records of the historian: its position in the stream, changes that it set aside, and gaps of the history."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from quarterjack.domain.history.run_change import RunChange, StreamChange
from quarterjack.domain.times import DAY, from_ms, stamp
from quarterjack.historian.context import HistorianContext
from quarterjack.ports.services import Services
from quarterjack.stores.records import Record
from quarterjack.values import replace

log = logging.getLogger(__name__)

OWNER = "~quarterjack/~historian"  # no tenant's: `~` begins no name
_POSITION, _ASIDE, _GAP, _FAILING = "~position", "~aside~", "~gap~", "~failing~"
_FILLED = "filled"  # in the body of a record that a rebuild has dealt with
_ERROR = 500  # characters
ASIDE_DAYS = 14  # for which a change that was set aside is shown
_FAILING_DAYS = 2  # a stream keeps a change for one


@dataclass(frozen=True, kw_only=True)
class ShardPosition:
    """How far a shard was read."""

    after: str | None = None  # of the last record read; None: nothing yet
    at: int | None = None  # UTC ms of that record
    ended: bool = False  # the shard is closed, and was read to its end


@dataclass(frozen=True, kw_only=True)
class StreamPosition:
    """How far the stream was read."""

    stream: str = ""  # its name
    caught_up: int = 0  # UTC ms at which nothing was left to read; 0: never
    shards: Mapping[str, ShardPosition] = field(default_factory=dict)


def read_position(services: Services, reader: str = "") -> tuple[StreamPosition | None, int]:
    """A reader's position (empty: the history's) and its record's version; None if nothing was read yet, or it cannot be read."""
    record = services.records.read(OWNER, f"{_POSITION}{reader}")
    if record is None:
        return None, 0
    try:
        body = record.body
        shards = {shard: ShardPosition(**each) for shard, each in body["shards"].items()}
        return StreamPosition(stream=body["stream"], caught_up=body["caught_up"], shards=shards), record.version
    except (AttributeError, KeyError, TypeError) as problem:
        log.error("historian.position_not_read", extra={"error": repr(problem)})
        return None, record.version


def write_position(position: StreamPosition, version: int, services: Services, reader: str = "") -> bool:
    """Replace the record of this version; False if another process has replaced it."""
    return services.records.write(
        Record(owner=OWNER, key=f"{_POSITION}{reader}", version=version + 1, body=asdict(position))
    )


def set_aside(change: StreamChange, consumer: str, problem: Exception, context: HistorianContext) -> None:
    """Record a change that a consumer cannot handle. Recording it again changes nothing."""
    body = {
        "run": str(change.ref) if isinstance(change, RunChange) else change.notice.owner,
        "sequence": str(change.sequence),
        "consumer": consumer,
        "error": repr(problem)[:_ERROR],
        "at": change.at,
    }
    key, expires = f"{_ASIDE}{change.sequence}~{consumer}", context.now + ASIDE_DAYS * DAY
    context.services.records.write(Record(owner=OWNER, key=key, version=1, body=body, expires=expires))


def failing_since(change: StreamChange, consumer: str, context: HistorianContext) -> int:
    """UTC ms at which this was first asked about a change and a consumer."""
    key, body = f"{_FAILING}{change.sequence}~{consumer}", {"at": context.now}
    records, expires = context.services.records, context.now + _FAILING_DAYS * DAY
    known = records.read(OWNER, key)
    if known is None:
        records.write(Record(owner=OWNER, key=key, version=1, body=body, expires=expires))
    return context.now if known is None else int(known.body["at"])


def changes_set_aside(services: Services) -> Iterator[Mapping[str, Any]]:
    """The changes that were set aside: run, sequence number, consumer, error, and UTC ms of the change."""
    return (record.body for record in _open_records(services, _ASIDE))


@dataclass(frozen=True, kw_only=True)
class StreamGap:
    """A time of which changes may be missing in the history. A rebuild from the ledger fills it."""

    since: int  # UTC ms
    until: int  # UTC ms


def write_gap(gap: StreamGap, services: Services) -> None:
    """Record a gap. It is shown until a rebuild has filled it, or as long as runs stay in the ledger."""
    key, expires = f"{_GAP}{stamp(gap.until)}", gap.until + services.retention
    services.records.write(Record(owner=OWNER, key=key, version=1, body=asdict(gap), expires=expires))


def gaps(services: Services) -> Iterator[StreamGap]:
    """The recorded gaps, the oldest first."""
    return (
        StreamGap(since=record.body["since"], until=record.body["until"]) for record in _open_records(services, _GAP)
    )


def mark_filled(services: Services, *, after: int, upto: int) -> None:
    """Hide the gaps and the changes set aside that a rebuild of ``(after, upto]`` (UTC ms) has filled."""
    for prefix, first, last in ((_GAP, "since", "until"), (_ASIDE, "at", "at")):
        for record in list(_open_records(services, prefix)):
            if after < record.body[first] and record.body[last] <= upto:
                filled = replace(record, version=record.version + 1, body={**record.body, _FILLED: True})
                services.records.write(filled)


def _open_records(services: Services, prefix: str) -> Iterator[Record]:
    return (record for record in services.records.listed(OWNER, prefix) if _FILLED not in record.body)


def rebuild_command(since: int) -> str:
    """The command that fills the history from an instant on (UTC ms)."""
    return f"`quarterjack history rebuild --all-tenants --since {from_ms(since):%Y-%m-%dT%H:%M:%SZ}`"
