"""A data directory on a full disk: a real one of a few megabytes, where the user may mount it."""

from __future__ import annotations

import errno
import io
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from quarterjack.errors import Misconfigured
from quarterjack.local.cloud import LocalCloud, StateNotSaved
from quarterjack.local.session.session import LocalSession
from quarterjack.local.snapshots import newest
from rich.console import Console

pytestmark = [pytest.mark.check, pytest.mark.cloud]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MB."""
    folder, mount = tmp_path / "disk", shutil.which("mount")
    folder.mkdir()
    arguments = ["-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    if mount is None or subprocess.run([mount, *arguments], capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a file system")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def until(condition: Callable[[], object]) -> None:
    for _ in range(600):
        if condition():
            return
        Event().wait(0.05)
    raise AssertionError


def queues(cloud: LocalCloud) -> Any:
    keys = {name.lower(): value for name, value in cloud.credentials.items()}
    return boto3.client("sqs", endpoint_url=cloud.endpoint, region_name=cloud.region, **keys)


def fill(file: Path) -> None:
    with suppress(OSError), file.open("wb", buffering=0) as out:
        while True:
            out.write(bytes(4096))


def test_a_snapshot_that_has_no_room_is_told_at_once_and_at_the_end_and_the_last_whole_one_stays(disk: Path) -> None:
    data, filler = disk / "data", disk / "filler"
    cloud = LocalCloud(data=data).start()
    queues(cloud).create_queue(QueueName="before")
    until(lambda: (found := newest(data / "state")) and "before" in (found / "sqs.json").read_text())
    assert cloud.unsaved() is None
    fill(filler)
    queues(cloud).create_queue(QueueName="after")
    until(lambda: "No space left on device" in str(cloud.unsaved()))
    with pytest.raises(StateNotSaved, match=f"data='{data}': the state at the end is not in it"):
        cloud.stop()
    with pytest.raises(Misconfigured, match="cannot be written"):
        LocalCloud(data=disk / "other").start()
    filler.unlink()
    with LocalCloud(data=data) as again:
        assert [url.rpartition("/")[2] for url in queues(again).list_queues()["QueueUrls"]] == ["before"]
        queues(again).create_queue(QueueName="later")
    with LocalCloud(data=data) as last:
        assert len(queues(last).list_queues()["QueueUrls"]) == 2


def test_output_without_room_ends_no_session() -> None:
    class Full(io.StringIO):
        def write(self, text: str, /) -> int:
            raise OSError(errno.ENOSPC, f"No space left for {len(text)} characters")

    running: Any = SimpleNamespace(folder="/data")
    session = LocalSession.__new__(LocalSession)
    session._running, session._console, session._unsaved = running, Console(file=Full()), None
    session._say_unsaved("No space left")
    assert session._unsaved is not None


def test_the_terminal_has_a_line_when_it_begins_and_one_when_it_is_over() -> None:
    console = Console(file=io.StringIO(), width=200)
    running: Any = SimpleNamespace(folder="/data")
    session = LocalSession.__new__(LocalSession)
    session._running, session._console, session._unsaved = running, console, None
    for why in (None, "No space left", "No space left", None, None):
        session._say_unsaved(why)
    assert isinstance(console.file, io.StringIO)
    first, last = console.file.getvalue().splitlines()
    assert "the state cannot be saved in /data: No space left. Make room" in first
    assert "the state is saved again" in last
