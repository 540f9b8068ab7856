"""Print a table of figures and keep it as JSON under build/bench/."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

_VERSIONS = ("boto3", "botocore", "quarterjack", "pynamodb")


def write(part: str, rows: Sequence[Mapping[str, Any]]) -> Path:
    """``build/bench/PART.json``: the rows, each with the machine and the versions."""
    about = {
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
        "versions": {name: version(name) for name in _VERSIONS},
    }
    place = Path("build/bench", f"{part}.json")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps([{**row, **about} for row in rows], indent=1))
    return place


@dataclass(frozen=True)
class Table:
    """Rows with the same fields, in columns."""

    title: str
    rows: Sequence[Mapping[str, Any]]

    def show(self) -> None:
        """Print it."""
        names = list(self.rows[0])
        cells = [[str(row[name]) for name in names] for row in self.rows]
        widths = [max(len(name), *(len(line[i]) for line in cells)) for i, name in enumerate(names)]
        print(f"\n{self.title}")
        for line in (names, *cells):
            print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
