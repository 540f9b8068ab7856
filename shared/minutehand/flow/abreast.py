"""Abreast: independent requests of one call side by side, at most so many, and fewer while the service throttles.

The pace is that of congestion control: an answer with throttled items halves how many requests may be under way, clean answers raise it
by one for each round of them; below one, each request waits before it is sent. All threads of a process that use the same lanes share the
bound. A call returns when all of its requests have ended, whatever became of them: so nothing of one stage of the protocol is
under way when the next begins.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from minutehand.flow.threads import Threads

_LEAST = 1 / 16  # requests under way: one, and then a pause of so many turns less one
_TURN = 0.02  # seconds: about what a request takes
_FASTER = 1 / 4  # of what is under way: the most by which one clean answer raises it
_helpers = Threads()  # of this process
_pause = threading.Event().wait

_P = TypeVar("_P")
_R = TypeVar("_R")


class Traffic:
    """What the services of one process had to hold back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.throttled = 0  # items that were refused for lack of capacity, each time that they were

    def note(self, throttled: int) -> None:
        with self._lock:
            self.throttled += throttled


class Lanes:
    """So many requests of one kind at a time; ``most`` = 1: one after the other, in the thread that asks."""

    def __init__(
        self,
        most: int = 1,
        *,
        traffic: Traffic | None = None,
        wait: Callable[[float], object] = _pause,
    ) -> None:
        self._most, self._traffic, self._wait = most, traffic, wait
        self._size = float(most)  # requests that may be under way
        self._under_way = 0
        self._slowed = 0  # times that it was halved: what was sent before counts once
        self._room = threading.Condition()

    @property
    def size(self) -> float:
        """Requests that may be under way now; below one: the share of the time in which one is."""
        return self._size

    def each(self, ask: Callable[[_P], tuple[_R, int]], parts: Sequence[_P]) -> list[_R]:
        """Ask for every part: the answers, in the order of the parts. ``ask`` says as well how many of its items were throttled.

        Raises what the first failing ``ask`` raised, when all have ended; what had not begun then is not asked.
        """
        if len(parts) == 1:  # as most calls are: nobody needs to help
            return [self.one(ask, parts[0])]
        call = _Call(self, ask, parts)
        for _ in range(min(len(parts), self._most) - 1):
            call.help()
        return call.run()

    def one(self, ask: Callable[[_P], tuple[_R, int]], part: _P) -> _R:
        """One request, in its turn."""
        seen = self._begin()
        throttled = 0
        try:
            answer, throttled = ask(part)
            return answer
        finally:
            self._end(throttled, seen)

    def _begin(self) -> int:
        with self._room:
            self._room.wait_for(lambda: self._under_way < max(int(self._size), 1))
            self._under_way += 1
            pause, seen = _TURN * (1 / self._size - 1), self._slowed
        if pause > 0:
            self._wait(pause)
        return seen

    def _end(self, throttled: int, seen: int) -> None:
        with self._room:
            self._under_way -= 1
            if not throttled:
                self._size = min(self._size + min(1 / self._size, self._size * _FASTER), self._most)
            elif seen == self._slowed:
                self._size = max(self._size / 2, _LEAST)
                self._slowed += 1
            self._room.notify()
        if throttled and self._traffic is not None:
            self._traffic.note(throttled)


class _Call(Generic[_P, _R]):
    """One call's requests: the thread that makes it and those that help it take one part after the other."""

    def __init__(self, lanes: Lanes, ask: Callable[[_P], tuple[_R, int]], parts: Sequence[_P]) -> None:
        self._lanes, self._ask = lanes, ask
        self._left = deque(enumerate(parts))
        self._answers: dict[int, _R] = {}
        self._problems: list[BaseException] = []
        self._helping = 0
        self._changed = threading.Condition()

    def help(self) -> None:
        self._helping += 1
        _helpers.start(self._helper, "request")

    def run(self) -> list[_R]:
        self._work()
        with self._changed:
            self._changed.wait_for(lambda: not self._helping)
        if self._problems:
            raise self._problems[0]
        return [answer for _, answer in sorted(self._answers.items(), key=lambda item: item[0])]

    def _helper(self) -> None:
        try:
            self._work()
        finally:
            with self._changed:
                self._helping -= 1
                self._changed.notify()

    def _work(self) -> None:
        while not self._problems:
            try:
                place, part = self._left.popleft()
            except IndexError:
                return
            try:
                self._answers[place] = self._lanes.one(self._ask, part)
            except BaseException as problem:  # noqa: BLE001 (a thread that helps hands it to the one that asked)
                self._problems.append(problem)
