"""Count what a process asks of AWS, at the API: calls, written items, consumed write units where the engine tells."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from quarterjack.ports.services import Services

TICKS_PER_SECOND = 100  # of the kernel's CPU accounting
_WRITES = {"PutItem", "UpdateItem", "DeleteItem"}


class Meter:
    """Counts over the clients of some services, and over ``more`` of boto3's.

    ``writes`` are items written; those of a transaction count double, as billed.
    """

    def __init__(self, services: Services, *more: Any) -> None:
        self.calls: Counter[str] = Counter()
        self.writes = 0
        for client in clients_of(services):
            self._watch(client.transport)
        for client in more:
            client.meta.events.register(
                "provide-client-params.*", lambda params, model, **_: self._count(model.name, params)
            )

    def _watch(self, transport: Any) -> None:
        call = transport.call

        def counted(operation: str, arguments: dict[str, Any], **how: Any) -> Any:
            self._count(operation.title().replace("_", ""), arguments)
            return call(operation, arguments, **how)

        transport.call = counted

    def _count(self, name: str, params: dict[str, Any]) -> None:
        self.calls[name] += 1
        if name in _WRITES:
            self.writes += 1
        elif name == "BatchExecuteStatement":
            self.writes += len(params["Statements"])
        elif name == "BatchWriteItem":
            self.writes += sum(len(requests) for requests in params["RequestItems"].values())
        elif name == "TransactWriteItems":
            self.writes += 2 * len(params["TransactItems"])

    def of(self, *names: str) -> int:
        """Calls of these operations."""
        return sum(self.calls[name] for name in names)


SQS_CALLS = (
    "ChangeMessageVisibility",
    "ChangeMessageVisibilityBatch",
    "DeleteMessage",
    "DeleteMessageBatch",
    "ReceiveMessage",
    "SendMessage",
    "SendMessageBatch",
)


def clients_of(services: Services) -> tuple[Any, Any]:
    """The clients behind the hot path: DynamoDB's and SQS's."""
    ledger: Any = services.ledger
    work: Any = services.work
    return ledger._tables.client, work._client


def cpu(pid: int) -> float:
    """CPU seconds of a process so far, its children not included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


def niceness(pids: Iterable[int]) -> str:
    """How the kernel prefers these processes: "0" if each is as nice as any other, in a group that is; else all that they are."""
    return "/".join(str(each) for each in sorted({_nice(pid) for pid in pids}))


def _nice(pid: int) -> int:
    """Of the process, and of its group: the kernel may share processors between sessions before it looks at processes."""
    try:
        of_group = re.search(r"nice (-?\d+)", Path(f"/proc/{pid}/autogroup").read_text())
    except OSError:  # this kernel knows no such groups
        of_group = None
    return os.getpriority(os.PRIO_PROCESS, pid) + (int(of_group[1]) if of_group else 0)


def cpu_of_tree(pid: int) -> float:
    """CPU seconds so far of a process and of all that descend from it; what has ended counts by who waited for it."""
    children: dict[int, list[tuple[int, float]]] = {}
    own = 0.0
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = place.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        number, used = int(place.parent.name), sum(map(int, fields[11:15])) / TICKS_PER_SECOND
        children.setdefault(int(fields[1]), []).append((number, used))
        own = used if number == pid else own
    found, waiting = own, [pid]
    while waiting:
        for number, used in children.get(waiting.pop(), ()):
            found += used
            waiting.append(number)
    return found
