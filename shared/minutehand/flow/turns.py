"""Turns: a run whose worker vanished may be of a job that kills its process. Such suspects take their turn in a process.

    vanished    why, mostly                                      its turn lasts
    never       it is new, or its message merely came back       it needs none
    once        its worker stopped or died, it and all that it   BRIEF: a job that kills its process at once does so alone, and
                had begun                                        what was merely left behind is under way again within seconds
    more often  it may well be the one                           to its end: nobody else loses an attempt to it

A suspect takes its lease only in its turn: a run whose neighbour kills the process before that has spent no attempt. Waiting makes
nobody more suspect: what counts are attempts, not deliveries.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

BRIEF = 0.5  # seconds
PATIENCE = 25.0  # seconds that a suspect waits for its turn before its message goes back


class Turns:
    """Those of one process."""

    def __init__(self) -> None:
        self._taken = threading.Lock()

    @contextmanager
    def of(self, deaths: int) -> Iterator[bool]:
        """The turn of a run of which so many workers may have died; False if its message has to go back."""
        if not deaths:
            yield True
        elif not self._taken.acquire(timeout=PATIENCE):
            yield False
        elif deaths == 1:
            yield from self._briefly()
        else:
            try:
                yield True
            finally:
                self._taken.release()

    def _briefly(self) -> Iterator[bool]:
        over = threading.Lock()  # held once the turn is over

        def end() -> None:
            if over.acquire(blocking=False):
                self._taken.release()

        timer = threading.Timer(BRIEF, end)
        timer.daemon = True
        try:
            timer.start()
            yield True
        finally:
            timer.cancel()
            end()
