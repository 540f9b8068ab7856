"""Batches of DynamoDB, read item by item: what was throttled or not processed is asked for again with jittered backoff.

The HTTP status of a batch is 200 even where single items failed. An item that stays unanswered after all rounds is reported so.
The requests of a round go over ``pool``, side by side and paced.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from minutehand.aws import TRANSIENT, BatchBackoff, Client
from minutehand.concurrency.request_pool import RequestPool
from minutehand.domain.quick import quick
from minutehand.dynamodb.rows import Item
from minutehand.errors import Unavailable

log = logging.getLogger(__name__)

STATEMENTS = 25  # of one BatchExecuteStatement
READS = 100  # keys of one BatchGetItem
WRITES = 25  # requests of one BatchWriteItem

_T = TypeVar("_T")


@quick
@dataclass(frozen=True, kw_only=True)
class Answered:
    """What one statement of a batch came to; a statement without an answer is not in the batch's answers."""

    refused: bool = False  # its condition does not hold, or its key exists
    item: Item = field(
        default_factory=dict
    )  # the row that refused it, or that it asked for; where the engine returns it


def execute(
    client: Client, backoff: BatchBackoff, statements: Sequence[dict[str, Any]], pool: RequestPool | None = None
) -> dict[int, Answered]:
    """Execute PartiQL statements, each conditional on its own: index → answer."""
    pool = pool or RequestPool()
    answers: dict[int, Answered] = {}
    left = list(range(len(statements)))
    for _ in client.rounds(backoff):
        for some in pool.map(
            lambda part: _execute_once(client, part, [statements[i] for i in part]), _cut(left, STATEMENTS)
        ):
            answers |= some
        left = [index for index in left if index not in answers]
        if not left:
            break
    return answers


def _execute_once(
    client: Client, indexes: Sequence[int], statements: Sequence[dict[str, Any]]
) -> tuple[dict[int, Answered], int]:
    """The answers, and how many were throttled."""
    try:
        responses = client.call_once("batch_execute_statement", Statements=list(statements))["Responses"]
    except Unavailable:
        return {}, len(indexes)
    answers, throttled = {}, 0
    for index, response in zip(indexes, responses, strict=True):
        error = response.get("Error")
        if error is None:
            answers[index] = Answered(item=response.get("Item", {}))
        elif error["Code"] in ("DuplicateItem", "ConditionalCheckFailed"):
            answers[index] = Answered(refused=True, item=error.get("Item", {}))
        elif error["Code"] in TRANSIENT:
            throttled += 1
        else:  # its own fault: it stays unanswered and stops no other
            log.error("statement.failed", extra={"code": error["Code"], "error": error.get("Message")})
    return answers, throttled


def get(
    client: Client, backoff: BatchBackoff, table: str, keys: Iterable[Item], pool: RequestPool | None = None
) -> tuple[list[Item], list[Item]]:
    """Read items strongly: those found, and the keys that were not answered."""
    pool = pool or RequestPool()
    found: list[Item] = []
    left = list(keys)
    for _ in client.rounds(backoff):
        answers = pool.map(lambda part: _get_once(client, table, part), _cut(left, READS))
        found += (item for items, _ in answers for item in items)
        left = [key for _, unread in answers for key in unread]
        if not left:
            break
    return found, left


def _get_once(client: Client, table: str, keys: list[Item]) -> tuple[tuple[list[Item], list[Item]], int]:
    try:
        answer = client.call_once("batch_get_item", RequestItems={table: {"Keys": keys, "ConsistentRead": True}})
    except Unavailable:
        return ([], keys), len(keys)
    unread = answer.get("UnprocessedKeys", {}).get(table, {}).get("Keys", [])
    return (answer["Responses"].get(table, []), unread), len(unread)


def write(
    client: Client,
    backoff: BatchBackoff,
    table: str,
    requests: Mapping[str, dict[str, Any]],
    pool: RequestPool | None = None,
) -> frozenset[str]:
    """Unconditional puts and deletes by the range key they are about: the keys that were accepted."""
    pool = pool or RequestPool()
    accepted: set[str] = set()
    left = list(requests)
    for _ in client.rounds(backoff):
        for some in pool.map(
            lambda part: _write_once(client, table, {key: requests[key] for key in part}), _cut(left, WRITES)
        ):
            accepted |= some
        left = [key for key in left if key not in accepted]
        if not left:
            break
    return frozenset(accepted)


def _write_once(client: Client, table: str, requests: Mapping[str, dict[str, Any]]) -> tuple[set[str], int]:
    try:
        answer = client.call_once("batch_write_item", RequestItems={table: list(requests.values())})
    except Unavailable:
        return set(), len(requests)
    unprocessed = {_range_key(request) for request in answer.get("UnprocessedItems", {}).get(table, [])}
    return set(requests) - unprocessed, len(unprocessed)


def _cut(items: list[_T], most: int) -> list[list[_T]]:
    return [items[start : start + most] for start in range(0, len(items), most)]


def _range_key(request: Mapping[str, Any]) -> str:
    item = request["PutRequest"]["Item"] if "PutRequest" in request else request["DeleteRequest"]["Key"]
    return str((item.get("entry") or item["key"])["S"])  # of the agenda, or of the ledger
