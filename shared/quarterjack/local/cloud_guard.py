"""Notices that the embedded cloud has ended by itself, and says so."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self, cast

from quarterjack.errors import Unavailable
from quarterjack.local.cloud import LocalCloud

_ASK = 1.0  # seconds between two questions whether the state is saved
_NOTICE = 0.5  # seconds between a refused connection and the news that the process has ended


class CloudDied(Unavailable):
    """The embedded cloud ended by itself: nothing that runs against it can go on."""


class CloudGuard:
    """Waits in a thread for the end of the cloud's process.

    ``lost`` is set if the cloud ends without having been told to, and so is ``stop``: then those who wait for either return.
    ``data`` is the directory that keeps the state, if one does.
    """

    def __init__(self, cloud: LocalCloud, *, data: Path | None, stop: threading.Event) -> None:
        self.lost = threading.Event()
        self._cloud, self._data, self._stop = cloud, data, stop
        self._exit_code = 0
        self._asked, self._unsaved = -math.inf, cast("str | None", None)

    def start(self) -> Self:
        self._cloud.when_lost(self._on_lost)
        return self

    def is_lost(self) -> bool:
        """Whether an error may be due to the cloud's end: the news may come a little after the first refused connection."""
        return self.lost.wait(_NOTICE)

    def check(self) -> None:
        """Raise CloudDied if the cloud has ended."""
        if self.lost.is_set():
            raise CloudDied(self._message())

    def unsaved(self) -> str | None:
        """Why the newest state is not in the data directory, as the cloud said within the last second; None: it is there."""
        if time.monotonic() - self._asked >= _ASK:
            self._asked, self._unsaved = time.monotonic(), self._cloud.unsaved()
        return self._unsaved

    @contextmanager
    def guard(self) -> Iterator[Self]:
        """Raises CloudDied in place of every error of the block that the cloud's end has caused, and at the end of the block."""
        try:
            yield self
        except Exception:
            if self.is_lost():
                self.check()
            raise
        self.check()

    def _on_lost(self, exit_code: int) -> None:
        self._exit_code = exit_code
        self.lost.set()
        self._stop.set()

    def _message(self) -> str:
        code = self._exit_code
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended by itself with exit code {code}"
        again = "start it again; its tables and queues are lost (--data DIR keeps them)"
        if self._data is not None:
            again = f"start it again with --data {self._data}, which has the state of a few seconds ago or later"
        return f"the local cloud (process {self._cloud.pid}) {how}, and nothing runs without it: {again}; its log: {self._cloud.log}"
