"""Threads that are used again: to start one costs some 90 µs of CPU, to hand work to one that waits costs 4."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

IDLE = 60.0  # seconds after which a thread that has nothing to do ends

_Work = tuple[Callable[[], object], str]


class ThreadCache:
    """As many threads as have work at the same time. They are daemons: a job that never ends keeps no process alive."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[
            tuple[SimpleQueue[_Work], threading.Thread]
        ] = []  # of idle threads, the one that was busy last at the end

    def start(self, body: Callable[[], object], name: str) -> None:
        """Run ``body`` in a thread of that name, at once."""
        inbox = self._idle()
        if inbox is not None:
            inbox.put((body, name))
        else:
            threading.Thread(target=self._serve, args=(body, name), daemon=True).start()

    def _idle(self) -> SimpleQueue[_Work] | None:
        with self._lock:
            while self._waiting:
                inbox, thread = self._waiting.pop()
                if thread.is_alive():  # it is not in a fork's copy: threads stay with their parent
                    return inbox
        return None

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
                self._waiting.append((inbox, threading.current_thread()))
            body, name = self._next(inbox)

    def _next(self, inbox: SimpleQueue[_Work]) -> tuple[Callable[[], object] | None, str]:
        try:
            return inbox.get(timeout=IDLE)
        except Empty:
            with self._lock:
                mine = (inbox, threading.current_thread())
                if mine in self._waiting:
                    self._waiting.remove(mine)
                    return None, ""
            return inbox.get()  # it was handed work just now
