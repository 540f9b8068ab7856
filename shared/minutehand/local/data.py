"""The data directory: what a local cloud keeps from one start to the next."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import IO

from minutehand.errors import Misconfigured


class DataDirectory:
    """A directory with the snapshot that the cloud writes when it is stopped in good order, for one cloud at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._port = path / "port"
        self._queues = path / "state" / "sqs.json"
        self._lock: IO[str] | None = None

    def open(self) -> None:
        """Take it for this process; Misconfigured if another cloud runs on it."""
        lock = (self.path / "lock").open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            raise Misconfigured(
                f"data={str(self.path)!r} is in use by another local cloud; stop it or use another"
            ) from None
        self._lock = lock

    def close(self) -> None:
        """Leave it to others."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def port(self) -> int | None:
        """The port that the cloud had the last time; None at the first."""
        return int(self._port.read_text()) if self._port.exists() else None

    def move_to(self, port: int, host: str) -> None:
        """Note the port of the coming start. MiniStack knows queues by URL: those of another port would seem empty."""
        before = self.port()
        if before not in (None, port) and self._queues.exists():
            state = self._queues.read_text()
            self._queues.write_text(state.replace(f"http://{host}:{before}/", f"http://{host}:{port}/"))
        self._port.write_text(str(port))
