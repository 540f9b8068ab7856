"""Turns: a message that was delivered before may be of a job that kills its process. Such suspects take their turn in a process.

    delivered   why, mostly                                      its turn lasts
    once        it is new                                        it needs none
    twice       its worker stopped or died, it and all that it   BRIEF: a job that kills its process at once does so alone, and
                had at hand; or a service did not answer         what was merely left behind is under way again within seconds
    more often  it may well be the one                           to its end: nobody else loses an attempt to it

A suspect takes its lease only in its turn: a run whose neighbour kills the process before that has spent no attempt.
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
    def of(self, receives: int) -> Iterator[bool]:
        """The turn of a message that was received so often; False if it has to go back."""
        if receives <= 1:
            yield True
        elif not self._taken.acquire(timeout=PATIENCE):
            yield False
        elif receives == 2:
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
        timer.start()
        try:
            yield True
        finally:
            timer.cancel()
            end()
