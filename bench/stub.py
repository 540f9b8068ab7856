"""AWS answered below botocore: requests are built, signed and serialised, answers parsed, and nothing leaves the process."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from botocore.awsrequest import AWSResponse
from minutehand.model.entry import Entry
from minutehand.store.rows import entry_row, shard_key, to_item

_KEY = re.compile(rb'"owner":\s*\{"S":\s*"([^"]+)"\}')


class StubbedCloud:
    """Answers the calls of a tick. ``cpu`` is what answering cost, to be taken off; ``calls`` and ``bytes`` are what was asked."""

    def __init__(self, entries: Sequence[Entry], revisions: Mapping[str, dict[str, Any]]) -> None:
        self._pages: dict[str, list[Entry]] = {}
        for entry in sorted(entries, key=lambda e: e.key):
            self._pages.setdefault(shard_key(entry.shard), []).append(entry)
        self._revisions = {owner: json.dumps(item).encode() for owner, item in revisions.items()}
        self.cpu = 0.0
        self.calls: Counter[str] = Counter()
        self.bytes = 0
        self.written = 0  # items put, inserted or deleted

    def attach(self, *clients: Any) -> None:
        """Answer for these boto3 clients."""
        for client in clients:
            client.meta.events.register("before-send.*", self._answer)

    def _answer(self, request: Any, **_: Any) -> AWSResponse:
        started = time.thread_time()
        target = request.headers.get("X-Amz-Target", b"")
        operation = (target.decode() if isinstance(target, bytes) else target).rpartition(".")[2]
        body = request.body if isinstance(request.body, bytes) else (request.body or "").encode()
        self.calls[operation] += 1
        self.bytes += len(body)
        content = getattr(self, f"_{operation.lower()}", self._empty)(body)
        answer = AWSResponse(request.url, 200, {"Content-Type": "application/x-amz-json-1.0"}, _Raw(content))
        self.cpu += time.thread_time() - started
        return answer

    def _empty(self, body: bytes) -> bytes:
        return b"{}"

    def _getitem(self, body: bytes) -> bytes:
        return b'{"Item": {"shards": {"N": "16"}}}'

    def _getqueueurl(self, body: bytes) -> bytes:
        return b'{"QueueUrl": "http://127.0.0.1/queue"}'

    def _query(self, body: bytes) -> bytes:
        asked = json.loads(body)
        entries = self._pages.get(asked["ExpressionAttributeValues"][":shard"]["S"], [])
        after = asked.get("ExclusiveStartKey", {}).get("entry", {}).get("S", "")
        left = [entry for entry in entries if entry.key > after]
        page = left[: asked["Limit"]]
        answer: dict[str, Any] = {"Items": [_asked_for(entry) for entry in page]}
        if len(left) > len(page):
            answer["LastEvaluatedKey"] = {"shard": {"S": shard_key(page[-1].shard)}, "entry": {"S": page[-1].key}}
        return json.dumps(answer).encode()

    def _batchgetitem(self, body: bytes) -> bytes:
        items = b",".join(self._revisions[owner.decode()] for owner in _KEY.findall(body))
        table = next(iter(json.loads(body)["RequestItems"]))
        return b'{"Responses": {"%s": [%s]}}' % (table.encode(), items)

    def _batchexecutestatement(self, body: bytes) -> bytes:
        count = body.count(b'"Statement"')
        self.written += count
        return b'{"Responses": [%s]}' % b",".join([b"{}"] * count)

    def _batchwriteitem(self, body: bytes) -> bytes:
        self.written += body.count(b"Request") - body.count(b"RequestItems")
        return b'{"UnprocessedItems": {}}'

    def _sendmessagebatch(self, body: bytes) -> bytes:
        ids = re.findall(rb'"Id":\s*"(\d+)"', body)
        each = b",".join(b'{"Id": "%s", "MessageId": "m", "MD5OfMessageBody": "%s"}' % (i, b"0" * 32) for i in ids)
        return b'{"Successful": [%s]}' % each


def _asked_for(entry: Entry) -> dict[str, Any]:
    """An entry as the projection gives it."""
    return {name: value for name, value in to_item(entry_row(entry)).items() if name != "shard"}


class _Raw:
    """What botocore reads a body from."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def stream(self, **_: Any) -> Any:
        yield self._content

    def read(self, *_: Any, **__: Any) -> bytes:
        content, self._content = self._content, b""
        return content
