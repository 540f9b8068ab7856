"""The live table of a local session."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta

from quarterjack.local.session.status import StatusRow, live
from rich.console import Console


def shown(width: int, *rows: StatusRow, now: datetime) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width).print(live(rows, now, width=width))
    return out.getvalue().splitlines()


def test_eighty_columns_keep_state_and_next_fire_with_the_date_beyond_today() -> None:
    now = datetime.now(UTC)
    beyond = now + timedelta(days=1, hours=6, minutes=1)
    long = StatusRow(
        name="a-schedule-with-a-long-name-of-its-own",
        when="*/5 9-17 * * MON-FRI",
        state="ACTIVE",
        next=beyond,
        last=now,
        lateness=0.412,
        outcome="SUCCEEDED",
        runs=100,
    )
    heading, line, soon = shown(80, long, StatusRow(name="b", next=now + timedelta(seconds=49)), now=now)
    assert f"next fire ({now.astimezone().tzname()})" in heading
    assert max(map(len, (heading, line, soon))) <= 80
    assert f"{beyond.astimezone():%Y-%m-%d %H:%M} (in 1 d 6 h)" in line
    assert line.rstrip().endswith("SUCCEEDED")
    assert "…" in line
    assert "(in 49 s)" in soon
    wide, *_ = shown(120, long, now=now)
    assert "last run" in wide
    assert "last run" not in heading


def test_the_examples_fit_eighty_columns_whole() -> None:
    now = datetime.now(UTC)
    rows = [
        StatusRow(name="check-page", when="rate(10 seconds)", next=now + timedelta(seconds=9.5), runs=12),
        StatusRow(name="always fails", lateness=0.412, outcome="SUCCEEDED", runs=10),
    ]
    lines = shown(80, *rows, now=now)
    assert "check-page    rate(10 seconds)" in lines[1]
    assert not [line for line in lines if "…" in line]
