"""The live table of a local session."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from typing import Any

from quarterjack.domain.run import RunState
from quarterjack.local.processes import Event
from quarterjack.local.session.status import SessionStatus, StatusRow, line, live, summary
from quarterjack.local.session.verifier import StartLog, verify
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


def started(run_id: str, late: int, attempt: int = 1) -> Event:
    return {"event": "run.started", "run_id": run_id, "attempt": attempt, "lateness_ms": late}


def ended(run_id: str, state: str = "SUCCEEDED") -> Event:
    return {"event": "run.ended", "run_id": run_id, "state": state}


def test_a_line_has_the_lateness_of_its_own_run() -> None:
    scheduler: Any = None
    status = SessionStatus(scheduler, {})
    first, second, earlier = "default/s#1000", "default/s#2000", "default/s#500"
    found = status.note(
        [
            started(first, 1),
            started(second, 7_000),
            ended(first),
            ended(second),
            started(earlier, 9_000, 2),
            ended(earlier),
        ]
    )
    assert [each.lateness for each in found] == [0.001, 7.0, None]
    assert "late" not in line(found[2]), "it started before this session"


def test_a_retry_keeps_the_lateness_of_the_first_start() -> None:
    scheduler: Any = None
    run_id = "default/s#1000"
    events = [started(run_id, 3), ended(run_id, RunState.RETRYING), started(run_id, 2_000, 2), ended(run_id)]
    assert [each.lateness for each in SessionStatus(scheduler, {}).note(events)] == [0.003, 0.003]


def test_without_the_examples_the_summary_counts_what_ran() -> None:
    starts, now = StartLog(), datetime.now(UTC)
    for number in range(116):
        starts.note("worker-1", started(f"default/own#{number}", 1))
        starts.note("worker-1", ended(f"default/own#{number}"))
    said = summary(verify([], {}, starts, now), 60)
    assert said.splitlines()[:2] == [
        "60 s: 116 runs started (without the examples no fires are compared), 0 double",
        "runs: SUCCEEDED 116",
    ]
