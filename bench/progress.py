"""What a part is doing right now, on stderr, so that its table alone is on stdout."""

from __future__ import annotations

import sys
import time

EVERY = 5.0  # seconds between two reports of one stage


def say(text: str) -> None:
    """Print one line with the time of day."""
    print(f"{time.strftime('%H:%M:%S')}  {text}", file=sys.stderr, flush=True)


class Stage:
    """A stage that counts towards a goal. ``at`` prints the count at most every EVERY seconds."""

    def __init__(self, what: str, goal: int) -> None:
        self._what, self._goal = what, goal
        self._began = self._said = time.monotonic()

    def at(self, count: int) -> None:
        """Report ``count`` of the goal, unless something was printed a moment ago."""
        now = time.monotonic()
        if now - self._said >= EVERY:
            self._said = now
            say(f"{self._what}: {count:,} of {self._goal:,}")

    def done(self) -> None:
        """Print how long the stage took."""
        say(f"{self._what}: done after {time.monotonic() - self._began:.0f} s")
