"""The tables of docs/how-to/size.md, made of the model's rows: paste what ``python -m bench capacity --markdown`` prints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bench.modelled.scenarios import (
    HASTY,
    INSTALLED,
    INSTANT,
    MORE_WRITES,
    PROVISIONED,
    TICKERS,
    UNSHARED,
    WRITES,
)

_LETTERS = {
    INSTALLED.name: "A",
    TICKERS.name: "B",
    PROVISIONED.name: "C",
    HASTY.name: "A, any number for ticks",
    UNSHARED.name: "C, any number for ticks",
    MORE_WRITES.name: "C, any of 60,000 for ticks",
    WRITES.name: "D",
    INSTANT.name: "E",
}
_COLUMNS = {
    "p50 s": "p50_s",
    "p99 s": "p99_s",
    "p99.9 s": "p99.9_s",
    "max s": "max_s",
    "dropped": "missed",
    "writes that waited": "throttled",
    "functions": "functions",
    "$ a million": "$_a_million",
    "$ kept a month": "$_kept_a_month",
}
GOAL = 2.0  # seconds within which 99.9 % shall start


def page(rows: Sequence[Mapping[str, Any]]) -> str:
    """A table for each load, then one of what binds."""
    parts = []
    for case in dict.fromkeys(row["case"] for row in rows):
        known = [row for row in rows if row["case"] == case and row["setting"] in _LETTERS]
        parts.append(f"**{case}**\n\n{_table(known)}")
    others = [row for row in rows if row["setting"] not in _LETTERS]
    return "\n\n".join([*parts, _table(others)]) + "\n"


def _table(rows: Iterable[Mapping[str, Any]]) -> str:
    lines = [["setting", *_COLUMNS, "99.9 % in 2 s"], ["---"] * (len(_COLUMNS) + 2)]
    for row in rows:
        cells = [_figure(name, row[field]) for name, field in _COLUMNS.items()]
        reached = "**yes**" if row["p99.9_s"] <= GOAL else "no"
        lines.append([_LETTERS.get(row["setting"], row["setting"]), *cells, reached])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _figure(name: str, value: float) -> str:
    if name.endswith(" s"):
        return f"{value:,.1f}"
    return f"{value:.2f}" if name == "$ a million" else f"{value:,}"
