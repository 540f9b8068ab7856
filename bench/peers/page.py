"""What a run of ``bench peers`` shows: its table, and its page in Markdown."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Sequence

from bench.peers.plan import BURST, OURS, RECURRING, Row


def with_ratios(rows: Sequence[Row]) -> None:
    """Add to each row what its scheduler takes of CPU beside ours at the same work: over 1, ours takes less."""
    mine = {row["case"]: row for row in rows if row["scheduler"] == OURS}
    for row in rows:
        base = mine.get(row["case"], {})
        for name, key in (("of ours", "cpu_us_per_fire"), ("of sockets", "sockets us")):
            known = "cpu_us_per_fire" in row and base.get(key)
            row[name] = round(row["cpu_us_per_fire"] / base[key], 2) if known else ""


_COLUMNS = (
    "case",
    "scheduler",
    "fires",
    "missing",
    "double",
    "p50 ms",
    "p99 ms",
    "max ms",
    "a second",
    "cpu_us_per_fire",
)
_MORE = ("server us", "sockets us", "of ours", "of sockets", "nice", "load", "reason")


def shown(row: Row) -> Row:
    return {name: row.get(name, "") for name in (*_COLUMNS, *_MORE)}


_ABOUT = (
    "Written by `make bench PART=peers` from one run: compare figures of this page only. Processor time is that of schedulers and workers; "
    "*of ours* is its ratio to Quarterjack's in the same case, over 1 where Quarterjack takes less. Quarterjack runs over the embedded "
    "cloud, which stands for DynamoDB and SQS."
)
_CASES = {
    RECURRING: "{size:,} schedules due at the same instants, every 10 s of half a minute",
    BURST: "{size:,} one-offs due at one instant",
    "drain": "{size:,} one-offs due at one instant",
}
_PAGE = {  # heads of its columns
    "scheduler": "scheduler",
    "version": "version",
    "cpu_us_per_fire": "processor, µs a fire",
    "of ours": "of ours",
    "server us": "its server, µs",
    "p50 ms": "p50 ms",
    "p99 ms": "p99 ms",
    "missing": "missing",
    "double": "double",
}


def page(rows: Sequence[Row]) -> str:
    """The page of one run, in Markdown: a table for each case, and the machine that made it."""
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    load = f"{os.getloadavg()[0]:.1f}"
    parts = [
        "# Beside other schedulers",
        f"{_ABOUT} Machine: {machine}; load average {load} at the end, {time.strftime('%Y-%m-%d')}.",
    ]
    for kind in dict.fromkeys(row["case"] for row in rows):
        of_it = [row for row in rows if row["case"] == kind]
        lines = [list(_PAGE.values()), ["---"] * len(_PAGE)]
        lines += [[str(row.get(name, "")) for name in _PAGE] for row in of_it if "reason" not in row]
        parts += [f"## {_CASES[kind].format(size=of_it[0]['size'])}"]
        parts += ["\n".join(f"| {' | '.join(line)} |" for line in lines)]
        parts += [f"- {row['scheduler']} was not measured: {row['reason']}" for row in of_it if "reason" in row]
    return "\n\n".join(parts) + "\n"
