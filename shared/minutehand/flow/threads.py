"""Threads that are used again: to start one costs some 90 µs of CPU, to hand work to one that waits costs 4."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

IDLE = 60.0  # seconds after which a thread that has nothing to do ends

_Work = tuple[Callable[[], object], str]


class Threads:
    """As many threads as have work at the same time. They are daemons: a job that never ends keeps no process alive."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._waiting: list[SimpleQueue[_Work]] = []  # of idle threads, the one that was busy last at the end

    def start(self, body: Callable[[], object], name: str) -> None:
        """Run ``body`` in a thread of that name, at once."""
        if self._process != os.getpid():  # a fork's copy: its threads stayed with its parent
            self._lock, self._waiting, self._process = threading.Lock(), [], os.getpid()
        with self._lock:
            inbox = self._waiting.pop() if self._waiting else None
        if inbox is not None:
            inbox.put((body, name))
        else:
            threading.Thread(target=self._serve, args=(body, name), daemon=True).start()

    def _serve(self, body: Callable[[], object] | None, name: str) -> None:
        inbox: SimpleQueue[_Work] = SimpleQueue()
        while body is not None:
            threading.current_thread().name = name
            body()
            del body  # and what it holds
            if (
                threading.current_thread() is threading.main_thread()
            ):  # the job has forked: this is the copy, and alone in it
                return
            with self._lock:
                self._waiting.append(inbox)
            body, name = self._next(inbox)

    def _next(self, inbox: SimpleQueue[_Work]) -> tuple[Callable[[], object] | None, str]:
        try:
            return inbox.get(timeout=IDLE)
        except Empty:
            with self._lock:
                if inbox in self._waiting:
                    self._waiting.remove(inbox)
                    return None, ""
            return inbox.get()  # it was handed work just now
