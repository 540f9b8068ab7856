"""Real clients whose single items are throttled, and whose responses get lost, as AWS does it and no engine here.

A throttled item is taken out of the request before it is sent, and named in the response: it has had no effect.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from quarterjack.aws import Client
from quarterjack.aws.errors import NoResponse
from quarterjack.aws.http_connection import HttpResponse

Choose = Callable[[int, Sequence[Any]], set[int]]  # number of the call, its items → places to throttle

Named = tuple[str, Any]  # an item, with the name of its table

_SERVICES = {
    "BatchExecuteStatement": "dynamodb",
    "BatchGetItem": "dynamodb",
    "BatchWriteItem": "dynamodb",
    "SendMessageBatch": "sqs",
    "ChangeMessageVisibilityBatch": "sqs",
    "DeleteMessageBatch": "sqs",
}


class Throttle:
    """One operation of one client. ``calls`` are the numbers of items of each request as they were asked for."""

    def __init__(self, operation: str, choose: Choose, code: str = "ThrottlingError") -> None:
        self.operation, self._choose, self._code = operation, choose, code
        self._lock = threading.Lock()  # requests go side by side, each in its thread
        self.calls: list[int] = []

    def __call__(self, params: dict[str, Any], send: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
        """Send a request without its throttled items, and name these in its response. An empty request is not sent."""
        items = [item for _, item in _items(params)]
        with self._lock:
            chosen = self._choose(len(self.calls), items)
            self.calls.append(len(items))
        taken = {place: _items(params)[place] for place in sorted(chosen)}
        if len(taken) == len(items):
            parsed: dict[str, Any] = {"Responses": [] if self.operation == "BatchExecuteStatement" else {}}
        else:
            parsed = send(_without(params, taken))
        if taken:
            self._name(taken, parsed)
        return parsed

    def _name(self, taken: dict[int, Named], parsed: dict[str, Any]) -> None:
        match self.operation:
            case "BatchExecuteStatement":
                for place in taken:
                    parsed["Responses"].insert(place, {"Error": {"Code": self._code, "Message": "injected"}})
            case "BatchGetItem":
                left = _by_table(taken.values())
                parsed["UnprocessedKeys"] = {table: {"Keys": keys} for table, keys in left.items()}
            case "BatchWriteItem":
                parsed["UnprocessedItems"] = _by_table(taken.values())
            case _:
                failed = [{"Id": e["Id"], "Code": self._code, "SenderFault": False} for _, e in taken.values()]
                parsed["Failed"] = [*parsed.get("Failed", []), *failed]


def _items(params: dict[str, Any]) -> list[Named]:
    """The items of a request, each with its table's name if the request names it."""
    if "RequestItems" in params:
        return [
            (table, item)
            for table, of in params["RequestItems"].items()
            for item in (of["Keys"] if isinstance(of, dict) else of)
        ]
    return [("", item) for item in params["Statements" if "Statements" in params else "Entries"]]


def _without(params: dict[str, Any], taken: Collection[int]) -> dict[str, Any]:
    left = [named for place, named in enumerate(_items(params)) if place not in taken]
    if "RequestItems" not in params:
        return params | {"Statements" if "Statements" in params else "Entries": [item for _, item in left]}
    asked = params["RequestItems"]
    tables = {
        table: asked[table] | {"Keys": items} if isinstance(asked[table], dict) else items
        for table, items in _by_table(left).items()
    }
    return params | {"RequestItems": tables}


def _by_table(items: Iterable[Named]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for table, item in items:
        found.setdefault(table, []).append(item)
    return found


@contextmanager
def throttled(clients: dict[str, Client], throttle: Throttle) -> Iterator[Throttle]:
    """For the time of the block."""
    transport: Any = clients[_SERVICES[throttle.operation]].transport
    before = transport.call

    def call(operation: str, arguments: dict[str, Any], *, attempts: int | None = None) -> dict[str, Any]:
        def send(params: dict[str, Any]) -> dict[str, Any]:
            parsed: dict[str, Any] = before(operation, params, attempts=attempts)
            return parsed

        is_meant = operation.title().replace("_", "") == throttle.operation
        return throttle(arguments, send) if is_meant else send(arguments)

    transport.call = call
    try:
        yield throttle
    finally:
        transport.call = before


@contextmanager
def answer_lost(client: Client, operation: str, *, times: int = 1) -> Iterator[list[bytes]]:
    """The request takes effect and its response does not arrive: it is sent again. The bodies of the requests that this befell."""
    sent: list[bytes] = []
    connections: Any = client.transport.connections if client.transport else None
    before = connections.post

    def post(headers: dict[str, str], body: bytes, seconds: float) -> HttpResponse:
        response: HttpResponse = before(headers, body, seconds)
        if headers["x-amz-target"].endswith(f".{operation}") and len(sent) < times:
            sent.append(body)
            raise NoResponse("injected: the response is lost")
        return response

    connections.post = post
    try:
        yield sent
    finally:
        connections.post = before
