"""Tables on a terminal that is too narrow for them: fewer columns, and long texts cut to what tells them apart."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

GAP = 2  # spaces between columns
_LEAST = 8  # characters that stay of a text
_ARN = re.compile(r"\A(?:iam:)?arn:[^:]*:[^:]*:[^:]*:[^:]*:(?:[a-z-]+/)?(.+)\Z")

Narrow = Mapping[str, bool]  # columns that a narrow terminal shows; True: its texts may be cut


def width_of(rows: Sequence[Sequence[str]]) -> int:
    """Characters of the widest line."""
    return sum(max(map(len, cells)) + GAP for cells in zip(*rows, strict=True)) - GAP


def fitted(rows: Sequence[Sequence[str]], elastic: Sequence[bool], room: int) -> list[list[str]]:
    """Rows whose lines have at most ``room`` characters, if cutting the ``elastic`` columns is enough."""
    whole = list(zip(*rows, strict=True))
    columns = [
        [_resource(cell) for cell in cells] if may else list(cells) for cells, may in zip(whole, elastic, strict=True)
    ]
    widths = [max(map(len, cells)) for cells in columns]
    while sum(widths) + GAP * (len(widths) - 1) > room:
        most = max((width, at) for at, width in enumerate(widths) if elastic[at])
        if most[0] <= _LEAST:
            break
        widths[most[1]] -= 1
    cut = [[_cut(cell, width) for cell in cells] for cells, width in zip(columns, widths, strict=True)]
    return [list(row) for row in zip(*cut, strict=True)]


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
