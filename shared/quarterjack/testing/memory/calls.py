"""Tables in memory, and the requests of one process to them. A test can step in before and after each request.

Between two requests of a process anything may happen: another process runs, the process stalls or dies, a request is refused, or it
takes effect and its response is lost. Reads may take a time.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from quarterjack.concurrency.pools import RequestStats
from quarterjack.domain.names import check_whole
from quarterjack.domain.times import HOUR
from quarterjack.errors import InvalidInput, Unavailable
from quarterjack.ports.services import Clock
from quarterjack.testing.clock import ManualClock

_K = TypeVar("_K", str, int)
_V = TypeVar("_V")
_T = TypeVar("_T")


@dataclass
class _Partition(Generic[_K, _V]):
    items: dict[_K, _V] = field(default_factory=dict)
    order: list[_K] = field(default_factory=list)  # the keys, sorted


@dataclass(frozen=True)
class Slice(Generic[_K, _V]):
    """One page of a query; ``last`` is the key after which the next page begins, None at the end."""

    items: list[tuple[_K, _V]]
    last: _K | None


class MemoryTable(Generic[_K, _V]):
    """One table. Values are replaced, never changed in place."""

    def __init__(self) -> None:
        self._partitions: dict[str, _Partition[_K, _V]] = {}

    def get(self, partition: str, key: _K) -> _V | None:
        found = self._partitions.get(partition)
        return None if found is None else found.items.get(key)

    def put(self, partition: str, key: _K, value: _V) -> None:
        there = self._partitions.setdefault(partition, _Partition())
        if key not in there.items:
            insort(there.order, key)
        there.items[key] = value

    def delete(self, partition: str, key: _K) -> None:
        there = self._partitions.get(partition)
        if there is not None and key in there.items:
            del there.items[key]
            del there.order[bisect_left(there.order, key)]

    def page(
        self, partition: str, first: _K, last: _K, *, limit: int, after: _K | None = None, backwards: bool = False
    ) -> Slice[_K, _V]:
        """Items with keys in ``[first, last]`` beyond ``after``. As in DynamoDB, a full page has a ``last`` even if nothing follows."""
        there = self._partitions.get(partition)
        if there is None:
            return Slice([], None)
        low, high = bisect_left(there.order, first), bisect_right(there.order, last)
        if backwards:
            high = high if after is None else min(high, bisect_left(there.order, after))
            keys = there.order[max(low, high - limit) : high][::-1]
        else:
            low = low if after is None else max(low, bisect_right(there.order, after))
            keys = there.order[low : min(high, low + limit)]
        return Slice([(key, there.items[key]) for key in keys], keys[-1] if len(keys) == limit else None)

    def __iter__(self) -> Iterator[tuple[str, _K, _V]]:
        """Every item: partition, key, value. One that another thread deletes meanwhile may be left out."""
        for name in list(self._partitions):
            there = self._partitions[name]
            order, items = list(there.order), dict(there.items)
            for key in order:
                if key in items:
                    yield name, key, items[key]

    def __len__(self) -> int:
        return sum(len(there.items) for there in self._partitions.values())


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


# Operations that only read. A receive is none of them: it takes messages, and a long poll waits anyway.
READS = frozenset(
    {
        *("Query", "Scan", "GetItem", "BatchGetItem", "GetRecords"),
        *("GetObject", "ListObjectsV2", "ListObjectVersions"),
        *("GetParameter", "GetParametersByPath", "FilterLogEvents"),
        *("GetQueueUrl", "GetQueueAttributes", "ListQueues"),
    }
)


class ReadLatency:
    """How long a read takes (``ms``, 0 to an hour), for all processes of one installation."""

    def __init__(self, clock: Clock, lock: threading.RLock, ms: int = 0) -> None:
        self._clock, self._lock, self._ms = clock, lock, 0
        self.ms = ms

    @property
    def ms(self) -> int:
        return self._ms

    @ms.setter
    def ms(self, value: int) -> None:
        """Raises InvalidInput, also for a clock that nobody can move."""
        check_whole("read_latency_ms", value, 0, HOUR)
        if value and not isinstance(self._clock, ManualClock):
            raise InvalidInput("read_latency_ms", value, "needs a clock that a test moves", "give Memory a ManualClock")
        self._ms = value

    def passes(self) -> None:
        """One read was answered; one that fails takes no time. Reads of several threads take their time one after the other."""
        if self._ms and isinstance(self._clock, ManualClock):
            with self._lock:
                self._clock.reach(self._clock() + self._ms)


class SlowReads(Hook):
    """Around the requests of one process: a read was made, its latency passes, and ``inner`` sees its answer."""

    def __init__(self, latency: ReadLatency, inner: Hook) -> None:
        self._latency, self._inner = latency, inner

    def before_call(self, operation: str, detail: Detail) -> Collection[int]:
        """See ``Hook``."""
        return self._inner.before_call(operation, detail)

    def after_call(self, operation: str, detail: Detail) -> None:
        """See ``Hook``."""
        if operation in READS:
            self._latency.passes()
        self._inner.after_call(operation, detail)
