"""The directory that keeps the state of a local cloud: its lock, its ports and keys, and the URLs of queues in its last snapshot.

Ports and keys are small files that stay from one start to the next. A damaged one is an error with its remedy.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

from quarterjack.errors import Misconfigured, shorten
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


_MOST = 65_535  # the highest port
_KEY = re.compile(r"[!-~]{16,200}")


def kept_port(file: Path) -> int:
    """The port that was kept; 0 before the first start. Raises Misconfigured if the file has something else."""
    text = _read(file)
    if text is None:
        return 0
    if not (text.strip().isdecimal() and text.isascii() and int(text) <= _MOST):
        raise _damaged(file, "is no port", shorten(text), "the next start takes a free one")
    return int(text)


def kept_key(file: Path, make: Callable[[], str]) -> str:
    """The key that was kept, or a new one. Raises Misconfigured if the file has something else. Keys are not shown."""
    return kept_keys(file, lambda: {"key": make()})["key"]


def kept_keys(file: Path, make: Callable[[], Mapping[str, str]]) -> dict[str, str]:
    """The stored keys by name, or new ones from ``make``, which are stored for this user alone."""
    text = _read(file)
    if text is None:
        new = dict(make())
        keep(file, json.dumps(new))
        return new
    file.chmod(0o600)  # a copy may have been open to others
    try:
        found: Any = json.loads(text)
    except ValueError:
        found = None
    names = make().keys()
    if not isinstance(found, dict) or found.keys() != names or not all(map(_is_key, found.values())):
        raise _damaged(file, f"does not have {', '.join(names)}", "its content", "the next start makes new ones")
    return found


def keep(file: Path, text: str) -> None:
    """Replace the file as a whole; it belongs to this user alone."""
    new = file.with_name(f"{file.name}.new")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
        out.write(text)
    new.replace(file)


def _read(file: Path) -> str | None:
    return file.read_text(errors="replace") if file.exists() else None


def _is_key(value: object) -> bool:
    return isinstance(value, str) and _KEY.fullmatch(value) is not None


def _damaged(file: Path, problem: str, found: str, then: str) -> Misconfigured:
    return Misconfigured(f"{str(file)!r}: {found} {problem}; remove the file: {then}")
