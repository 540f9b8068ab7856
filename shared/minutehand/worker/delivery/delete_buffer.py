"""Delete settled messages in batches: a full one at once, in the thread that completes it; the rest a tenth of a second later.

The outcome is durable before a message comes here, and the message stays hidden meanwhile: losing a deletion costs one delivery
that finds its run ended.
"""

from __future__ import annotations

import logging
import threading

from minutehand.errors import MinutehandError
from minutehand.ports.work_queue import WorkQueue

log = logging.getLogger(__name__)

LINGER = 0.1  # seconds that a deletion waits for others
_FULL = 10  # deletions of one request


class DeleteBuffer:
    """Deletions that wait for others. Without ``serve`` running, ``add`` deletes at once."""

    def __init__(self, work: WorkQueue) -> None:
        self._work = work
        self._receipts: list[str] = []
        self._changed = threading.Condition()
        self._serving = False

    def add(self, *receipts: str) -> None:
        """Delete these messages soon."""
        with self._changed:
            is_first = not self._receipts
            self._receipts += receipts
            size = len(self._receipts)
            whole = size - size % _FULL if self._serving else size
            full, self._receipts = self._receipts[:whole], self._receipts[whole:]
            if is_first and self._receipts:  # else it is awake: to wake a thread costs as much as half a request
                self._changed.notify_all()
        self._erase(full)

    def serve(self, ended: threading.Event) -> None:
        """Delete what comes until ``ended``; the body of a thread. Call ``stop`` after setting it."""
        with self._changed:
            self._serving = True
        while not ended.is_set():
            with self._changed:
                self._changed.wait_for(lambda: self._receipts or ended.is_set())
            ended.wait(LINGER)
            self.flush()

    def stop(self) -> None:
        """Delete what is left, and from now on at once."""
        with self._changed:
            self._serving = False
            self._changed.notify_all()
        self.flush()

    def flush(self) -> None:
        """Delete what has come so far. What cannot be deleted comes back once, and finds its run ended."""
        with self._changed:
            receipts, self._receipts = self._receipts, []
        self._erase(receipts)

    def _erase(self, receipts: list[str]) -> None:
        if not receipts:
            return
        try:
            self._work.erase(receipts)
        except MinutehandError as problem:
            log.warning("erase.failed", extra={"messages": len(receipts), "error": str(problem)})
