"""AWS answered below the transport: requests are built, signed and serialised, answers parsed, and nothing leaves the process."""

from __future__ import annotations

import json
import re
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from quarterjack.aws.http_connection import HttpResponse
from quarterjack.domain.run import AgendaEntry
from quarterjack.dynamodb.items import to_item
from quarterjack.stores.rows import entry_row, shard_key

_NAMES = re.compile(r"'(\w+)': (\?|'\w+'|\d+)")
_KILOBYTE = 1024
Item = dict[str, dict[str, Any]]


class Exchange(NamedTuple):
    """One request and its answer."""

    target: str  # as in X-Amz-Target
    body: bytes
    content: bytes


class StubbedCloud:
    """Answers the calls of a tick and of a worker.

    ``cpu`` is what answering cost, to be taken off; ``calls``, ``bytes`` and ``units`` (write units, by the size of each item) are
    what was asked. Every condition holds; rows are made of ``run``, whose keys are filled in, and as they are read before any write of
    ``read``, if it is given. A request takes ``latency`` seconds
    beside its processor time.
    """

    def __init__(
        self,
        *,
        entries: Sequence[AgendaEntry] = (),
        revisions: Mapping[str, Item] | None = None,
        run: Item | None = None,
        read: Item | None = None,
        messages: Iterable[str] = (),
        latency: float = 0.0,
    ) -> None:
        self._pages: dict[str, list[AgendaEntry]] = {}
        for entry in sorted(entries, key=lambda e: e.key):
            self._pages.setdefault(shard_key(entry.shard), []).append(entry)
        self._places = {shard: {e.key: place for place, e in enumerate(page)} for shard, page in self._pages.items()}
        self._revisions = {owner: json.dumps(item).encode() for owner, item in (revisions or {}).items()}
        self._run = run or {}
        self._read = read or self._run
        self._messages = enumerate(messages)
        self._lock, self._latency = threading.Lock(), latency
        self.cpu = 0.0
        self.calls: Counter[str] = Counter()
        self.bytes = 0
        self.units = 0
        self.exchanges: list[Exchange] | None = None  # if somebody wants them
        self.deleted = 0  # messages

    def attach(self, services: Any) -> None:
        """Answer for the clients of these services."""
        for client in (services.ledger._tables.client, services.work._client):
            client.transport.connections = self

    def post(self, headers: Mapping[str, str], body: bytes, seconds: float) -> HttpResponse:
        """Answer one request, as ``quarterjack.aws.connections.Connections`` does."""
        operation = headers["x-amz-target"].partition(".")[2]
        started = time.thread_time()
        with self._lock:
            self.calls[operation] += 1
            self.bytes += len(body)
            content = getattr(self, f"_{operation.lower()}", _empty)(json.loads(body))
            if self.exchanges is not None:
                self.exchanges.append(Exchange(headers["x-amz-target"], body, content))
            self.cpu += time.thread_time() - started
        if self._latency:
            time.sleep(self._latency)
        return HttpResponse(200, {}, content)

    def _getitem(self, asked: Any) -> bytes:
        if asked["Key"].get("key", {}).get("S", "").startswith("~"):
            return b"{}"  # no record
        item = self._row(asked["Key"]) if "owner" in asked["Key"] else {"shards": {"N": "16"}}
        return dump({"Item": item})

    def _row(self, key: Item) -> Item:
        return self._run | key

    def _getqueueurl(self, asked: Any) -> bytes:
        return b'{"QueueUrl": "http://127.0.0.1/queue"}'

    def _getqueueattributes(self, asked: Any) -> bytes:
        return dump({"Attributes": dict.fromkeys(asked["AttributeNames"], "0")})

    def _query(self, asked: Any) -> bytes:
        shard = asked["ExpressionAttributeValues"][":0"]["S"]
        entries = self._pages.get(shard, [])
        after = asked.get("ExclusiveStartKey", {}).get("entry", {}).get("S", "")
        first = self._places[shard][after] + 1 if after else 0
        page = entries[first : first + asked.get("Limit", len(entries))]
        answer: dict[str, Any] = {"Items": [to_item(entry_row(entry)) for entry in page]}
        if first + len(page) < len(entries):
            answer["LastEvaluatedKey"] = {"shard": {"S": shard}, "entry": {"S": page[-1].key}}
        return dump(answer)

    def _batchgetitem(self, asked: Any) -> bytes:
        found = [
            b'"%s": [%s]' % (table.encode(), b",".join(self._items(wanted["Keys"])))
            for table, wanted in asked["RequestItems"].items()
        ]
        return b'{"Responses": {%s}}' % b", ".join(found)

    def _items(self, keys: Sequence[Any]) -> Iterator[bytes]:
        """Revisions or runs; no tenant has a profile, and there is no record."""
        for key in keys:
            if "number" in key:
                if found := self._revision(key["owner"]["S"]):
                    yield found
            elif "tenant" not in key and not key["key"]["S"].startswith("~"):
                yield dump(self._read | key)

    def _revision(self, owner: str) -> bytes:
        return self._revisions.get(owner, b"")

    def _updateitem(self, asked: Any) -> bytes:
        row = self._row(asked["Key"])
        self.units += units(row)
        return dump({"Attributes": row})

    def _putitem(self, asked: Any) -> bytes:
        self.units += units(asked["Item"])
        return b"{}"

    def _deleteitem(self, asked: Any) -> bytes:
        self.units += 1
        return b"{}"

    def _batchexecutestatement(self, asked: Any) -> bytes:
        return dump({"Responses": [self._executed(statement) for statement in asked["Statements"]]})

    def _executed(self, statement: Any) -> dict[str, Any]:
        text, given = statement["Statement"], list(statement["Parameters"])
        if text.startswith("INSERT"):
            literal = (
                {name: {"S": value}} if value != "?" else {name: given.pop(0)} for name, value in _NAMES.findall(text)
            )
            self.units += units({name: value for pair in literal for name, value in pair.items()})
            return {}
        before = text[: text.index('"owner"=?')].count("?")  # parameters of what is set
        row = self._row({"owner": given[before], "key": given[before + 1]})
        self.units += units(row)
        return {"Item": row} if "RETURNING" in text else {}

    def _batchwriteitem(self, asked: Any) -> bytes:
        (requests,) = asked["RequestItems"].values()
        self.units += sum(
            units(request["PutRequest"]["Item"]) if "PutRequest" in request else 1 for request in requests
        )
        return b'{"UnprocessedItems": {}}'

    def _sendmessagebatch(self, asked: Any) -> bytes:
        sent = ({"Id": entry["Id"], "MessageId": "m", "MD5OfMessageBody": "0" * 32} for entry in asked["Entries"])
        return dump({"Successful": list(sent)})

    def _receivemessage(self, asked: Any) -> bytes:
        taken = list(islice(self._messages, asked["MaxNumberOfMessages"]))
        if not taken:
            time.sleep(0.01)  # a long poll that brings nothing
        return dump({"Messages": [_received(number, body) for number, body in taken]})

    def _deletemessagebatch(self, asked: Any) -> bytes:
        self.deleted += len(asked["Entries"])
        return b'{"Successful": []}'

    def _deletemessage(self, asked: Any) -> bytes:
        self.deleted += 1
        return b"{}"


def units(item: Item) -> int:
    """Write units of an item: names and values, a unit a kilobyte."""
    size = sum(
        len(name) + len(str(value)) // (1 if kind == "S" else 2) + 1
        for name, of in item.items()
        for kind, value in of.items()
    )
    return -(-size // _KILOBYTE)


def _empty(_: Any) -> bytes:
    return b"{}"


def dump(answer: Any) -> bytes:
    return json.dumps(answer).encode()


SENT = 1_795_358_833_144  # UTC ms: when SQS took each message


def _received(number: int, body: str) -> dict[str, Any]:
    return {
        "MessageId": f"id-{number:08d}",
        "ReceiptHandle": f"receipt-{number:08d}-" + "x" * 160,  # SQS's are some 180 characters long
        "MD5OfBody": "0" * 32,
        "Body": body,
        "Attributes": {"ApproximateReceiveCount": "1", "SentTimestamp": str(SENT)},
    }
