"""Figures of each minute, and the values that CloudWatch makes of them for a period."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any

Dimensions = tuple[tuple[str, str], ...]
Key = tuple[str, str, Dimensions]  # namespace, name, dimensions


class FigureStore:
    """All values of a figure, by minute.

    ``states``: of alarms that were evaluated since the last value came, by all that they follow from: evaluators over one store share them.
    """

    def __init__(self) -> None:
        self.states = dict[Hashable, str]()
        self._values: defaultdict[Key, dict[int, list[float]]] = defaultdict(dict)
        self._made: defaultdict[Key, dict[tuple[str, int, int], float | None]] = defaultdict(dict)
        self._until = dict[Key, int]()  # which minutes, but that one, are in what is made

    def add(self, key: Key, minute: int, values: Iterable[float]) -> None:
        """Values that were measured in a minute."""
        self.states.clear()
        self._values[key].setdefault(minute, []).extend(values)
        if minute < self._until.get(key, minute):
            self._made[key].clear()

    def add_line(self, minute: int, line: Mapping[str, Any]) -> None:
        """A line of CloudWatch's embedded metric format: each metric under each set of its dimensions."""
        for key, values in measured(line):
            self.add(key, minute, values)

    def has(self, key: Key) -> bool:
        """Whether a figure was ever measured."""
        return key in self._values

    def value(self, key: Key, statistic: str, first: int, last: int) -> float | None:
        """A statistic of the minutes from ``first`` to ``last``, without it; None: nothing was measured."""
        made, asked = self._made[key], (statistic, first, last)
        if asked not in made:
            made[asked] = self._value(key, statistic, first, last)
            self._until[key] = max(last, self._until.get(key, last))
        return made[asked]

    def _value(self, key: Key, statistic: str, first: int, last: int) -> float | None:
        by_minute = self._values.get(key, {})
        wanted: Iterable[int] = range(first, last)
        if len(by_minute) < last - first:  # most are seldom measured, and windows are long
            wanted = [minute for minute in by_minute if first <= minute < last]
        found = [value for minute in wanted for value in by_minute.get(minute, ())]
        return _statistic(statistic, found) if found else None


def measured(line: Mapping[str, Any]) -> Iterator[tuple[Key, list[float]]]:
    """The metrics of a line."""
    for directive in line["_aws"]["CloudWatchMetrics"]:
        for names in directive["Dimensions"]:
            dimensions = tuple((name, line[name]) for name in names)
            for metric in directive["Metrics"]:
                value = line[metric["Name"]]
                yield (
                    (directive["Namespace"], metric["Name"], dimensions),
                    value if isinstance(value, list) else [value],
                )


def _statistic(name: str, values: list[float]) -> float:
    if name.startswith("p"):
        rank = math.ceil(float(name[1:]) / 100 * len(values))
        return sorted(values)[max(rank, 1) - 1]
    made = {
        "Sum": sum,
        "Maximum": max,
        "Minimum": min,
        "SampleCount": len,
        "Average": lambda found: sum(found) / len(found),
    }
    return float(made[name](values))  # type: ignore[operator]
