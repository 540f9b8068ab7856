"""The graph of a pipeline as inline SVG: a box for each task with its name and its state in words, an edge for each task before it.

A box leads to the run of its task. The critical path is drawn thick. Colour repeats what the words say.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup

from quarterjack.console.pages.pipelines.layout import Point, placed
from quarterjack.console.words import plural

MOST_TASKS, MOST_EDGES = 150, 400  # of a drawing; a larger graph is a table alone
_WIDE, _TALL = 176, 44  # px of a box
_STEP, _ROW = 232, 60  # px from one column to the next, and from one row to the next
_EDGE = 8  # px around the drawing
_LETTERS = 23  # of a name in its box


@dataclass(frozen=True, kw_only=True)
class GraphBox:
    """A task in a drawing."""

    name: str
    after: Sequence[str]  # tasks before it
    look: str  # class of its colour
    detail: str  # second line of its box
    address: str | None = None  # of the page of its run


def is_drawn(tasks: Sequence[GraphBox]) -> bool:
    """Whether a graph is small enough to be read as a drawing."""
    return len(tasks) <= MOST_TASKS and sum(len(task.after) for task in tasks) <= MOST_EDGES


def drawn(tasks: Sequence[GraphBox], critical: Sequence[str] = ()) -> Markup:
    """The SVG. ``critical``: the tasks of the critical path in their order."""
    layout = placed({task.name: task.after for task in tasks})
    wide = 2 * _EDGE + (layout.columns - 1) * _STEP + _WIDE
    tall = 2 * _EDGE + (layout.rows - 1) * _ROW + _TALL
    steps = set(pairwise(critical))
    shapes = [_line(points, "edge critical" if edge in steps else "edge") for edge, points in layout.edges.items()]
    shapes += [_box(task, layout.tasks[task.name], critical) for task in tasks]
    return Markup(
        '<svg class="graph" role="group" aria-label="{}" width="{}" height="{}" viewBox="0 0 {} {}">{}</svg>'
    ).format(f"Graph of {plural(len(tasks), 'task')}", wide, tall, wide, tall, Markup("").join(shapes))


def _corner(point: Point) -> tuple[int, int]:
    return _EDGE + point[0] * _STEP, _EDGE + round(point[1] * _ROW)


def _line(points: Sequence[Point], kind: str) -> Markup:
    """From the right side of a box to the left side of another; in the columns between it goes straight."""
    (x, y), *others = map(_corner, points)
    path = f"M{x + _WIDE} {y + _TALL // 2}"
    for place, (left, top) in enumerate(others, 1):
        middle, height = left - (_STEP - _WIDE) // 2, top + _TALL // 2
        path += f"C{middle} {y + _TALL // 2} {middle} {height} {left} {height}"
        path += f"h{_WIDE}" if place < len(others) else ""
        y = top
    return Markup('<path class="{}" d="{}"/>').format(kind, path)


def _box(task: GraphBox, point: Point, critical: Collection[str]) -> Markup:
    x, y = _corner(point)
    inside = Markup(
        '<rect class="box" x="{}" y="{}" width="{}" height="{}" rx="6"/>'
        '<rect class="side-mark" x="{}" y="{}" width="5" height="{}"/>'
        '<text x="{}" y="{}">{}</text> <text class="detail" x="{}" y="{}">{}</text>'
    ).format(x, y, _WIDE, _TALL, x, y, _TALL, x + 14, y + 18, _short(task.name), x + 14, y + 35, task.detail)
    words = f"{_short(task.name)} {task.detail}" + (", on the critical path" if task.name in critical else "")
    title = "" if _short(task.name) == task.name else Markup("<title>{}</title>").format(task.name)
    kind = f"task {task.look}" + (" critical" if task.name in critical else "")
    if task.address is None:
        return Markup('<g class="{}" role="img" aria-label="{}">{}{}</g>').format(kind, words, title, inside)
    return Markup('<a class="{}" href="{}" aria-label="{}">{}{}</a>').format(kind, task.address, words, title, inside)


def _short(name: str) -> str:
    return name if len(name) <= _LETTERS else f"{name[: _LETTERS - 1]}…"
