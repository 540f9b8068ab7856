"""Where the tasks of a pipeline stand in a drawing: in columns by the longest way to them, ordered so that few edges cross.

An edge over several columns has a point in each column between, so that it passes between tasks and not behind them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

_SWEEPS = 4  # passes over the columns, to and fro
Point = tuple[int, float]  # column, and row within the drawing

# A place in a column: the name of a task, or the edge that passes, with its column.
_Place = str | tuple[str, str, int]


@dataclass(frozen=True)
class GraphLayout:
    """Places in columns and rows, both from 0."""

    tasks: Mapping[str, Point]
    edges: Mapping[tuple[str, str], Sequence[Point]]  # the points of an edge, from its task before to the one after
    columns: int
    rows: int  # of the longest column


def placed(after: Mapping[str, Sequence[str]]) -> GraphLayout:
    """The places of tasks; ``after``: of each task those before it, which stand earlier in the mapping.

    >>> placed({"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}).tasks
    {'a': (0, 0.5), 'b': (1, 0.0), 'c': (1, 1.0), 'd': (2, 0.5)}
    """
    column = dict[str, int]()
    for name, before in after.items():
        column[name] = max((column[one] + 1 for one in before), default=0)
    ways: dict[tuple[str, str], list[_Place]] = {
        (one, name): [one, *((one, name, at) for at in range(column[one] + 1, column[name])), name]
        for name, before in after.items()
        for one in before
    }
    columns = _ordered(column, ways)
    rows = max(map(len, columns), default=0)
    points = {
        place: (at, row + (rows - len(places)) / 2)
        for at, places in enumerate(columns)
        for row, place in enumerate(places)
    }
    return GraphLayout(
        tasks={name: points[name] for name in after},
        edges={edge: [points[place] for place in way] for edge, way in ways.items()},
        columns=len(columns),
        rows=rows,
    )


def _ordered(column: Mapping[str, int], ways: Mapping[tuple[str, str], Sequence[_Place]]) -> list[list[_Place]]:
    """The places of each column from above. Each pass puts a place at the mean of its neighbours in the column before, or behind."""
    columns: list[list[_Place]] = [[] for _ in range(max(column.values(), default=-1) + 1)]
    left, right = dict[_Place, list[_Place]](), dict[_Place, list[_Place]]()
    for name, at in column.items():
        columns[at].append(name)
    for way in ways.values():
        for one, other in pairwise(way):
            right.setdefault(one, []).append(other)
            left.setdefault(other, []).append(one)
            if isinstance(other, tuple):
                columns[other[2]].append(other)
    for sweep in range(_SWEEPS):
        forth = sweep % 2 == 0
        for places in columns if forth else reversed(columns):
            _sort(places, left if forth else right, columns)
    return columns


def _sort(places: list[_Place], beside: Mapping[_Place, Sequence[_Place]], columns: Sequence[Sequence[_Place]]) -> None:
    """Sort one column by its neighbours. A place without one keeps its place."""
    row = {place: (index + 0.5) / len(one) for one in columns for index, place in enumerate(one)}

    def mean(place: _Place) -> float:
        near = beside.get(place)
        return sum(row[one] for one in near) / len(near) if near else row[place]

    places.sort(key=mean)
