"""Tables: columns with priorities. On a terminal that is too narrow, cells take their short form, texts are cut, columns are left out.
An id at the end that takes more than half of the terminal stands on a line of its own below the rest, rather than that columns go.

What was left out or cut is in ``FittedTable``, so that the command can say it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from quarterjack.values import replace

GAP = 2  # spaces between columns
_SAID = 24  # characters of a cell that stands for a whole column
_LEAST = 8  # characters that stay of a text when nothing else helps
_ARN = re.compile(r"\A(?:iam:)?arn:[^:]*:[^:]*:[^:]*:[^:]*:(?:[a-z-]+/)?(.+)\Z")


@dataclass(frozen=True)
class Column:
    """A column of a table. On a narrow terminal columns are left out in the order of ``drop``, highest first.

    Those that say the same in each line go before the others, and what they say is said once.
    """

    name: str  # of the field; the heading is the same without underscores
    drop: int = 0  # 0: it is never left out
    cut: int = (
        0  # characters to which a text may be cut before a column is left out; 0: it is never cut, as an id to copy
    )
    show: Callable[[Any], str] | None = None  # the cell of an item; None: the text of the field
    short: Callable[[Any], str] | None = None  # its cell where there is little room

    @property
    def heading(self) -> str:
        return self.name.replace("_", " ")


@dataclass(frozen=True)
class FittedTable:
    """The rows of a table, heading first, and the columns and texts that were left out."""

    rows: Sequence[Sequence[str]]
    dropped: Sequence[str] = ()  # headings of the columns that were left out
    cut: Sequence[str] = field(default_factory=tuple)  # headings of the columns with texts that were cut
    same: Sequence[str] = field(
        default_factory=tuple
    )  # heading and cell of the columns that were left out as all their cells are the same
    below: Sequence[str] = ()  # the last column, heading first, if each of its cells stands below its row

    @property
    def lines(self) -> list[str]:
        widths = [max(map(len, cells)) for cells in zip(*self.rows, strict=True)]
        gap = " " * GAP
        above = [
            gap.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in self.rows
        ]
        if not self.below:
            return above
        pairs = zip(above[1:], self.below[1:], strict=True)
        return [f"{above[0]}{gap}{self.below[0]}", *(line for row, cell in pairs for line in (row, f"{gap}{cell}"))]

    @property
    def remark(self) -> str | None:
        """A sentence about the missing parts; None: nothing is missing."""
        parts = (
            f"in all lines: {', '.join(self.same)}" if self.same else "",
            f"without {', '.join(self.dropped)}" if self.dropped else "",
            f"{', '.join(self.cut)} shortened" if self.cut else "",
        )
        said = "; ".join(filter(None, parts))
        return f"{said}: a wider terminal or --json shows all" if said else None


def fitted(
    items: Iterable[Any], columns: Sequence[Column], cell: Callable[[Any], str], room: int | None
) -> FittedTable:
    """The table of some items, with lines of at most ``room`` characters (None: any) if cutting and leaving out is enough.

    ``cell`` makes the text of a field's value.
    """
    found = [*items]
    whole = [_cells(found, column, cell) for column in columns]
    if room is None or _width(whole) <= room:
        return _table(whole)
    table, last = _narrow(found, columns, whole, cell, room), columns[-1]
    loses = table.dropped or any(len(text) == _LEAST and "…" in text for row in table.rows for text in row)
    if not loses or last.name != "id" or max(map(len, whole[-1])) <= room // 2:
        return table
    above = _narrow(found, columns[:-1], whole[:-1], cell, room - GAP - len(last.heading))
    return replace(above, below=whole[-1])


def _narrow(
    found: Sequence[Any],
    columns: Sequence[Column],
    whole: Sequence[Sequence[str]],
    cell: Callable[[Any], str],
    room: int,
) -> FittedTable:
    """The table within ``room``; ``whole`` has the columns in full."""
    if _width(whole) <= room:
        return _table(whole)
    short = zip(columns, (_cells(found, column, cell, short=True) for column in columns), strict=True)
    kept = [(column, cells) for column, cells in short if any(cells[1:]) or not column.drop]  # empty ones say nothing
    dropped, same = list[str](), list[str]()
    while True:
        least = [max(column.cut, len(column.heading)) if column.cut else 0 for column, _ in kept]
        shown = _squeezed([cells for _, cells in kept], least, room)
        victim = max(kept, key=lambda each: (bool(each[0].drop and _is_same(each[1])), each[0].drop))
        if _width(shown) <= room or not victim[0].drop:
            break
        heading, cell_of_all = victim[0].heading, victim[1][-1]
        if _is_same(victim[1]):
            same.append(f"{heading} {_cut(cell_of_all, _SAID)}")
        else:
            dropped.append(heading)
        kept.remove(victim)
    if _width(shown) > room:
        shown = _squeezed(shown, [_LEAST if column.cut else 0 for column, _ in kept], room)
    cut = [column.heading for (column, cells), now in zip(kept, shown, strict=True) if cells != now]
    return _table(shown, dropped, cut, same)


def _table(
    cells: Sequence[Sequence[str]], dropped: Sequence[str] = (), cut: Sequence[str] = (), same: Sequence[str] = ()
) -> FittedTable:
    return FittedTable([list(row) for row in zip(*cells, strict=True)], dropped, cut, same)


def _is_same(cells: Sequence[str]) -> bool:
    """Whether a column, its heading first, says the same in several lines."""
    return len(cells) > 2 and len(set(cells[1:])) == 1


def _cells(items: Sequence[Any], column: Column, cell: Callable[[Any], str], *, short: bool = False) -> list[str]:
    """The heading, and the cell of each item."""
    show = (column.short if short else None) or column.show
    return [column.heading, *(cell(getattr(item, column.name)) if show is None else show(item) for item in items)]


def _width(columns: Sequence[Sequence[str]]) -> int:
    """Characters of the widest line."""
    return sum(max(map(len, cells)) + GAP for cells in columns) - GAP


def _squeezed(columns: Sequence[Sequence[str]], least: Sequence[int], room: int) -> list[list[str]]:
    """The columns with texts cut as far as ``room`` asks for, the longest first, to their ``least`` length; 0: not at all."""
    if _width(columns) <= room:
        return [list(cells) for cells in columns]
    texts = [
        [_resource(cell) for cell in cells] if most else list(cells) for cells, most in zip(columns, least, strict=True)
    ]
    widths = [max(map(len, cells)) for cells in texts]
    while sum(widths) + GAP * (len(widths) - 1) > room:
        longest = max(((width, at) for at, width in enumerate(widths) if least[at] and width > least[at]), default=None)
        if longest is None:
            break
        widths[longest[1]] -= 1
    return [[_cut(cell, width) for cell in cells] for cells, width in zip(texts, widths, strict=True)]


def _resource(text: str) -> str:
    """Of an ARN the names of role and session, or of the user."""
    found = _ARN.match(text)
    return text if found is None else f"…{found[1]}"


def _cut(text: str, width: int) -> str:
    """The tail of an ARN; else beginning and end."""
    if len(text) <= width:
        return text
    if text.startswith("…"):
        return f"…{text[1 - width :]}"
    last = (width - 1) // 2
    return f"{text[: width - 1 - last]}…{text[len(text) - last :]}"
