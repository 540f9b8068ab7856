"""Snapshots of a running emulator: of one instant, after changes, whole or not at all."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from quarterjack.cli.app import run
from quarterjack.local.cloud import LocalCloud
from quarterjack.local.engine import UNSAVED
from quarterjack.local.session import session
from quarterjack.local.snapshots import STATUS, Snapshots, is_read, newest

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
        await send({"type": "lifespan.shutdown.complete"})

    @property
    def saved(self) -> int | None:
        snapshot = newest(self.state)
        return None if snapshot is None else int(json.loads((snapshot / "count.json").read_text())["count"])

    def take(self) -> int | None:
        asyncio.run(self.take_on(lambda: None))
        return self.saved

    async def take_on(self, meanwhile: Callable[[], None]) -> None:
        """Take a snapshot, and do something as soon as its process is there."""
        fork = self.snapshots.fork

        def forked() -> tuple[int, int]:
            child = fork()
            meanwhile()
            return child

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(self.snapshots, "fork", forked)
            await self.snapshots.take()

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

    def change() -> None:
        emulator.count = 8

    asyncio.run(emulator.take_on(change))
    assert emulator.saved == 7


def test_one_that_fails_leaves_the_one_before_and_says_why(tmp_path: Path) -> None:
    emulator = Emulator(tmp_path)
    emulator.take()

    def failing(folder: Path) -> None:
        (folder / "count.json").write_text("{")
        raise OSError(errno.ENOSPC, "No space left on device")

    emulator.snapshots._write = failing
    emulator.count = 1
    assert emulator.take() == 0
    assert "No space left on device" in str(emulator.snapshots.failure)
    assert len(list(emulator.state.iterdir())) == 1, "nothing half-written stays"
    emulator.snapshots._write = emulator.save
    assert emulator.take() == 1
    assert emulator.snapshots.failure is None


def test_it_is_replaced_as_a_whole_with_the_files_of_what_was_not_loaded(tmp_path: Path) -> None:
    emulator = Emulator(tmp_path)
    emulator.take()
    first = newest(emulator.state)
    assert first is not None
    (first / "other.json").write_text("{}")
    (emulator.state / "new").mkdir()
    (emulator.state / "new" / "half.json").write_text("{")
    emulator.take()
    (second,) = emulator.state.iterdir()
    assert second != first
    assert {file.name for file in second.iterdir()} == {"count.json", "other.json"}


def test_one_that_a_signal_ends_is_a_failure(tmp_path: Path) -> None:
    emulator = Emulator(tmp_path)
    emulator.snapshots._write = lambda _: signal.raise_signal(signal.SIGALRM)
    assert emulator.take() is None
    assert "ended with -14" in str(emulator.snapshots.failure)


def test_without_a_process_it_is_a_failure_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    emulator = Emulator(tmp_path)

    def fork() -> tuple[int, int]:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(emulator.snapshots, "fork", fork)
    asyncio.run(emulator.snapshots.take())
    assert "Cannot allocate memory" in str(emulator.snapshots.failure)


def test_one_whose_emulator_was_killed_meanwhile_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next emulator may be reading the files already."""
    emulator = Emulator(tmp_path)
    monkeypatch.setattr(os, "getppid", lambda: 1)
    assert emulator.take() is None


def test_changes_are_written_while_it_runs_and_reads_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    emulator, forked = Emulator(tmp_path), list[int]()
    fork = emulator.snapshots.fork

    def counted() -> tuple[int, int]:
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


async def status(around: Any) -> Any:
    """What the application answers at STATUS."""
    sent = list[dict[str, Any]]()

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await around({"type": "http", "method": "GET", "path": STATUS, "headers": []}, None, send)
    return json.loads(sent[1]["body"])["failure"]


def test_a_failure_is_told_and_tried_again_without_a_change(tmp_path: Path) -> None:
    emulator = Emulator(tmp_path)
    save = emulator.snapshots._write

    def failing(folder: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    emulator.snapshots._write = failing

    async def use(around: Any) -> None:
        assert await status(around) is None
        await around(PUT, None, None)
        while await status(around) is None:
            await asyncio.to_thread(os.sched_yield)
        emulator.snapshots._write = save
        while await status(around) is not None:
            await asyncio.to_thread(os.sched_yield)
        assert emulator.saved == 1

    asyncio.run(emulator.live(use))


def test_the_last_state_is_written_at_the_end_after_the_snapshot_under_way(tmp_path: Path) -> None:
    emulator, order = Emulator(tmp_path), list[int]()
    begun, fork = asyncio.Event(), emulator.snapshots.fork

    def forked() -> tuple[int, int]:
        order.append(emulator.count)
        begun.set()
        return fork()

    emulator.snapshots.fork = forked  # type: ignore[method-assign]

    async def use(around: Any) -> None:
        await around(PUT, None, None)
        await begun.wait()
        emulator.count += 1  # by a request that is under way at the end

    asyncio.run(emulator.live(use))
    assert order == [1, 2]
    assert emulator.saved == 2


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


def test_the_command_fails_where_the_state_at_its_end_is_not_saved(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """After an orderly session, whose cloud ends with the code of a snapshot that failed."""
    cloud = LocalCloud(data=tmp_path / "cloud")
    cloud.log.parent.mkdir()
    cloud.log.write_text("No space left on device\n")
    monkeypatch.setattr(cloud, "start", lambda: cloud)
    monkeypatch.setattr(cloud, "_end", lambda: UNSAVED)

    def session_that_ends(*_: object, **__: object) -> None:
        with cloud:
            pass

    monkeypatch.setattr(session, "run", session_that_ends)
    assert run(["local", "--data", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert "the state at the end is not in it" in said
    assert "Traceback" not in said
