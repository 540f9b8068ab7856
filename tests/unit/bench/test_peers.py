"""Peers are measured by the same rules, and one that cannot be had stops no other."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from bench.meter import niceness
from bench.observed import witness
from bench.observed.figures import starts
from bench.observed.witness import Began
from bench.peers import part
from bench.peers.install import Missing, program
from bench.peers.page import page, shown, with_ratios
from bench.peers.part import PEERS, half_minute, longest, parse
from bench.peers.plan import BURST, OURS, RECURRING, VARIABLE, Plan, given, in_order
from bench.peers.processes import peers

FIRST = 1_800_000_000


def test_a_plan_reaches_a_peers_process(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Plan(BURST, 3, FIRST, database="postgresql://x", redis="redis://y")
    monkeypatch.setenv(VARIABLE, plan.encode())
    assert given() == plan


def test_a_schedule_has_three_fires_that_count_and_a_one_off_one() -> None:
    assert len(Plan(RECURRING, 4, FIRST).fires) == 12
    assert Plan(BURST, 2, FIRST).fires == [("burst-00000", FIRST * 1_000), ("burst-00001", FIRST * 1_000)]


def test_starts_belong_to_fires_in_their_order_and_what_follows_the_last_is_not_looked_at() -> None:
    plan = Plan(RECURRING, 1, FIRST)
    name = plan.names[0]
    late = [Began(name, 0, (FIRST + 10 * turn + 12) * 1_000.0) for turn in range(4)]  # each later than the next is due
    found = starts(plan.fires, in_order(late[::-1], plan))
    assert (found["missing"], found["double"], found["unexpected"]) == (0, 0, 0)
    assert found["p50 ms"] == found["max ms"] == 12_000


def test_a_schedule_that_was_passed_over_is_missing() -> None:
    plan = Plan(RECURRING, 1, FIRST)
    began = [Began(plan.names[0], 0, (FIRST + 10 * turn) * 1_000.0) for turn in range(2)]
    assert starts(plan.fires, in_order(began, plan))["missing"] == 1


def test_ratios_are_of_the_same_work_and_a_reason_has_none() -> None:
    rows: list[dict[str, Any]] = [
        {"case": "burst", "scheduler": OURS, "cpu_us_per_fire": 500.0, "sockets us": 250.0},
        {"case": "burst", "scheduler": "a", "cpu_us_per_fire": 1_000.0},
        {"case": "drain", "scheduler": "a", "cpu_us_per_fire": 1_000.0},
        {"case": "burst", "scheduler": "b", "reason": "no such package"},
    ]
    with_ratios(rows)
    assert [(row["of ours"], row["of sockets"]) for row in rows] == [(1.0, 2.0), (2.0, 4.0), ("", ""), ("", "")]
    assert len({tuple(shown(row)) for row in rows}) == 1, "all rows have the columns of the table"


def test_a_peer_that_does_not_start_is_said_with_what_it_printed() -> None:
    plan = Plan(BURST, 1, int(time.time()) + 60)
    with pytest.raises(Missing, match="No module named"), peers(Path(sys.executable), "bench.peers.no", plan, ("all",)):
        pytest.fail("it is not there")


def test_a_peer_that_is_not_ready_in_time_is_ended() -> None:
    plan = Plan(BURST, 1, int(time.time()) + 1)
    with pytest.raises(Missing, match="not ready in time"), peers(Path(sys.executable), "asyncio", plan, ("all",)):
        pytest.fail("it says nothing")


def test_a_program_that_is_installed_is_not_fetched() -> None:
    assert program("env", "coreutils") == Path("/usr/bin/env")


def test_work_begins_with_a_minute_or_its_half_and_names_its_seconds() -> None:
    before = time.time()
    at = half_minute(20)
    assert at % 30 == 0
    assert before + 20 <= at <= time.time() + 50
    assert Plan(RECURRING, 1, FIRST).seconds == [0, 10, 20]
    assert Plan(RECURRING, 1, FIRST + 30).seconds == [30, 40, 50]


def test_every_driver_lies_where_it_is_looked_for() -> None:
    folder = Path(witness.__file__).parents[1] / "peers"
    assert {f"with_{peer.key}.py" for peer in PEERS} == {place.name for place in folder.glob("with_*.py")}


def cases_of(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    monkeypatch.setattr(part, "one", lambda *_: {})
    cases: dict[str, list[str]] = {}
    for row in part.measured(parse(arguments)):
        cases.setdefault(row["scheduler"], []).append(row["case"])
    return cases


def test_whose_recurring_alone_differs_is_asked_for_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = cases_of(["APScheduler", "--size", "1", "--cases", RECURRING, BURST, "drain"], monkeypatch)
    assert cases.pop("APScheduler cron, memory") == [RECURRING]
    assert set(map(tuple, cases.values())) == {(RECURRING, BURST, "drain")}


def test_without_names_ours_is_beside_all_that_survive_a_kill(monkeypatch: pytest.MonkeyPatch) -> None:
    beside = ["APScheduler, PostgreSQL", "Celery, Redis", "arq, Redis", "DBOS, PostgreSQL", "procrastinate, PostgreSQL"]
    assert cases_of([], monkeypatch) == {name: [RECURRING, BURST] for name in (OURS, *beside)}


def test_what_the_minutes_leave_no_time_for_is_said_and_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, clock = parse(["arq", "DBOS", "--cases", BURST, "--minutes", "5"]), [0.0]
    assert 150 < 2 * longest(BURST, asked.size) < 300, "two rows fit if neither takes longer than it may"

    def one(*_: object) -> dict[str, Any]:
        clock[0] += 250.0
        return {"fires": 1}

    monkeypatch.setattr(part, "one", one)
    first, second = part.measured(asked, lambda: clock[0])
    assert first["fires"] == 1
    assert second["reason"] == "no time is left of --minutes 5"


def test_the_page_has_a_table_a_case_and_the_reasons_for_gaps() -> None:
    rows: list[dict[str, Any]] = [
        {"case": RECURRING, "size": 1_000, "scheduler": OURS, "cpu_us_per_fire": 500.0},
        {"case": RECURRING, "size": 1_000, "scheduler": "a", "version": "a==1", "cpu_us_per_fire": 1_000.0},
        {"case": BURST, "size": 20, "scheduler": "b", "reason": "no such package"},
    ]
    with_ratios(rows)
    written = page(rows)
    assert "## 1,000 schedules due at the same instants" in written
    assert "| a | a==1 | 1000.0 | 2.0 |" in written
    assert "## 20 one-offs due at one instant" in written
    assert "- b was not measured: no such package" in written
    assert {line.count("|") for line in written.splitlines() if line.startswith("|")} == {10}


def test_rows_of_processes_that_the_kernel_prefers_are_told_to_be_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    nice = iter(["0", "-10", "0"])
    monkeypatch.setattr(part, "one", lambda *_: {"nice": next(nice)})
    monkeypatch.setattr(part, "prepare", lambda _: None)
    with pytest.raises(SystemExit, match="nice"):
        part.main(["APScheduler", "--cases", RECURRING])
    assert "-10" in capsys.readouterr().out


def test_a_process_is_as_nice_as_itself_and_its_group() -> None:
    child = subprocess.Popen(["/bin/sleep", "30"], preexec_fn=lambda: os.nice(3), start_new_session=True)  # noqa: PLW1509
    try:
        mine = niceness([os.getpid()])
        own = os.getpriority(os.PRIO_PROCESS, 0)
        assert niceness([child.pid]) == str(own + 3)
        assert niceness([os.getpid(), child.pid]) == "/".join(map(str, sorted({int(mine), own + 3})))
    finally:
        child.kill()
        child.wait()
