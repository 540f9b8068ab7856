"""Real clients whose single items are throttled, and whose answers get lost, as AWS does it and no engine here.

A throttled item is taken out of the request before it is sent, and named in the answer: it has had no effect.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from botocore.exceptions import ReadTimeoutError

Choose = Callable[[int, Sequence[Any]], set[int]]  # number of the call, its items → places to throttle

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
        self._lock, self._present = threading.Lock(), threading.local()  # requests go side by side, each in its thread
        self.table = ""
        self.calls: list[int] = []

    def take(self, params: dict[str, Any], **_: object) -> dict[str, Any]:
        """Take the throttled items out of a request."""
        items = self._items(params)
        with self._lock:
            chosen = self._choose(len(self.calls), items)
            self.calls.append(len(items))
        self._present.taken = taken = {place: items[place] for place in sorted(chosen)}
        self._present.all = len(taken) == len(items)
        if self._present.all:
            return params
        return self._with(params, [item for place, item in enumerate(items) if place not in taken])

    def stop(self, **_: object) -> SimpleNamespace | None:
        """A request of which nothing is left is not sent."""
        if not self._present.all:
            return None
        responses: Any = [] if self.operation == "BatchExecuteStatement" else {}
        content = json.dumps({"Responses": responses}).encode()
        return SimpleNamespace(status_code=200, headers={}, content=content)

    def _items(self, params: dict[str, Any]) -> list[Any]:
        if "RequestItems" in params:
            (of_table,) = params["RequestItems"].values()
            return list(of_table["Keys"] if isinstance(of_table, dict) else of_table)
        return list(params["Statements" if "Statements" in params else "Entries"])

    def _with(self, params: dict[str, Any], items: list[Any]) -> dict[str, Any]:
        if "RequestItems" not in params:
            return params | {"Statements" if "Statements" in params else "Entries": items}
        ((table, of_table),) = params["RequestItems"].items()
        return params | {"RequestItems": {table: of_table | {"Keys": items} if isinstance(of_table, dict) else items}}

    def name(self, parsed: dict[str, Any], **_: object) -> None:
        """Name the throttled items in the answer."""
        taken, self._present.taken = self._present.taken, {}
        if not taken:
            return
        match self.operation:
            case "BatchExecuteStatement":
                for place in taken:
                    parsed["Responses"].insert(place, {"Error": {"Code": self._code, "Message": "injected"}})
            case "BatchGetItem":
                parsed["UnprocessedKeys"] = {self.table: {"Keys": list(taken.values())}}
            case "BatchWriteItem":
                parsed["UnprocessedItems"] = {self.table: list(taken.values())}
            case _:
                failed = [{"Id": e["Id"], "Code": self._code, "SenderFault": False} for e in taken.values()]
                parsed["Failed"] = [*parsed.get("Failed", []), *failed]

    def of(self, table: str) -> Throttle:
        """The table that the answers name."""
        self.table = table
        return self


@contextmanager
def throttled(clients: dict[str, Any], throttle: Throttle) -> Iterator[Throttle]:
    """For the time of the block."""
    service = _SERVICES[throttle.operation]
    events = clients[service].meta.events
    handlers = {"provide-client-params": throttle.take, "before-send": throttle.stop, "after-call": throttle.name}
    for event, handler in handlers.items():
        events.register(f"{event}.{service}.{throttle.operation}", handler)
    try:
        yield throttle
    finally:
        for event, handler in handlers.items():
            events.unregister(f"{event}.{service}.{throttle.operation}", handler)


@contextmanager
def answer_lost(client: Any, service: str, operation: str, *, times: int = 1) -> Iterator[list[str]]:
    """The request takes effect and its answer does not arrive: botocore tries again. The URLs of what was sent so."""
    sent: list[str] = []

    def lose(request: Any, **_: object) -> None:
        if len(sent) < times:
            sent.append(request.url)
            client._endpoint.http_session.send(request)
            raise ReadTimeoutError(endpoint_url=request.url)

    event = f"before-send.{service}.{operation}"
    client.meta.events.register(event, lose)
    try:
        yield sent
    finally:
        client.meta.events.unregister(event, lose)
