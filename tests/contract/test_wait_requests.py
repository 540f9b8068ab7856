"""What waits cost in requests, on every engine: those in memory, by which costs are counted elsewhere, are those to AWS."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from typing import Any

import pytest
from quarterjack import Context, Registry, Scheduler
from quarterjack.aws.client import Client
from quarterjack.testing import Detail, Hook
from quarterjack.testing.process import Hand, make_worker

from tests.support.engines import Engine

OTHERS = {"ReceiveMessage", "GetCallerIdentity"}  # as often as somebody looks; once a process
_WRITES = {"UpdateItem", "BatchExecuteStatement"}


class Counts(Hook):
    """The requests by operation."""

    def __init__(self) -> None:
        self.found = Counter[str]()

    def before_call(self, operation: str, detail: Detail) -> Collection[int]:
        self.found[operation] += 1
        return ()

    def of(self, act: Callable[[], Any]) -> dict[str, int]:
        """The requests of an act."""
        self.found.clear()
        act()
        counts = Counter[str]()
        for name, count in self.found.items():
            operation = name.title().replace("_", "") if "_" in name else name
            counts["write" if operation in _WRITES else operation] += count
        return {name: count for name, count in counts.items() if name not in OTHERS}


class Place:
    """A process on an engine that submits and works, with its requests counted."""

    def __init__(self, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        self.counts, services = Counts(), engine.services
        if engine.settings is None:
            services = engine.memory.connect(self.counts)
        else:
            called = Client._called

            def counted(client: Client, operation: str, arguments: Any, attempts: Any) -> Any:
                self.counts.found[operation] += 1
                return called(client, operation, arguments, attempts)

            monkeypatch.setattr(Client, "_called", counted)
        jobs = Registry()
        jobs.job("asks")(lambda ctx, payload: ctx.wait_for("go", timeout=3_600))
        jobs.job("parent")(parent)
        jobs.job("note")(lambda ctx, payload: payload)
        self.scheduler = Scheduler("acme", jobs=jobs, services=services, clock=engine.clock)
        self.worker = make_worker(services, jobs, engine.clock, wait=lambda seconds: None, name="w")

    def work(self) -> None:
        """Work off one message."""
        for _ in range(50):
            if Hand(worker=self.worker).work(most=1):
                return


def parent(ctx: Context, payload: object) -> object:
    return ctx.gather([ctx.submit("note", 1, step="c")])


# A settlement is one statement of a batch, or UpdateItem where the engine has no PartiQL: here both are a "write".
EXPECTED = {
    "park": {"BatchGetItem": 2, "BatchWriteItem": 1, "DeleteMessageBatch": 1, "GetItem": 2, "write": 2},
    "signal": {"GetItem": 5, "PutItem": 1, "SendMessageBatch": 1, "TransactWriteItems": 1, "write": 1},
    "goes on": {"BatchGetItem": 2, "DeleteMessageBatch": 1, "GetItem": 1, "write": 2},
    "park for a child": {
        "BatchGetItem": 3,
        "BatchWriteItem": 3,
        "DeleteMessageBatch": 1,
        "PutItem": 1,
        "SendMessageBatch": 1,
        "write": 2,
    },
    "child": {"BatchGetItem": 3, "DeleteMessageBatch": 1, "GetItem": 2, "SendMessageBatch": 1, "write": 4},
    "goes on after its child": {"BatchGetItem": 3, "DeleteMessageBatch": 1, "write": 2},
}


def test_a_park_a_signal_and_a_child_take_the_same_requests_on_every_engine(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(engine, monkeypatch)
    count, run = place.counts.of, place.scheduler.submit("asks")
    found = {"park": count(place.work)}
    found["signal"] = count(lambda: place.scheduler.signal(run.id, "go", 1))
    found["goes on"] = count(place.work)
    above = place.scheduler.submit("parent")
    found |= {name: count(place.work) for name in ("park for a child", "child", "goes on after its child")}
    assert found == EXPECTED
    assert [place.scheduler.get_run(each.id).result for each in (run, above)] == [1, [1]]
