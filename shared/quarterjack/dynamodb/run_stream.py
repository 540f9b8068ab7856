"""The stream of the table of runs by DynamoDB's own API: what the historian reads where no Lambda function is invoked with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from quarterjack.aws import Client
from quarterjack.aws.errors import IteratorExpired
from quarterjack.dynamodb.stream_records import instant_of, parse_records
from quarterjack.errors import Misconfigured
from quarterjack.ports.run_stream import StreamPage, StreamShard

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
