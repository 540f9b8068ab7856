"""Requests to the cloud in memory. A test can step in before and after each of them.

Between two requests of a process anything may happen: another process runs, the process stalls or dies, a request is refused, or it
takes effect and its response is lost.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from minutehand.concurrency.pools import RequestStats
from minutehand.errors import Unavailable
from minutehand.testing.memory.tables import MemoryTable

_ALL = 10**6  # items: more than any query finds
_K = TypeVar("_K", str, int)
_V = TypeVar("_V")
_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class Detail:
    """The subject of a request."""

    place: str  # the table ("schedules", "revisions", "agenda", "runs"), queue ("work", "dead") or bucket ("payloads")
    verb: str  # method of the port that sends it ("claim", "due", "send"), or the name of the transition
    items: tuple[Hashable, ...] = ()  # keys of the items, in their order in the request; none for a query


class Hook:
    """Runs before and after every request. This one does nothing; a test overrides a method to inject a fault."""

    def before_call(self, operation: str, detail: Detail) -> Collection[int]:
        """Before the request has any effect. ``operation`` is its name in AWS's API, e.g. ``BatchExecuteStatement``.

        May wait, so that other processes run. May raise ``Unavailable``: the request fails without effect; or ``Crash``: the process
        dies before it. Returns the indexes in ``detail.items`` that are throttled: these have no effect and no answer.
        """
        del operation, detail
        return ()

    def after_call(self, operation: str, detail: Detail) -> None:
        """After the request took effect, before its response arrives.

        May wait. May raise ``Unavailable``: the response is lost; or ``Crash``: the process dies without having seen it.
        """


class Crash(BaseException):
    """The process that sends the request dies at this point. It is no Exception, so that no code of the process handles it."""


class Calls:
    """The requests of one process. As botocore does, a failing request is repeated; a batch is repeated for single items.

    ``attempts`` of one request and ``rounds`` of a batch, in all. ``lock`` makes each request atomic between threads; ``stats``
    counts the items that were not answered in a round. The requests of a batch go one after the other.

    ``operation``, ``place``, ``verb`` and ``items`` of a request are what the hook sees, as in ``Detail``.
    """

    def __init__(
        self,
        hook: Hook,
        lock: threading.RLock,
        *,
        attempts: int = 2,
        rounds: int = 2,
        stats: RequestStats | None = None,
    ) -> None:
        self._hook, self._lock, self._attempts, self._rounds = hook, lock, attempts, rounds
        self._stats = stats or RequestStats()

    def one(
        self, operation: str, place: str, verb: str, effect: Callable[[], _T], *items: Hashable, token: bool = False
    ) -> _T:
        """One request about one item, or about several that are written together. Raises Unavailable.

        ``token``: if it is repeated after a lost response, it is recognised, and answered as the first time.
        """

        def unless_throttled(throttled: Collection[int]) -> _T:
            if throttled:
                raise Unavailable(f"{operation}: ProvisionedThroughputExceededException")
            return effect()

        return self._request(operation, Detail(place=place, verb=verb, items=items), unless_throttled, token=token)

    def pages(
        self,
        table: MemoryTable[_K, _V],
        place: str,
        verb: str,
        keys: tuple[str, _K, _K],
        *,
        limit: int = _ALL,
        after: _K | None = None,
        backwards: bool = False,
    ) -> Iterator[_V]:
        """The items of a partition with keys from the first to the last, a query for each page as they are asked for."""
        query = partial(table.page, *keys, limit=limit, backwards=backwards)
        while True:
            found = self.one("Query", place, verb, partial(query, after=after))
            yield from (item for _, item in found.items)
            if found.last is None:
                return
            after = found.last

    def many(
        self,
        operation: str,
        place: str,
        verb: str,
        items: Sequence[Hashable],
        effect: Callable[[int], _T],
        *,
        most: int = 0,
        cut: Callable[[list[int]], Iterable[Sequence[int]]] | None = None,
        rounds: int | None = None,
    ) -> dict[int, _T]:
        """Batches of at most ``most`` items, or as ``cut``: place → answer. A place that stayed unanswered after all rounds is missing."""
        answers: dict[int, _T] = {}
        left = list(range(len(items)))
        for _ in range(self._rounds if rounds is None else rounds):
            for part in cut(left) if cut else (left[start : start + most] for start in range(0, len(left), most)):
                detail = Detail(place=place, verb=verb, items=tuple(items[i] for i in part))
                answers |= self._batch(operation, detail, part, effect)
            left = [i for i in left if i not in answers]
            if not left:
                break
            self._stats.record_throttled(len(left))
        return answers

    def _batch(self, operation: str, detail: Detail, part: Sequence[int], effect: Callable[[int], _T]) -> dict[int, _T]:
        def answered(throttled: Collection[int]) -> dict[int, _T]:
            return {i: effect(i) for order, i in enumerate(part) if order not in throttled}

        try:
            return self._request(operation, detail, answered)
        except Unavailable:
            return {}

    def _request(
        self, operation: str, detail: Detail, effect: Callable[[Collection[int]], _T], *, token: bool = False
    ) -> _T:
        answers: list[_T] = []  # of the attempts that took effect
        for left in reversed(range(self._attempts)):
            try:
                throttled = self._hook.before_call(operation, detail)
                if not (answers and token):
                    with self._lock:
                        answers.append(effect(throttled))
                self._hook.after_call(operation, detail)
                return answers[-1]
            except Unavailable:
                if not left:
                    raise
        raise AssertionError("a request is attempted at least once")
