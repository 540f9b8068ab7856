"""The stream of the table of runs: its records as changes of runs and notices, and its shards by DynamoDB's own API.

The historian reads the shards where no Lambda function is invoked with the records. Lambda's events have the same records.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from quarterjack.aws import Client
from quarterjack.aws.errors import IteratorExpired
from quarterjack.domain.history.run_change import NoticeChange, RunChange, StreamChange
from quarterjack.domain.names import RunRef
from quarterjack.domain.notice import RECORD, BreakerNotice, Notice
from quarterjack.domain.run import RunRow
from quarterjack.domain.times import SECOND
from quarterjack.dynamodb.items import to_row
from quarterjack.errors import Misconfigured, Unreadable
from quarterjack.ports.run_stream import StreamPage, StreamShard
from quarterjack.stores.records import record_of
from quarterjack.stores.rows import run_of

# Records of an answer from which on it is read on at once. What came while fewer were handled makes a fuller batch a round later.
_MANY = 100


class _Iterator(NamedTuple):
    after: str | None  # the position that it goes on from
    text: str


class DynamoRunStream:
    """The stream of a table. ``client`` makes the client of the streams, when the first shard is asked for.

    It remembers the iterator that each shard's last read returned, so that a read is one request.
    """

    def __init__(self, tables: Client, table: str, client: Callable[[], Client]) -> None:
        self._tables, self._table, self._make = tables, table, client
        self._client: Client | None = None
        self._arn: str | None = None
        self._iterators: dict[str, _Iterator] = {}

    def name(self) -> str:
        description = self._tables.call("describe_table", TableName=self._table)["Table"]
        found: str | None = description.get("LatestStreamArn")
        is_on = description.get("StreamSpecification", {}).get("StreamEnabled", False)
        if found is None or not is_on:
            raise Misconfigured(
                f"table {self._table!r} has no stream, which the history needs; deploy the stack again, or set "
                "QUARTERJACK_HISTORY=off for all processes"
            )
        if found != self._arn:
            self._arn, self._iterators = found, {}
        return found

    def shards(self) -> Sequence[StreamShard]:
        shards, start = list[StreamShard](), dict[str, Any]()
        while True:
            answer = self._call("describe_stream", StreamArn=self._stream(), **start)["StreamDescription"]
            shards += (StreamShard(id=each["ShardId"], parent=each.get("ParentShardId")) for each in answer["Shards"])
            if "LastEvaluatedShardId" not in answer:
                break
            start = {"ExclusiveStartShardId": answer["LastEvaluatedShardId"]}
        known = {shard.id for shard in shards}
        self._iterators = {shard: found for shard, found in self._iterators.items() if shard in known}
        return shards

    def read(self, shard: str, after: str | None) -> StreamPage:
        last = self._iterators.pop(shard, None)
        iterator = last.text if last is not None and last.after == after else self._iterator(shard, after)
        try:
            answer = self._call("get_records", ShardIterator=iterator)
        except IteratorExpired:
            answer = self._call("get_records", ShardIterator=self._iterator(shard, after))
        records = answer["Records"]
        content = records[-1]["dynamodb"] if records else {}
        position: str | None = content.get("SequenceNumber")
        following: str | None = answer.get("NextShardIterator")
        if following is not None:
            self._iterators[shard] = _Iterator(position or after, following)
        parsed = parse_records(records)
        return StreamPage(
            changes=parsed.changes,
            position=position,
            at=instant_of(content["ApproximateCreationDateTime"]) if content else None,
            notices=parsed.notices,
            unreadable=parsed.unreadable,
            has_more=len(records) >= _MANY and following is not None,
            is_end=following is None,
        )

    def _iterator(self, shard: str, after: str | None) -> str:
        kind = {"ShardIteratorType": "TRIM_HORIZON"}
        if after is not None:
            kind = {"ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "SequenceNumber": after}
        answer = self._call("get_shard_iterator", StreamArn=self._stream(), ShardId=shard, **kind)
        return str(answer["ShardIterator"])

    def _stream(self) -> str:
        return self._arn or self.name()

    def _call(self, operation: str, **arguments: Any) -> dict[str, Any]:
        if self._client is None:
            self._client = self._make()
        return self._client.call(operation, **arguments)


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
