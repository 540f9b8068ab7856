"""Tables in memory: items under a hash and a range key, sorted by the latter, read strongly."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

_K = TypeVar("_K", str, int)
_V = TypeVar("_V")


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
        """Every item: partition, key, value."""
        for name in list(self._partitions):
            there = self._partitions[name]
            for key in list(there.order):
                yield name, key, there.items[key]

    def __len__(self) -> int:
        return sum(len(there.items) for there in self._partitions.values())


Row = dict[str, Any]  # attributes by name
