"""The API and the console of a local session. The first request loads their framework, so a session without requests starts faster."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from quarterjack.errors import InvalidInput
from quarterjack.local.data_directory import kept_key
from quarterjack.local.loopback import PORT, listen, new_key, url_of
from quarterjack.settings import Settings

_NEEDS = ("fastapi", "jinja2", "pydantic", "uvicorn")  # the extra `web`
_POLL = 0.25  # seconds between looks whether the session has ended
_GRACE = 1  # seconds that requests under way have at its end
_JOIN = 5.0  # seconds more in which the server has to end


@dataclass(frozen=True, kw_only=True)
class FrontDoorAddress:
    """Where a browser and ``curl`` find it, and the key for both."""

    url: str
    key: str


def missing_module() -> str | None:
    """The first module that is not installed, without which there is neither API nor console; None if there is none."""
    return next((name for name in _NEEDS if find_spec(name) is None), None)


@contextmanager
def open_front_door(
    settings: Settings, port: int | None, on_failure: Callable[[str], None], *, data: Path | None = None
) -> Iterator[FrontDoorAddress]:
    """Serve on loopback for the time of the block. ``port`` None is PORT, or any free one if that is taken; 0 is any free one.

    The key is that of ``data``, a directory that keeps it, or a new one. ``on_failure`` gets the reason if the server ends by itself.
    Raises InvalidInput if ``port`` is taken.
    """
    with closing(_listening(port)) as listening:
        key = new_key() if data is None else kept_key(data / "console-key.json", new_key)
        address = FrontDoorAddress(url=url_of(listening), key=key)
        server = _LazyServer(listening, settings, address.key, on_failure)
        try:
            yield address
        finally:
            server.stop()


class _LazyServer:
    """A thread that waits for the first connection, loads the application, and serves it."""

    def __init__(
        self, listening: socket.socket, settings: Settings, key: str, on_failure: Callable[[str], None]
    ) -> None:
        self._listening, self._settings, self._key = listening, settings, key
        self._on_failure = on_failure
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="front-door", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End it; requests under way have a moment."""
        self._end.set()
        self._thread.join(_GRACE + _JOIN)

    def _run(self) -> None:
        try:
            while not select.select([self._listening], [], [], _POLL)[0]:
                if self._end.is_set():
                    return
            self._serve()
        except Exception as problem:  # noqa: BLE001 (the session goes on without it)
            self._on_failure(f"the API and the console ended: {type(problem).__name__}: {problem}")

    def _serve(self) -> None:
        from quarterjack.console.serving import front_door, server_of  # noqa: PLC0415 (the reason for this module)

        server = server_of(front_door(self._settings, self._key), grace=_GRACE)
        threading.Thread(target=self._end_with_session, args=(server,), name="front-door-end", daemon=True).start()
        server.run(sockets=[self._listening])

    def _end_with_session(self, server: Any) -> None:
        self._end.wait()
        server.should_exit = True


def _listening(port: int | None) -> socket.socket:
    try:
        return listen(PORT if port is None else port)
    except InvalidInput:
        if port is None:
            return listen(0)
        raise
