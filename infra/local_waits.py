"""The waits of a proof on the embedded cloud: each says what it waits for, since when, what it saw last, and where the log is."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

PROGRESS = 10.0  # seconds between two reports of a wait
LOOK = 0.5  # seconds between two looks
Seen = Callable[[], str | None]  # None: it has happened; else what is there in place of it


def say(text: str) -> None:
    """Print a line of progress."""
    print(text, flush=True)  # noqa: T201 — a command


@dataclass(frozen=True, kw_only=True)
class Waits:
    """How long to wait, and where its progress goes."""

    patience: float  # seconds
    log: Path  # of the cloud, which grows while it runs
    say: Callable[[str], object] = say

    def until(self, what: str, seen: Seen) -> None:
        """Look until ``what`` has happened. Raises TimeoutError, with the last state that was seen, after ``patience`` seconds."""
        began = said = time.monotonic()
        while (state := seen()) is not None:
            now = time.monotonic()
            if now - began > self.patience:
                raise TimeoutError(f"{what}: not within {self.patience:.0f} s; last seen: {state}")
            if now - said >= PROGRESS:
                said = now
                self.say(
                    f"        waiting for {what}, {now - began:.0f} s of {self.patience:.0f}: {state}; log: {self.log}"
                )
            time.sleep(LOOK)
