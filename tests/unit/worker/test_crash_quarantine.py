"""Runs whose worker vanished take turns, so that a job which kills its process does so alone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest
from quarterjack.worker import context
from quarterjack.worker.context import BRIEF, CrashQuarantine


class Run(threading.Thread):
    """Waits for its turn and keeps it until it is told to end."""

    def __init__(self, of: CrashQuarantine, deaths: int) -> None:
        super().__init__(daemon=True)
        self._of, self._deaths = of, deaths
        self.had: bool | None = None
        self.began, self.may_end = threading.Event(), threading.Event()

    def run(self) -> None:
        self.had = self._of.enter(self, self._deaths)
        self.began.set()
        self.may_end.wait(60)
        self._of.leave(self)

    def end(self) -> None:
        self.may_end.set()
        self.join(60)


@contextmanager
def running(*deaths: int) -> Iterator[list[Run]]:
    """Runs of which so many workers may have died, started in this order."""
    of, runs = CrashQuarantine(), list[Run]()
    with ExitStack() as stack:
        for count in deaths:
            runs.append(Run(of, count))
            runs[-1].start()
            stack.callback(runs[-1].end)
            if not count or len(runs) == 1:
                assert runs[-1].began.wait(60)
        yield runs


def test_what_nobody_died_of_needs_no_turn() -> None:
    with running(2, 0, 0) as (_, one, other):
        assert one.had is other.had is True


class Timer:
    """One that goes off when a test says so."""

    def __init__(self, seconds: float, action: Callable[[], None]) -> None:
        self.seconds, self.go_off = seconds, action

    def start(self) -> None:
        """It waits."""


def test_what_was_left_behind_once_has_a_brief_turn_and_goes_on_beside_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, begun = list[Timer](), threading.Semaphore(0)

    def timer(seconds: float, action: Callable[[], None]) -> Timer:
        made.append(Timer(seconds, action))
        begun.release()
        return made[-1]

    monkeypatch.setattr(threading, "Timer", timer)
    with running(1, 1, 1) as runs:
        for turn in range(len(runs)):
            assert begun.acquire(timeout=60), "long jobs of a worker that stopped do not wait for each other"
            assert not begun.acquire(timeout=0.05), "the next begins when the turn before it is over"
            assert made[turn].seconds == BRIEF
            made[turn].go_off()
        assert all(run.began.wait(60) for run in runs)


def test_a_brief_turn_that_ends_early_is_handed_on_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "BRIEF", 30.0)
    with running(1, 1) as (one, other):
        assert not other.began.wait(0.1)
        one.end()
        assert other.began.wait(60)


def test_what_was_left_behind_again_keeps_its_turn_to_its_end() -> None:
    with running(2, 1) as (one, other):
        assert not other.began.wait(2 * BRIEF)
        one.end()
        assert other.began.wait(60)


def test_who_waits_too_long_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "PATIENCE", 0.05)
    with running(2, 1) as (_, other):
        assert other.began.wait(60)
        assert other.had is False


def test_a_turn_whose_end_cannot_be_timed_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_thread(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(context, "PATIENCE", 0.05)
    of = CrashQuarantine()
    with monkeypatch.context() as short:
        short.setattr(threading.Thread, "start", no_thread)
        with pytest.raises(RuntimeError, match="new thread"):
            of.enter(object(), 1)
    assert of.enter(object(), 2)


def test_only_the_suspect_that_is_within_can_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "PATIENCE", 0.01)
    of, within, other = CrashQuarantine(), object(), object()
    assert of.enter(within, 2)
    of.leave(other)
    assert not of.enter(other, 2)
    of.leave(within)
    of.leave(within)
    assert of.enter(other, 2)
