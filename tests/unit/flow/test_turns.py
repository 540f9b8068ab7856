"""Messages that were delivered before take turns, so that a job which kills its process does so alone."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from minutehand.flow import turns
from minutehand.flow.turns import BRIEF, Turns


class Run(threading.Thread):
    """Waits for its turn and keeps it until it is told to end."""

    def __init__(self, of: Turns, receives: int) -> None:
        super().__init__(daemon=True)
        self._of, self._receives = of, receives
        self.had: bool | None = None
        self.began, self.may_end = threading.Event(), threading.Event()
        self.began_at = 0.0

    def run(self) -> None:
        with self._of.of(self._receives) as had:
            self.had, self.began_at = had, time.monotonic()
            self.began.set()
            self.may_end.wait(10)

    def end(self) -> None:
        self.may_end.set()
        self.join(10)


@contextmanager
def running(*receives: int) -> Iterator[list[Run]]:
    """Runs of messages that were received so often, started in this order."""
    of, runs = Turns(), list[Run]()
    with ExitStack() as stack:
        for count in receives:
            runs.append(Run(of, count))
            runs[-1].start()
            stack.callback(runs[-1].end)
            if count <= 1 or len(runs) == 1:
                assert runs[-1].began.wait(5)
        yield runs


def test_new_messages_need_no_turn() -> None:
    with running(3, 1, 1) as (_, one, other):
        assert one.had is other.had is True


def test_what_came_back_once_has_a_brief_turn_and_goes_on_beside_the_next() -> None:
    with running(2, 2, 2) as runs:
        assert all(run.began.wait(5) for run in runs), "long jobs of a worker that stopped do not wait for each other"
        first, *others = sorted(run.began_at for run in runs)
        assert others[0] - first >= BRIEF * 0.9
        assert others[1] - others[0] >= BRIEF * 0.9


def test_a_brief_turn_that_ends_early_is_handed_on_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "BRIEF", 30.0)
    with running(2, 2) as (one, other):
        assert not other.began.wait(0.1)
        one.end()
        assert other.began.wait(5)


def test_what_came_back_again_keeps_its_turn_to_its_end() -> None:
    with running(3, 2) as (one, other):
        assert not other.began.wait(2 * BRIEF)
        one.end()
        assert other.began.wait(5)


def test_who_waits_too_long_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "PATIENCE", 0.05)
    with running(3, 2) as (_, other):
        assert other.began.wait(5)
        assert other.had is False
