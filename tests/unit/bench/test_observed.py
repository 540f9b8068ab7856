"""What is said of lateness, missing and double starts is counted as it is meant."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from quarterjack import Scheduler
from quarterjack.services import system_clock
from quarterjack.testing.memory.installation import Memory

from bench import __main__ as command
from bench import endtoend
from bench.meter import cpu_of_tree
from bench.observed import jobs, witness
from bench.observed.crew import wait_for
from bench.observed.figures import percentile, rate, spent, starts
from bench.observed.inside import inside
from bench.observed.witness import Began

DUE = 1_800_000_000_000


def test_what_several_processes_note_is_read_and_a_line_still_being_written_is_left_out(tmp_path: Path) -> None:
    environ = {**os.environ, witness.FOLDER: str(tmp_path)}
    program = "from bench.observed.witness import note; note('a', 5); note('b', 6)"
    for _ in range(2):
        subprocess.run([sys.executable, "-c", program], env=environ, check=True)
    with next(tmp_path.glob("*.began")).open("a") as file:
        file.write("c 7 1.")
    assert sorted((one.key, one.due) for one in witness.read(tmp_path)) == [("a", 5), ("a", 5), ("b", 6), ("b", 6)]
    assert witness.count(tmp_path) == 4


def test_missing_double_and_unexpected_starts_are_told_apart() -> None:
    expected = [("a", DUE), ("b", DUE), ("c", DUE)]
    began = [Began("a", DUE, DUE + 40), Began("a", DUE, DUE + 20), Began("b", DUE, DUE + 60), Began("d", DUE, DUE)]
    found = starts(expected, began)
    assert {name: found[name] for name in ("fires", "missing", "double", "unexpected")} == {
        "fires": 3,
        "missing": 1,
        "double": 1,
        "unexpected": 1,
    }
    assert (found["p50 ms"], found["max ms"]) == (20, 60), "the first start counts"


def test_nothing_that_began_has_no_lateness() -> None:
    found = starts([("a", DUE)], [])
    assert found["missing"] == 1
    assert found["p99 ms"] is None
    assert rate([]) is None


@pytest.mark.parametrize(("share", "expected"), [(0.5, 500), (0.99, 990), (0.999, 999), (1.0, 1000), (0.0001, 1)])
def test_percentiles_are_of_the_nearest_rank(share: float, expected: int) -> None:
    assert percentile(range(1, 1001), share) == expected


def test_a_burst_is_drained_from_its_instant_to_the_last_start_and_repeats_do_not_count() -> None:
    began = [Began(str(number), DUE, DUE + 10 * number) for number in range(1, 101)]
    assert rate([*began, Began("1", DUE, DUE + 9_000)]) == 100


def test_cpu_is_a_fire_and_of_whoever_came_later_all_of_it() -> None:
    assert spent({"worker": 1.0}, {"worker": 1.5, "ticker": 0.25}, 1_000) == {"worker": 500, "ticker": 250}


def test_cpu_of_a_tree_has_that_of_children_that_run_and_of_those_that_ended() -> None:
    burn = "import time; t = time.process_time() + 0.15\nwhile time.process_time() < t: pass\n"
    parent = f"""
import subprocess, sys
ended = subprocess.run([sys.executable, "-c", {burn!r}])
alive = subprocess.Popen([sys.executable, "-c", {burn!r} + "print(flush=True); input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
alive.stdout.readline()
print(flush=True)
input()
"""
    with subprocess.Popen(
        [sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        used = cpu_of_tree(process.pid)
        process.communicate("\n")
    assert used >= 0.28


@pytest.mark.parametrize("second", [0.0, 14.7, 14.8, 15.5, 59.999])  # the minute is LEAD ahead, or the next one
@pytest.mark.parametrize(
    "case", [case for case in endtoend.CASES if case.put_on is endtoend.recurring][:4], ids=lambda case: case.name
)
def test_the_fires_that_are_expected_are_those_of_the_schedules(
    case: endtoend.Case, second: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = datetime.fromtimestamp(DUE / 1_000, UTC) + timedelta(seconds=second)
    monkeypatch.setattr(endtoend, "now", lambda: at)
    memory = Memory(lambda: int(at.timestamp() * 1_000) - endtoend.AGO)
    scheduler = Scheduler(services=memory.connect(), clock=lambda: int(at.timestamp() * 1_000) - endtoend.AGO)
    fires = endtoend.recurring(scheduler, endtoend.parse(["--schedules", "13"]), case)
    assert len(fires) == 13 * 6
    for head in scheduler.list_schedules(limit=100).items:
        expected = [int(fire.timestamp() * 1_000) for fire in scheduler.preview(head.name, 6)]
        assert [due for name, due in fires if name == head.name] == expected
    assert len({due for _, due in fires}) == (6 if case.together else 60)
    assert min(due for _, due in fires) / 1_000 > at.timestamp() + endtoend.LEAD


def test_one_offs_of_a_burst_are_due_at_one_instant_and_left_to_the_ticker(monkeypatch: pytest.MonkeyPatch) -> None:
    case = next(case for case in endtoend.CASES if case.fires)
    monkeypatch.setattr(endtoend, "now", lambda: datetime.fromtimestamp(DUE / 1_000, UTC))
    memory = Memory(lambda: DUE - endtoend.AGO)
    scheduler = Scheduler(services=memory.connect(), clock=lambda: DUE - endtoend.AGO)
    fires = endtoend.burst(scheduler, endtoend.parse([]), case)
    assert len(set(fires)) == case.fires == len(memory.entries())
    assert len({due for _, due in fires}) == 1
    assert not memory.messages()


def test_what_runs_inside_one_process_is_witnessed_like_everything_else() -> None:
    with inside(concurrency=10, period=60) as running:
        scheduler = running.scheduler(system_clock)
        names = [f"one-{number}" for number in range(20)]
        for name in names:
            scheduler.submit(jobs.NAME, name)
        wait_for(running, len(names), 20)
        began = list(witness.read(running.folder))
    assert sorted(one.key for one in began) == sorted(names)
    assert all(0 <= one.at - one.due + 1 < 20_000 for one in began)


def test_every_part_can_be_asked_for_and_no_helper() -> None:
    known = command.parts()
    assert known["peers"] == "bench.peers.part"
    assert known["endtoend"] == "bench.endtoend"
    assert not {"report", "meter", "stub", "observed"} & set(known)
