"""The directory that keeps the state of a local cloud: its lock, its port and key, and the URLs of queues in its last snapshot."""

from __future__ import annotations

import re
import secrets
from pathlib import Path
from typing import IO

from quarterjack.errors import Misconfigured
from quarterjack.local.kept import keep, kept_keys, kept_port
from quarterjack.local.loopback import LOOPBACK
from quarterjack.local.snapshots import newest
from quarterjack.posix import fcntl

_QUEUE_PORT = re.compile(rf"(http://{re.escape(LOOPBACK)}:)\d+(/\d{{12}}/)")  # in a queue's URL: its account follows


class DataDirectory:
    """The directory of a local cloud, with its last snapshot; one cloud at a time may lock it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._port = path / "port"
        self._lock: IO[str] | None = None

    def open(self) -> None:
        """Create it, and lock it for this process. Raises Misconfigured if another cloud uses it."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
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
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def port(self) -> int:
        """The port of the last start; 0 before the first. Raises Misconfigured if its file is damaged."""
        return kept_port(self._port)

    def keys(self) -> dict[str, str]:
        """The access key of all starts. Raises Misconfigured if its file is damaged."""
        return kept_keys(self.path / "keys.json", new_keys)

    def move_to(self, port: int) -> None:
        """Record the port of the next start, and rewrite the URLs of queues. MiniStack finds a queue by its URL, port included.

        The URLs first: their ports are replaced whatever they are, so that a start that was cut off between the two is made good.
        """
        snapshot = newest(self.path / "state")
        queues = None if snapshot is None else snapshot / "sqs.json"
        if queues is not None and queues.exists():
            state = queues.read_text(errors="surrogateescape")
            moved = _QUEUE_PORT.sub(rf"\g<1>{port}\g<2>", state)
            if moved != state:
                keep(queues, moved)
        if self.port() != port:
            keep(self._port, str(port))


def new_keys() -> dict[str, str]:
    """Credentials of one cloud, so that no other user of this machine and no web page can use the cloud."""
    return {
        "AWS_ACCESS_KEY_ID": f"LOCAL{secrets.token_hex(12).upper()}",
        "AWS_SECRET_ACCESS_KEY": secrets.token_urlsafe(30),
    }
