"""Deletions go in full batches, by whoever completes one; what is left goes by itself; none is left behind at the end."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from quarterjack.errors import Unavailable
from quarterjack.worker.delivery.visibility import DeleteBuffer


class Work:
    """A queue that notes what it was asked to delete, and by whom."""

    def __init__(self) -> None:
        self.asked: list[tuple[list[str], str]] = []
        self.changed = threading.Condition()
        self.answers = True

    def erase(self, receipts: Sequence[str]) -> None:
        with self.changed:
            self.asked.append((list(receipts), threading.current_thread().name))
            self.changed.notify_all()
        if not self.answers:
            raise Unavailable("no answer")

    def wait_for(self, messages: int) -> None:
        """Until so many were deleted."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.erased) >= messages, timeout=60)

    @property
    def erased(self) -> list[str]:
        return [receipt for receipts, _ in self.asked for receipt in receipts]


@contextmanager
def served(work: Work) -> Iterator[DeleteBuffer]:
    queue: Any = work
    deletions, ended = DeleteBuffer(queue), threading.Event()
    thread = threading.Thread(target=deletions.serve, args=(ended,), name="eraser")
    thread.start()
    while not deletions._serving:
        time.sleep(0.001)
    yield deletions
    ended.set()
    deletions.stop()
    thread.join()


def names(first: int, upto: int) -> list[str]:
    return [f"r{number}" for number in range(first, upto)]


def test_full_batches_go_at_once_by_whoever_completes_them() -> None:
    work, me = Work(), threading.current_thread().name
    with served(work) as deletions:
        deletions.add(*names(0, 7))
        deletions.add(*names(7, 25))
        assert work.asked[:1] == [(names(0, 20), me)]
        work.wait_for(25)
    assert work.asked == [(names(0, 20), me), (names(20, 25), "eraser")]


@pytest.mark.parametrize("sizes", [[3], [10, 3], [3, 7, 3], [13, 4]])
def test_what_is_left_is_never_forgotten(sizes: list[int]) -> None:
    """Whatever came before it: a batch that was completed leaves nobody awake."""
    work = Work()
    with served(work) as deletions:
        done = 0
        for again in range(3):
            for size in sizes:
                deletions.add(*names(done, done + size))
                done += size
            work.wait_for(done)
            assert work.erased == names(0, done), again


def test_at_the_end_nothing_is_left_and_later_ones_go_at_once() -> None:
    work = Work()
    with served(work) as deletions:
        deletions.add("early")
    assert work.erased == ["early"]
    deletions.add("late")
    assert work.asked[-1] == (["late"], threading.current_thread().name)


def test_what_cannot_be_deleted_holds_up_nobody() -> None:
    work = Work()
    work.answers = False
    with served(work) as deletions:
        deletions.add(*names(0, 12))
        work.wait_for(12)
    assert sorted(work.erased) == sorted(names(0, 12))


def test_many_who_add_at_once_lose_nothing() -> None:
    work = Work()
    with served(work) as deletions:

        def add(who: int) -> None:
            for number in range(40):
                deletions.add(f"{who}-{number}")

        threads = [threading.Thread(target=add, args=(who,)) for who in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        work.wait_for(320)
    assert sorted(work.erased) == sorted(f"{n}-{i}" for n in range(8) for i in range(40))
