"""Crash quarantine: a run whose worker crashed may crash the next one. At most one such suspect executes per process.

    its worker vanished   why, mostly                          it has the quarantine
    never                 it is new, or its message merely     not at all
                          came back
    once                  its worker stopped or died, it and   BRIEF: a job that kills its process at once does so alone, and
                          all that it had begun                runs that were merely left behind are under way again in seconds
    more often            it may well be the one               to its end: no other run loses an attempt to it

A suspect takes its lease only within: a run whose neighbour kills the process before that has spent no attempt. Waiting makes no run
more suspect: attempts count, not deliveries.
"""

from __future__ import annotations

import threading

BRIEF = 0.5  # seconds
PATIENCE = 25.0  # seconds that a suspect waits for the quarantine before its message goes back


class CrashQuarantine:
    """That of one process."""

    def __init__(self) -> None:
        self._taken = threading.Lock()

    def enter(self, crashes: int) -> Stay | None:
        """The stay of a run of which so many workers may have died; None if its message has to go back."""
        if not crashes:
            return Stay(None)
        if not self._taken.acquire(timeout=PATIENCE):
            return None
        stay = Stay(self._taken)
        try:
            if crashes == 1:
                stay.end_after(BRIEF)
        except BaseException:  # no thread can be had: nobody else would end it
            stay.end()
            raise
        return stay


class Stay:
    """The time for which a run has the quarantine, if it needs one."""

    def __init__(self, taken: threading.Lock | None) -> None:
        self._taken = taken
        self._timer: threading.Timer | None = None
        self._over = threading.Lock()  # held once it is over

    def end_after(self, seconds: float) -> None:
        """It ends by itself then, if it has not ended before."""
        self._timer = threading.Timer(seconds, self.end)
        self._timer.daemon = True
        self._timer.start()

    def end(self) -> None:
        """Let the next suspect in. Called again it changes nothing."""
        if self._timer is not None:
            self._timer.cancel()
        if self._taken is not None and self._over.acquire(blocking=False):
            self._taken.release()
