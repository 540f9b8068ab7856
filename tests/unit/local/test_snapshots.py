"""Snapshots of a running emulator: of one instant, after changes, whole or not at all."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from quarterjack.local.snapshots import Snapshots, is_read

PUT = {"type": "http", "method": "POST", "headers": [(b"X-Amz-Target", b"DynamoDB_20120810.PutItem")]}
GET = {"type": "http", "method": "POST", "headers": [(b"X-Amz-Target", b"DynamoDB_20120810.GetItem")]}


class Emulator:
    """Counts writes, and saves their number as MiniStack saves its services."""

    def __init__(self, folder: Path, period: float = 0.0) -> None:
        self.count, self.asked = 0, 0
        self.state = folder / "state"
        self.snapshots = Snapshots(self.save, self.state, period=period)

    def save(self, folder: Path) -> None:
        with (folder / "count.json").open("w") as file:
            json.dump({"count": self.count}, file, default=str)

    async def app(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            self.count += 1
            return
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        self.save(self.state)
        await send({"type": "lifespan.shutdown.complete"})

    @property
    def saved(self) -> int | None:
        file = self.state / "count.json"
        return int(json.loads(file.read_text())["count"]) if file.exists() else None

    def written(self, forked: int) -> int | None:
        os.waitpid(forked, 0)
        return self.saved

    async def live(self, while_running: Callable[[Any], Awaitable[None]]) -> None:
        """Start, do something, shut down."""
        told: asyncio.Queue[str] = asyncio.Queue()
        around = self.snapshots.around(self.app)
        started = asyncio.Event()

        async def receive() -> dict[str, str]:
            return {"type": await told.get()}

        async def send(message: dict[str, str]) -> None:
            started.set()

        living = asyncio.ensure_future(around({"type": "lifespan"}, receive, send))
        await told.put("lifespan.startup")
        await started.wait()
        await while_running(around)
        await told.put("lifespan.shutdown")
        await living


def test_a_snapshot_has_the_state_of_the_instant_at_which_it_began(tmp_path: Path) -> None:
    emulator = Emulator(tmp_path)
    emulator.count = 7
    child = emulator.snapshots.fork()
    emulator.count = 8
    assert emulator.written(child) == 7


def test_one_that_fails_leaves_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    emulator = Emulator(tmp_path)
    emulator.written(emulator.snapshots.fork())

    def failing(folder: Path) -> None:
        (folder / "count.json").write_text("{")
        raise OSError

    emulator.snapshots._write = failing
    assert emulator.written(emulator.snapshots.fork()) == 0


def test_one_whose_emulator_was_killed_meanwhile_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next emulator may be reading the files already."""
    emulator = Emulator(tmp_path)
    monkeypatch.setattr(os, "getppid", lambda: 1)
    assert emulator.written(emulator.snapshots.fork()) is None


def test_changes_are_written_while_it_runs_and_reads_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    emulator, forked = Emulator(tmp_path), list[int]()
    fork = emulator.snapshots.fork

    def counted() -> int:
        forked.append(emulator.count)
        return fork()

    monkeypatch.setattr(emulator.snapshots, "fork", counted)

    async def use(around: Any) -> None:
        await around(GET, None, None)
        for _ in range(100):
            await asyncio.sleep(0)
        assert forked == []
        await around(PUT, None, None)
        while emulator.saved != 2:
            await asyncio.to_thread(os.sched_yield)
        assert forked == [2]

    asyncio.run(emulator.live(use))


def test_the_last_state_is_written_after_the_last_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    emulator, order = Emulator(tmp_path), list[str]()
    begun, wait4, save, fork = asyncio.Event(), os.wait4, emulator.save, emulator.snapshots.fork

    def forked() -> int:
        begun.set()
        return fork()

    def waited(*given: Any) -> Any:
        result = wait4(*given)
        order.append("snapshot")
        return result

    def saved(folder: Path) -> None:
        order.append("end")
        save(folder)

    monkeypatch.setattr(emulator.snapshots, "fork", forked)
    monkeypatch.setattr(os, "wait4", waited)
    monkeypatch.setattr(emulator, "save", saved)

    async def use(around: Any) -> None:
        await around(PUT, None, None)
        await begun.wait()

    asyncio.run(emulator.live(use))
    assert order == ["snapshot", "end"]
    assert emulator.saved == 1


@pytest.mark.parametrize(
    ("target", "read"),
    [
        ("DynamoDB_20120810.Query", True),
        ("DynamoDB_20120810.BatchGetItem", True),
        ("AmazonSQS.ReceiveMessage", True),
        ("AmazonSQS.SendMessageBatch", False),
        ("DynamoDB_20120810.BatchExecuteStatement", False),
        ("DynamoDB_20120810.TransactWriteItems", False),
    ],
)
def test_reads_are_known_by_their_names(target: str, read: bool) -> None:
    scope = {"type": "http", "method": "POST", "headers": [(b"x-amz-target", target.encode())]}
    assert is_read(scope) is read


def test_requests_without_a_name_are_reads_by_their_method() -> None:
    assert [is_read({"method": method, "headers": []}) for method in ("GET", "HEAD", "PUT", "DELETE", "POST")] == [
        True,
        True,
        False,
        False,
        False,
    ]
