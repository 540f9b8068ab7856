"""Pools: threads that are used again, and concurrent requests, limited in number and in fewer while the service throttles."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar, TypeVarTuple, Unpack

from quarterjack.concurrency.forks import HoldsLocks

IDLE = 60.0  # seconds after which an idle thread ends

Arguments = TypeVarTuple("Arguments")
_Work = tuple[str, Callable[..., object], tuple[Any, ...]]


class ThreadCache(HoldsLocks):
    """As many threads as there is work at the same time. They are daemons: a job that never ends keeps no process alive."""

    def __init__(self) -> None:
        # Idle threads, the one that was busy last at the end.
        self._waiting: list[tuple[SimpleQueue[_Work], threading.Thread]] = []
        super().__init__()

    def _make_locks(self) -> None:
        self._lock = threading.Lock()

    def start(self, name: str, body: Callable[[Unpack[Arguments]], object], *arguments: *Arguments) -> None:
        """Call ``body`` with these arguments in a thread of that name, at once."""
        work: _Work = name, body, arguments
        inbox = self._idle()
        if inbox is not None:
            inbox.put(work)
        else:
            threading.Thread(target=self._serve, args=(work,), daemon=True).start()

    def _idle(self) -> SimpleQueue[_Work] | None:
        with self._lock:
            while self._waiting:
                inbox, thread = self._waiting.pop()
                if thread.is_alive():  # False in a forked child: threads are not copied
                    return inbox
        return None

    def _serve(self, work: _Work | None) -> None:
        inbox: SimpleQueue[_Work] = SimpleQueue()
        while work is not None:
            name, body, arguments = work
            threading.current_thread().name = name
            body(*arguments)
            del work, body, arguments  # so that their objects are freed while the thread is idle
            this = threading.current_thread()
            if this is threading.main_thread():  # the job has forked, and this is the child's only thread
                return
            with self._lock:
                self._waiting.append((inbox, this))
            work = self._next(inbox)

    def _next(self, inbox: SimpleQueue[_Work]) -> _Work | None:
        try:
            return inbox.get(timeout=IDLE)
        except Empty:
            with self._lock:
                mine = (inbox, threading.current_thread())
                if mine in self._waiting:
                    self._waiting.remove(mine)
                    return None
            return inbox.get()  # work was handed over just now


log = logging.getLogger(__name__)

_LEAST = 1 / 16  # the lowest limit: one request, and a pause of 15 turns before each
_TURN = 0.02  # seconds: about the duration of a request
_FASTER = 1 / 4  # of the limit: the most by which one response raises it
_LONG = 0.001  # seconds: blocking that is worth a helper thread; DynamoDB and SQS take 3 to 10 ms
_VOTES = 8  # responses in a row that turn a firm verdict on blocking around
_helpers = ThreadCache()  # of this process
_pause = threading.Event().wait

_P = TypeVar("_P")
_R = TypeVar("_R")


class RequestStats(HoldsLocks):
    """Throttled items of one process's requests, and whether its requests block."""

    def __init__(self) -> None:
        self.throttled = 0  # items, counted each time that they were throttled
        self._votes = 0
        super().__init__()

    def _make_locks(self) -> None:
        self._lock = threading.Lock()

    @property
    def is_blocking(self) -> bool:
        """Whether most of the last requests blocked; False before the first."""
        return self._votes > 0

    def record_wait(self, seconds: float) -> None:
        """Count a request whose thread was blocked for ``seconds``. A single odd one changes nothing: the machine may be busy."""
        with self._lock:
            self._votes = max(min(self._votes + (1 if seconds > _LONG else -1), _VOTES), -_VOTES)

    def record_throttled(self, throttled: int) -> None:
        with self._lock:
            self.throttled += throttled


class RequestPool(HoldsLocks):
    """At most ``most`` requests of one kind at a time; 1: one after the other, in the calling thread.

    With ``stats`` helper threads are used only while ``is_blocking``, without it always.
    """

    def __init__(
        self,
        most: int = 1,
        *,
        stats: RequestStats | None = None,
        wait: Callable[[float], object] = _pause,
    ) -> None:
        self._most, self._stats, self._wait = most, stats, wait
        self._size = float(most)  # the present limit
        self._halvings = 0  # so that throttled requests sent before a halving do not halve again
        super().__init__()

    def _make_locks(self) -> None:
        self._room = threading.Condition()
        self._under_way = 0

    @property
    def size(self) -> float:
        """The present limit of requests under way; below one: the share of time in which one is."""
        return self._size

    def map(self, send: Callable[[_P], tuple[_R, int]], parts: Sequence[_P]) -> list[_R]:
        """A request for every part: the results, in the order of the parts. ``send`` also returns its number of throttled items.

        Raises the first error of ``send`` when all requests under way have ended; no further one is sent.
        """
        if len(parts) == 1:  # most calls: no helper is needed
            return [self.call(send, parts[0])]
        return _Call(self, send, parts).run()

    def helpers(self, left: int) -> int:
        """The number of helper threads for so many parts."""
        useful = self._stats is None or self._stats.is_blocking
        return max(min(left, self._most) - 1, 0) if useful else 0

    def call(self, send: Callable[[_P], tuple[_R, int]], part: _P) -> _R:
        """One request, once the limit allows it."""
        halvings = self._begin()
        throttled = 0
        try:
            result, throttled = send(part)
            return result
        finally:
            self._end(throttled, halvings)

    def _begin(self) -> int:
        with self._room:
            self._room.wait_for(lambda: self._under_way < max(int(self._size), 1))
            self._under_way += 1
            pause, halvings = _TURN * (1 / self._size - 1), self._halvings
        if pause > 0:
            self._wait(pause)
        return halvings

    def _end(self, throttled: int, halvings: int) -> None:
        with self._room:
            self._under_way -= 1
            if not throttled:
                self._size = min(self._size + min(1 / self._size, self._size * _FASTER), self._most)
            elif halvings == self._halvings:
                self._size = max(self._size / 2, _LEAST)
                self._halvings += 1
            self._room.notify()
        if throttled and self._stats is not None:
            self._stats.record_throttled(throttled)


class _Call(Generic[_P, _R]):
    """The requests of one call. The calling thread and its helpers take one part after the other."""

    def __init__(self, pool: RequestPool, send: Callable[[_P], tuple[_R, int]], parts: Sequence[_P]) -> None:
        self._pool, self._send = pool, send
        self._left = deque(enumerate(parts))
        self._results: dict[int, _R] = {}
        self._problems: list[BaseException] = []
        self._is_helped, self._helping = False, 0  # whether helpers were started, and how many are at work
        self._changed = threading.Condition()

    def run(self) -> list[_R]:
        self._get_help()
        while self._take():
            self._get_help()  # the last response may have changed the verdict on blocking
        with self._changed:
            self._changed.wait_for(lambda: not self._helping)
        if self._problems:
            raise self._problems[0]
        return [result for _, result in sorted(self._results.items(), key=lambda item: item[0])]

    def _get_help(self) -> None:
        if self._is_helped:
            return
        for _ in range(self._pool.helpers(len(self._left))):
            with self._changed:
                self._is_helped, self._helping = True, self._helping + 1
            try:
                _helpers.start("request", self._helper)
            except Exception:  # no further thread can be started: go on with the present ones
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
        """Send the request for the next part; False if there is none, or a request has failed."""
        if self._problems:
            return False
        try:
            place, part = self._left.popleft()
        except IndexError:
            return False
        try:
            self._results[place] = self._pool.call(self._send, part)
        except BaseException as problem:  # noqa: BLE001 (the calling thread raises it)
            self._problems.append(problem)
        return True
