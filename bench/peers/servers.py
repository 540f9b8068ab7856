"""The peers' databases, on loopback and free ports, their data in a folder for the time being; stopped when the block ends."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.peers.install import Missing, libraries, program

HOST = "127.0.0.1"
_START = 20.0  # seconds until it answers
_NOBODY = "nobody"  # PostgreSQL refuses to run as root
Server = tuple[str, int]  # its URL, its process id


@contextmanager
def redis() -> Iterator[Server]:
    """Redis, nothing of it on disk."""
    server, port = program("redis-server", "redis-server"), free_port()
    command = [str(server), "--bind", HOST, "--port", str(port), "--save", "", "--appendonly", "no"]
    with _folder(None) as folder, _running([*command, "--dir", str(folder)], port, folder, signal.SIGTERM) as pid:
        yield f"redis://{HOST}:{port}/0", pid


@contextmanager
def postgres() -> Iterator[Server]:
    """PostgreSQL as it is installed, with fsync."""
    server, port = program("postgres", "postgresql"), free_port()
    user = _NOBODY if os.geteuid() == 0 else None
    with _folder(user) as folder:
        data = folder / "data"
        made = subprocess.run(
            [str(server.with_name("initdb")), "-D", str(data), "-U", "peer", "-A", "trust", "-E", "UTF8", "--locale=C"],
            capture_output=True,
            text=True,
            check=False,
            cwd=folder,
            user=user,
            env=_environ(),
        )
        if made.returncode:
            raise Missing(f"initdb: {made.stderr.strip()}")
        command = [str(server), "-D", str(data), "-p", str(port), "-k", "", "-c", f"listen_addresses={HOST}"]
        with _running(command, port, folder, signal.SIGINT, user=user) as pid:
            yield f"postgresql://peer@{HOST}:{port}/postgres", pid


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


@contextmanager
def _folder(user: str | None) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="quarterjack-peer-"))
    if user is not None:
        shutil.chown(folder, user)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _running(
    command: Sequence[str], port: int, folder: Path, end: signal.Signals, user: str | None = None
) -> Iterator[int]:
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command,
            stdout=log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            cwd=folder,
            user=user,
            env=_environ(),
            start_new_session=True,
        )
    try:
        _wait(lambda: _answers(port), process, folder / "log")
        yield process.pid
    finally:
        process.send_signal(end)
        try:
            process.wait(_START)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _environ() -> dict[str, str]:
    return {**os.environ, "LD_LIBRARY_PATH": libraries(), "LC_ALL": "C"}


def _wait(answers: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START
    while not answers():
        if process.poll() is not None or time.monotonic() > deadline:
            raise Missing(f"{Path(str(process.args[0])).name}: {log.read_text(errors='replace')[-500:]}")  # type: ignore[index]
        time.sleep(0.05)


def _answers(port: int) -> bool:
    try:
        with socket.create_connection((HOST, port), timeout=1):
            return True
    except OSError:
        return False
