"""Batches of requests about the items of one table, and transactions over several.

The HTTP status of a batch is 200 even where single items failed, so every response is read item by item. Items that were throttled or
not processed are sent again with jittered backoff; an item that has no answer after all rounds is reported as unanswered. The requests of
a round go over ``pool``, which limits how many are under way. A job's own items go into the transaction that records its step.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from quarterjack.aws import TRANSIENT, BatchBackoff, Client, TransactionRefused
from quarterjack.concurrency.pools import RequestPool
from quarterjack.dynamodb.items import Item, to_row
from quarterjack.errors import InvalidInput, Unavailable
from quarterjack.stores.tables import Answer, JobItems, table_of_item

log = logging.getLogger(__name__)

STATEMENTS = 25  # of one BatchExecuteStatement
READS = 100  # keys of one BatchGetItem
WRITES = 25  # requests of one BatchWriteItem

NamedItem = tuple[str, Item]  # an item, or its key, with the name of its table

_T = TypeVar("_T")
_R = TypeVar("_R")


class TableClient:
    """The items of one table. Raises ``ConditionFailed``, ``Unavailable`` and ``Misconfigured``, as ``Client`` does."""

    def __init__(
        self, client: Client, name: str, *, backoff: BatchBackoff | None = None, pool: RequestPool | None = None
    ) -> None:
        self.client, self.name = client, name
        self.backoff, self.pool = backoff or BatchBackoff(), pool or RequestPool()

    # Batches.

    def execute(self, statements: Sequence[dict[str, Any]], *, pooled: bool = False) -> dict[int, Answer]:
        """Execute PartiQL statements, each with its own condition: index → answer. One batch after the other, unless ``pooled``.

        The row is the one that refused the statement, or that it returns, as far as the engine sends it.
        """
        pool = self.pool if pooled else RequestPool()
        responses, _ = self._in_rounds(list(enumerate(statements)), STATEMENTS, self._execute_once, pool)
        return dict(responses)

    def _execute_once(
        self, part: list[tuple[int, dict[str, Any]]]
    ) -> tuple[list[tuple[int, Answer]], list[tuple[int, dict[str, Any]]], int]:
        statements = [statement for _, statement in part]
        responses = self.client.call_once("batch_execute_statement", Statements=statements)["Responses"]
        results, left, throttled = [], [], 0
        for place, response in zip(part, responses, strict=True):
            error = response.get("Error")
            if error is None:
                results.append((place[0], (True, to_row(response["Item"]) if "Item" in response else None)))
            elif error["Code"] in ("DuplicateItem", "ConditionalCheckFailed"):
                results.append((place[0], (False, to_row(error["Item"]) if error.get("Item") else None)))
            else:
                left.append(place)
                if error["Code"] in TRANSIENT:
                    throttled += 1
                else:  # an error of this statement alone: it stays unanswered and stops no other
                    log.error("statement.failed", extra={"code": error["Code"], "error": error.get("Message")})
        return results, left, throttled

    def read(self, keys: Iterable[NamedItem]) -> tuple[list[NamedItem], list[NamedItem]]:
        """Read items of any tables (by their names) strongly: those found, and the keys that were not answered."""
        return self._in_rounds(list(keys), READS, self._read_once, self.pool)

    def _read_once(self, keys: list[NamedItem]) -> tuple[list[NamedItem], list[NamedItem], int]:
        wanted: dict[str, Any] = {}
        for name, key in keys:
            wanted.setdefault(name, {"Keys": [], "ConsistentRead": True})["Keys"].append(key)
        answer = self.client.call_once("batch_get_item", RequestItems=wanted)
        found = [(name, item) for name, items in answer["Responses"].items() for item in items]
        unread = [(name, key) for name, left in answer.get("UnprocessedKeys", {}).items() for key in left["Keys"]]
        return found, unread, len(unread)

    def write(self, requests: Mapping[str, dict[str, Any]]) -> frozenset[str]:
        """Unconditional puts and deletes by their range key: the keys that were accepted."""
        written, _ = self._in_rounds(list(requests.items()), WRITES, self._write_once, self.pool)
        return frozenset(written)

    def _write_once(
        self, part: list[tuple[str, dict[str, Any]]]
    ) -> tuple[list[str], list[tuple[str, dict[str, Any]]], int]:
        requests = [request for _, request in part]
        answer = self.client.call_once("batch_write_item", RequestItems={self.name: requests})
        refused = answer.get("UnprocessedItems", {}).get(self.name)
        if not refused:
            return [key for key, _ in part], [], 0
        unprocessed = {_range_key(request) for request in refused}
        left = [each for each in part if each[0] in unprocessed]
        return [key for key, _ in part if key not in unprocessed], left, len(left)

    def write_all(self, requests: Sequence[dict[str, Any]]) -> Sequence[int]:
        """Unconditional puts and deletes, each of another item: the places of those that were not accepted."""
        _, left = self._in_rounds(list(enumerate(requests)), WRITES, self._write_places, self.pool)
        return [place for place, _ in left]

    def _write_places(
        self, part: list[tuple[int, dict[str, Any]]]
    ) -> tuple[list[int], list[tuple[int, dict[str, Any]]], int]:
        answer = self.client.call_once("batch_write_item", RequestItems={self.name: [each for _, each in part]})
        unprocessed = answer.get("UnprocessedItems", {}).get(self.name, [])
        left = [place for place in part if place[1] in unprocessed]
        return [place for place, each in part if each not in unprocessed], left, len(left)

    def _in_rounds(
        self, left: list[_T], most: int, send: Callable[[list[_T]], tuple[list[_R], list[_T], int]], pool: RequestPool
    ) -> tuple[list[_R], list[_T]]:
        """Send batches of at most ``most``, and again what is left of them: all results, and what stayed unanswered.

        ``send`` makes one request: its results, what is left, and how many items were throttled.
        """

        def attempt(part: list[_T]) -> tuple[tuple[list[_R], list[_T]], int]:
            try:
                done, unprocessed, throttled = send(part)
            except Unavailable:
                return ([], part), len(part)
            return (done, unprocessed), throttled

        results: list[_R] = []
        for _ in self.client.rounds(self.backoff):
            answers = pool.map(attempt, [left[start : start + most] for start in range(0, len(left), most)])
            for done, _ in answers:
                results += done
            left = [item for _, unprocessed in answers for item in unprocessed]
            if not left:
                break
        return results, left


def _range_key(request: Mapping[str, Any]) -> str:
    item = request["PutRequest"]["Item"] if "PutRequest" in request else request["DeleteRequest"]["Key"]
    return str((item.get("entry") or item["key"])["S"])  # of the agenda, or of the ledger


def send(client: Client, backoff: BatchBackoff, items: JobItems, about: str) -> frozenset[int]:
    """One transaction: empty, or the places of the items whose conditions do not hold; then nothing is written.

    After a conflict with another write it is sent again. Raises Unavailable, with ``about``, if all attempts meet conflicts.
    """
    for _ in backoff.rounds_with_waits():
        try:
            client.call("transact_write_items", TransactItems=items)
        except TransactionRefused as refused:
            if refused.places:
                return refused.places
        else:
            return frozenset()
    raise Unavailable(f"{about} met other writes again and again; try again")


def check_tables(items: JobItems, own: Iterable[str]) -> None:
    """A job writes to its own tables. Raises InvalidInput."""
    names = set(own)
    for place, item in enumerate(items):
        if table_of_item(item) in names:
            field = f"items[{place}].TableName"
            raise InvalidInput(field, table_of_item(item), "is a table of Quarterjack", "write to tables of your own")
