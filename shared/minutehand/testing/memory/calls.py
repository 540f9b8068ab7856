"""Calls of the in-memory cloud, and the one place where a test can step in: before and after each of them.

A call is what a process sends to AWS in one request. Between two calls of a process anything may happen: another process runs, the
process stalls or dies, the request is refused, or it takes effect and its answer is lost.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from minutehand.concurrency.request_pool import RequestStats
from minutehand.errors import Unavailable

_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class Detail:
    """What a call is about."""

    place: str  # the table ("schedules", "revisions", "agenda", "runs"), queue ("work", "dead") or bucket ("payloads")
    verb: str  # of the port that makes it ("claim", "due", "send"), or the name of the transition
    items: tuple[Hashable, ...] = ()  # keys of the items, in their order in the request; none for a query


class Hook:
    """Steps in around every call. This one lets everything pass; a test overrides what it wants to break."""

    def before_call(self, operation: str, detail: Detail) -> Collection[int]:
        """Before the request has any effect. ``operation`` is its name in AWS's API, e.g. ``BatchExecuteStatement``.

        May wait, so that others run; raise ``Unavailable``: it fails without effect; raise ``Crash``: the process dies before it.
        Returns the places in ``detail.items`` that are throttled: these have no effect and are not answered.
        """
        del operation, detail
        return ()

    def after_call(self, operation: str, detail: Detail) -> None:
        """After it took effect, before its answer arrives.

        May wait; raise ``Unavailable``: the answer is lost; raise ``Crash``: the process dies without having seen it.
        """


class Crash(BaseException):
    """The process that makes the call dies at this point. No code of the process survives it, so it is no Exception."""


class Calls:
    """The requests of one process. As botocore does, a failing request is repeated; a batch is repeated for single items.

    ``attempts`` of one request and ``rounds`` of a batch, in all. ``lock`` makes each request atomic between threads; ``stats``
    counts the items that were not answered in a round. The requests of a batch go one after the other.
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

    def one(self, operation: str, detail: Detail, effect: Callable[[], _T], *, token: bool = False) -> _T:
        """One request about one thing, or several that stand and fall together. Raises Unavailable.

        ``token``: repeated after a lost answer it is recognised, and answered as the first time.
        """

        def unless_throttled(throttled: Collection[int]) -> _T:
            if throttled:
                raise Unavailable(f"{operation}: ProvisionedThroughputExceededException")
            return effect()

        return self._request(operation, detail, unless_throttled, token=token)

    def many(
        self,
        operation: str,
        detail: Detail,
        effect: Callable[[int], _T],
        *,
        batches: Callable[[Sequence[int]], Iterable[Sequence[int]]],
        rounds: int | None = None,
    ) -> dict[int, _T]:
        """Batches over ``detail.items``: place → answer. A place that stayed unanswered after all rounds is missing."""
        answers: dict[int, _T] = {}
        left: list[int] = list(range(len(detail.items)))
        for _ in range(self._rounds if rounds is None else rounds):
            for part in batches(left):
                answers |= self._batch(operation, detail, part, effect)
            left = [place for place in left if place not in answers]
            if not left:
                break
            self._stats.record_throttled(len(left))
        return answers

    def _batch(self, operation: str, detail: Detail, part: Sequence[int], effect: Callable[[int], _T]) -> dict[int, _T]:
        def answered(throttled: Collection[int]) -> dict[int, _T]:
            return {place: effect(place) for order, place in enumerate(part) if order not in throttled}

        partly = Detail(place=detail.place, verb=detail.verb, items=tuple(detail.items[place] for place in part))
        try:
            return self._request(operation, partly, answered)
        except Unavailable:
            return {}

    def _request(
        self, operation: str, detail: Detail, effect: Callable[[Collection[int]], _T], *, token: bool = False
    ) -> _T:
        answers: list[_T] = []  # of the tries that took effect
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
        raise AssertionError("a request is tried at least once")


def by_count(most: int) -> Callable[[Sequence[int]], Iterable[Sequence[int]]]:
    """Cut into batches of at most ``most``."""
    return lambda places: [places[start : start + most] for start in range(0, len(places), most)]
