"""From a record of the stream to a change of a run, or to a notice. Lambda's events and the streams' own API have the same records."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from quarterjack.domain.history.run_change import NoticeChange, RunChange, StreamChange
from quarterjack.domain.names import RunRef
from quarterjack.domain.notice import RECORD, BreakerNotice, Notice
from quarterjack.domain.run import RunRow
from quarterjack.domain.times import SECOND
from quarterjack.dynamodb.items import to_row
from quarterjack.errors import Unreadable
from quarterjack.stores.records import record_of
from quarterjack.stores.rows import run_of

log = logging.getLogger(__name__)

Record = Mapping[str, Any]  # as the API has it: eventName, userIdentity, dynamodb with keys and images

_PUT = "INSERT"  # of a new row
_SERVICE = "dynamodb.amazonaws.com"  # who removes rows after their retention
_SHOWN = 200  # characters of a record in an error
_BESIDE = ("#", "~")  # keys of siblings and of records begin so


@dataclass(frozen=True, kw_only=True)
class ParsedRecords:
    changes: tuple[RunChange, ...]  # in the order of the records
    notices: tuple[NoticeChange, ...]  # the same
    unreadable: int  # records of runs that cannot be read: garbage, or a later release's


def parse_records(records: Iterable[Record]) -> ParsedRecords:
    """The changes of runs, and new notices. Other rows are passed over; what cannot be read is logged, counted and passed over."""
    changes, notices, unreadable = list[RunChange](), list[NoticeChange](), 0
    for record in records:
        try:
            change = _change_of(record)
        except Unreadable as problem:
            unreadable += 1
            log.error("change.unreadable", extra={"error": str(problem)})
        else:
            if isinstance(change, NoticeChange):
                notices.append(change)
            elif change is not None:
                changes.append(change)
    return ParsedRecords(changes=tuple(changes), notices=tuple(notices), unreadable=unreadable)


def _change_of(record: Record) -> StreamChange | None:
    """The change of a run, or a new notice; None for another row. Raises Unreadable."""
    try:
        content = record["dynamodb"]
        ref = RunRef(content["Keys"]["owner"]["S"], content["Keys"]["key"]["S"])
        is_notice = ref.key.startswith(RECORD)
        if not (record.get("eventName") == _PUT if is_notice else is_run(ref)):
            return None
        sequence, at = int(content["SequenceNumber"]), instant_of(content["ApproximateCreationDateTime"])
        old, new = to_row(content.get("OldImage") or {}), to_row(content.get("NewImage") or {})
    except (AttributeError, KeyError, TypeError, ValueError) as problem:
        raise Unreadable(f"a record of the stream, {str(record)[:_SHOWN]}: {problem!r}") from problem
    if is_notice:
        return NoticeChange(ref=ref, sequence=sequence, at=at, notice=_notice(new))
    return RunChange(
        ref=ref, sequence=sequence, at=at, old=_run(old), new=_run(new), expired=_is_expiry(record.get("userIdentity"))
    )


def is_run(ref: RunRef) -> bool:
    """Whether a key is a run's: neither that of a sibling or a record nor in the index of dead runs."""
    return not ref.key.startswith(_BESIDE) and "#" not in ref.owner


def _run(row: Mapping[str, Any]) -> RunRow | None:
    return run_of(row) if row else None


def _notice(row: Mapping[str, Any]) -> Notice | BreakerNotice:
    body = record_of(row).body
    try:
        notice = BreakerNotice(**body["breaker"]) if "breaker" in body else Notice.of(body["notice"])
    except (KeyError, TypeError, ValueError) as problem:
        raise Unreadable(f"notice {row['owner']}#{row['key']}: {problem!r}") from problem
    if notice.owner != row["owner"]:
        raise Unreadable(f"notice {row['owner']}#{row['key']} is about {notice.owner!r}")
    return notice


def instant_of(at: Any) -> int:
    """UTC ms of a time as Lambda (seconds), the API (seconds) or botocore (a datetime) gives it."""
    return int((at.timestamp() if isinstance(at, datetime) else float(at)) * SECOND)


def _is_expiry(identity: Any) -> bool:
    """Whether DynamoDB itself removed the row. Lambda writes the names of the fields in lower case."""
    given = identity if isinstance(identity, Mapping) else {}
    return _SERVICE in (given.get("PrincipalId"), given.get("principalId"))
