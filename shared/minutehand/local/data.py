"""The data directory: the state that a local cloud keeps from one start to the next."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import IO

from minutehand.errors import Misconfigured


class DataDirectory:
    """A directory with the snapshot that the cloud writes when it is stopped with SIGTERM, locked by one cloud at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._port = path / "port"
        self._queues = path / "state" / "sqs.json"
        self._lock: IO[str] | None = None

    def open(self) -> None:
        """Lock it for this process. Raises Misconfigured if another cloud uses it."""
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
        """Release the lock."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def port(self) -> int | None:
        """The port of the last start; None before the first."""
        return int(self._port.read_text()) if self._port.exists() else None

    def move_to(self, port: int, host: str) -> None:
        """Record the port of the next start, and rewrite the URLs of queues. MiniStack finds a queue by its URL, port included."""
        before = self.port()
        if before not in (None, port) and self._queues.exists():
            state = self._queues.read_text()
            self._queues.write_text(state.replace(f"http://{host}:{before}/", f"http://{host}:{port}/"))
        self._port.write_text(str(port))
