"""The nights themselves: a calm one is calm, takes seconds, and each fault shows in what the handlers print and AWS counts."""

from __future__ import annotations

from collections import Counter

import pytest
from quarterjack import RunState

from tests.support.nights import faults
from tests.support.nights.command_line import NightShell
from tests.support.nights.night import PREFIX, Night
from tests.support.nights.operator import Operator

ROLES = ("ticker", "worker", "worker-reports", "worker-gpu")


@pytest.fixture
def night(monkeypatch: pytest.MonkeyPatch) -> Night:
    """With a schedule of each queue, five minutes old."""
    made = Night(monkeypatch)
    for name, job in (("a", "note"), ("b", "note"), ("r", "report"), ("g", "train")):
        made.schedule(name, job)
    made.live(5)
    return made


def total(night: Night, name: str, role: str, *, last: int) -> float:
    """The sum of a metric in the last minutes."""
    lines = [line for minute in night.minutes[-last:] for line in minute.lines]
    return sum(sum(line.get(name, ())) for line in lines if line["service"] == f"{PREFIX}-{role}")


def figure(night: Night, name: str, dimension: str, of: str) -> list[float | None]:
    """A metric of AWS's in each minute."""
    found = [
        {key[1:]: value for key, value in minute.figures.items()}.get((name, ((dimension, f"{PREFIX}-{of}"),)))
        for minute in night.minutes
    ]
    return list(found)


def test_a_calm_night(night: Night) -> None:
    night.live(4 * 60)
    assert night.errors == []
    states = Counter(run.state for run in night.memory.runs() if run.due < night.clock() - 60_000)
    assert states == {RunState.SUCCEEDED: states.total()}
    assert states.total() > 4 * 4 * 60
    assert total(night, "Audits", "auditor", last=4 * 60) == 4
    assert [figure(night, "Errors", "FunctionName", role)[-1] for role in ROLES] == [0] * 4


def test_a_worker_that_is_killed_leaves_its_messages_in_flight_for_a_lease(night: Night) -> None:
    faults.killed(night, "worker-gpu", times=1)
    night.live(4)
    in_flight = figure(night, "ApproximateNumberOfMessagesNotVisible", "QueueName", "work-gpu")
    assert in_flight[-4:] == [1, 0, 0, 0]
    past = [run.state for run in night.memory.runs("acme/g") if run.due < night.clock() - 60_000]
    assert set(past) == {RunState.SUCCEEDED}


def test_a_package_that_cannot_be_imported_is_an_error_of_each_worker(night: Night) -> None:
    mended = faults.not_importable(night)
    night.live(3)
    assert all(errors for errors in figure(night, "Errors", "FunctionName", "worker")[-3:])
    assert total(night, "Succeeded", "worker", last=3) == 0
    mended()
    night.live(3)
    assert total(night, "Succeeded", "worker", last=3) == 2 * 3 + 2 * 3, "what waited, too"


def test_a_ticker_without_rights_fails_and_counts_no_tick(night: Night) -> None:
    faults.without_rights(night, "ticker")
    night.live(3)
    assert figure(night, "Errors", "FunctionName", "ticker")[-3:] == [1, 1, 1]
    assert total(night, "Ticks", "ticker", last=3) == 0


def test_a_table_that_throttles_makes_the_ticker_late_and_loses_nothing(night: Night) -> None:
    faults.throttled(night, "runs")
    night.live(10)
    assert total(night, "BehindBy", "ticker", last=1) > 120_000
    faults.healed(night)
    night.live(5)
    states = Counter(run.state for run in night.memory.runs() if run.due < night.clock() - 60_000)
    assert states == {RunState.SUCCEEDED: 4 * 18}


def test_a_queue_without_workers_only_fills(night: Night) -> None:
    night.asleep.add("worker-gpu")
    night.live(5)
    assert figure(night, "ApproximateNumberOfMessagesVisible", "QueueName", "work-gpu")[-5:] == [1, 2, 3, 4, 5]


def test_a_poisoned_schedule_makes_no_other_late(night: Night) -> None:
    faults.poisoned(night, "a")
    night.live(30)
    assert total(night, "BehindBy", "ticker", last=30) == 0
    assert total(night, "EntriesFailed", "ticker", last=30) == 10
    assert total(night, "Quarantined", "ticker", last=30) == 1


def test_an_operator_types_what_stands_on_the_page(night: Night) -> None:
    typed = Operator(night, acts={"cdk deploy": lambda: None}).follow("no-tick").typed
    assert typed == ["quarterjack doctor", "cdk deploy", "quarterjack doctor"]
    with pytest.raises(AssertionError, match="does not say what cures this"):
        Operator(night, acts={"aws lambda invoke": lambda: None}).follow("no-tick")


@pytest.mark.parametrize("line", ["doctor", "queues list", "workers list", "dead list", "audit", "stats"])
def test_the_command_line_is_over_the_nights_installation(night: Night, line: str) -> None:
    said = NightShell(night).say(*line.split())
    assert (said.code, said.err if "error" in said.err else "") == (0, "")


def test_the_doctor_sees_what_is_ill(night: Night) -> None:
    night.asleep.add("worker-gpu")
    faults.without_rights(night, "ticker")
    night.live(12)
    said = NightShell(night).say("doctor")
    assert said.code == 1
    assert f"{PREFIX}-work-gpu: " in said.out
    assert "no tick has handled it" in said.out
