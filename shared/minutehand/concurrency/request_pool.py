"""Abreast: independent requests of one call side by side, at most so many, and fewer while the service throttles.

The pace is that of congestion control: an answer with throttled items halves how many requests may be under way, clean answers raise it
by one for each round of them; below one, each request waits before it is sent. All threads of a process that use the same pool share the
bound. A call returns when all of its requests have ended, whatever became of them: so nothing of one stage of the protocol is
under way when the next begins.

Threads help only while answers are waited for. A part that is handed to another thread costs some 0.4 ms of the processor (locks, the
interpreter's above all), and gains the time in which nothing happens: none, where an answer takes nothing but work.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from minutehand.concurrency.threads import ThreadCache

log = logging.getLogger(__name__)

_LEAST = 1 / 16  # requests under way: one, and then a pause of so many turns less one
_TURN = 0.02  # seconds: about what a request takes
_FASTER = 1 / 4  # of what is under way: the most by which one clean answer raises it
_LONG = 0.001  # seconds: a wait that is worth a thread's help; DynamoDB and SQS take 3 to 10 ms
_VOTES = 8  # answers in a row that change what is known of a service for good
_helpers = ThreadCache()  # of this process
_pause = threading.Event().wait

_P = TypeVar("_P")
_R = TypeVar("_R")


class RequestStats:
    """What the services of one process had to hold back, and whether their answers are waited for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.throttled = 0  # items that were refused for lack of capacity, each time that they were
        self._votes = 0

    @property
    def is_blocking(self) -> bool:
        """Whether of the last answers more took a long wait than did not; False until there was one."""
        return self._votes > 0

    def record_wait(self, seconds: float) -> None:
        """An answer came after its thread had nothing to do for so long. One odd answer changes nothing: a machine may have been busy."""
        with self._lock:
            self._votes = max(min(self._votes + (1 if seconds > _LONG else -1), _VOTES), -_VOTES)

    def record_throttled(self, throttled: int) -> None:
        with self._lock:
            self.throttled += throttled


class RequestPool:
    """So many requests of one kind at a time; ``most`` = 1: one after the other, in the thread that asks.

    With ``stats`` threads help while its answers are waited for, without it always.
    """

    def __init__(
        self,
        most: int = 1,
        *,
        stats: RequestStats | None = None,
        wait: Callable[[float], object] = _pause,
    ) -> None:
        self._most, self._stats, self._wait = most, stats, wait
        self._size = float(most)  # requests that may be under way
        self._under_way = 0
        self._slowed = 0  # times that it was halved: what was sent before counts once
        self._room = threading.Condition()

    @property
    def size(self) -> float:
        """Requests that may be under way now; below one: the share of the time in which one is."""
        return self._size

    def map(self, ask: Callable[[_P], tuple[_R, int]], parts: Sequence[_P]) -> list[_R]:
        """Ask for every part: the answers, in the order of the parts. ``ask`` says as well how many of its items were throttled.

        Raises what the first failing ``ask`` raised, when all have ended; what had not begun then is not asked.
        """
        if len(parts) == 1:  # as most calls are: nobody needs to help
            return [self.call(ask, parts[0])]
        return _Call(self, ask, parts).run()

    def helpers(self, left: int) -> int:
        """How many threads may help with so many parts now."""
        worth = self._stats is None or self._stats.is_blocking
        return max(min(left, self._most) - 1, 0) if worth else 0

    def call(self, ask: Callable[[_P], tuple[_R, int]], part: _P) -> _R:
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
        if throttled and self._stats is not None:
            self._stats.record_throttled(throttled)


class _Call(Generic[_P, _R]):
    """One call's requests: the thread that makes it and those that help it, should any, take one part after the other."""

    def __init__(self, pool: RequestPool, ask: Callable[[_P], tuple[_R, int]], parts: Sequence[_P]) -> None:
        self._pool, self._ask = pool, ask
        self._left = deque(enumerate(parts))
        self._answers: dict[int, _R] = {}
        self._problems: list[BaseException] = []
        self._is_helped, self._helping = False, 0  # whether threads were asked, and how many are at it
        self._changed = threading.Condition()

    def run(self) -> list[_R]:
        self._get_help()
        while self._take():
            self._get_help()  # the answer may have shown that it is worth it
        with self._changed:
            self._changed.wait_for(lambda: not self._helping)
        if self._problems:
            raise self._problems[0]
        return [answer for _, answer in sorted(self._answers.items(), key=lambda item: item[0])]

    def _get_help(self) -> None:
        if self._is_helped:
            return
        for _ in range(self._pool.helpers(len(self._left))):
            with self._changed:
                self._is_helped, self._helping = True, self._helping + 1
            try:
                _helpers.start(self._helper, "request")
            except Exception:  # no thread can be had: then with those that are there
                log.exception("request.no_thread")
                with self._changed:
                    self._helping -= 1
                return

    def _helper(self) -> None:
        try:
            while self._take():
                pass
        finally:
            with self._changed:
                self._helping -= 1
                self._changed.notify()

    def _take(self) -> bool:
        """Ask for the next part; False if there is none, or one has failed."""
        if self._problems:
            return False
        try:
            place, part = self._left.popleft()
        except IndexError:
            return False
        try:
            self._answers[place] = self._pool.call(self._ask, part)
        except BaseException as problem:  # noqa: BLE001 (a thread that helps hands it to the one that asked)
            self._problems.append(problem)
        return True
