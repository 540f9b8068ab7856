"""Statistics by day and hour: the same before and after hours are folded, and close to what the runs themselves say."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from quarterjack import Scheduler, Settings
from quarterjack.domain.history.run_change import RunChange
from quarterjack.domain.names import fire_ref, one_off_ref
from quarterjack.domain.run import Failure, RunRow, RunState
from quarterjack.domain.times import DAY, HOUR, MINUTE, SECOND, from_ms, to_ms
from quarterjack.errors import InvalidInput, Misconfigured
from quarterjack.historian.context import HistorianContext
from quarterjack.historian.page_compaction import compact_pages
from quarterjack.historian.pages import write_pages
from quarterjack.history import statistics
from quarterjack.history.read import PageBudget
from quarterjack.sdk.history.day_stats import DayStats
from quarterjack.state.history.codec import encode
from quarterjack.state.history.entries import entry_of
from quarterjack.state.history.stats import Stats, Tally, decode, encode_parts, quantile, step_of, time_of, total
from quarterjack.stores.history.pages import ReadMeter
from quarterjack.testing import ManualClock, Memory

from tests.support.builders import a_run

MIDNIGHT = 2_094_508_800_000 // DAY * DAY


class World:
    def __init__(self) -> None:
        self.clock = ManualClock(from_ms(MIDNIGHT + 3 * DAY))
        self.services = Memory(self.clock).connect()
        self.owner = Scheduler("acme", services=self.services, clock=self.clock)
        self._sequence = 0

    def end(self, runs: list[RunRow]) -> None:
        changes = []
        for run in runs:
            self._sequence += 1
            changes.append(RunChange(ref=run.ref, sequence=self._sequence, at=run.ended_at or 0, old=None, new=run))
        write_pages(changes, HistorianContext(services=self.services, now=self.clock(), batch="b"))

    def fold(self) -> None:
        assert compact_pages(self.services, clock=self.clock, budget=DAY).failed == 0


def some(count: int, days: int = 3) -> list[RunRow]:
    random, found = Random(3), []
    for number in range(count):
        due = MIDNIGHT + random.randrange(days * DAY - HOUR)
        start = due + random.randrange(1, 5_000)
        name = random.choice("abc")
        ref = fire_ref(f"acme/{name}", due) if number % 4 else one_off_ref("acme", f"k{number}")
        given: dict[str, Any] = {"started_at": start, "ended_at": start + random.randrange(1, 60_000), "attempt": 1}
        given |= {"state": RunState.SUCCEEDED, "job": f"job-{name}", "app_version": (None, "1.4", "1.5")[number % 3]}
        if number % 5 == 0:
            given |= {"state": RunState.DEAD, "attempt": 3, "failure": Failure(kind="ValueError", message="boom")}
        found.append(a_run(due, ref=ref, **given))
    return found


def test_they_are_the_same_before_and_after_a_fold() -> None:
    world, runs = World(), some(400)
    world.end(runs)
    before = world.owner.stats()
    world.fold()
    half = world.owner.stats()  # of the last day some hours are folded
    world.clock.advance(timedelta(hours=5))
    world.fold()
    whole = world.owner.stats(until=from_ms(world.clock()))
    assert before == half == whole
    assert sum(one.runs for one in whole) == len(runs)
    assert {one.day for one in whole} == {from_ms(MIDNIGHT + n * DAY).date() for n in range(3)}


def test_they_say_what_the_runs_say() -> None:
    world, runs = World(), some(1_000, days=1)
    world.end(runs)
    (line,) = world.owner.stats(job="job-a")
    mine = [run for run in runs if run.job == "job-a"]
    assert line.outcomes == Counter(str(run.state) for run in mine)
    assert line.attempts == sum(run.attempt for run in mine)
    assert line.errors == {"ValueError": sum(run.failure is not None for run in mine)}
    late = sorted(run.lateness or 0 for run in mine)
    assert line.lateness is not None
    for share, found in ((0.5, line.lateness.p50), (0.95, line.lateness.p95), (0.99, line.lateness.p99)):
        exact = late[int(share * len(late))]
        assert found.total_seconds() * 1_000 == pytest.approx(exact, rel=0.15)
    (fires,) = world.owner.stats(schedule="a")
    assert (fires.schedule, fires.job) == ("a", None)
    assert fires.runs == sum(run.job == "job-a" and not run.ref.is_one_off for run in runs)
    assert {one.schedule for one in world.owner.stats(by="schedule")} == {"a", "b", "c"}


def test_failing_attempts_are_counted_by_version() -> None:
    world, runs = World(), some(300, days=1)
    due = MIDNIGHT + HOUR
    given: dict[str, Any] = {"app_version": "1.6", "started_at": due, "ended_at": due + 1}
    for number, (state, attempt) in enumerate(
        [("SUCCEEDED", 3), ("CANCELLED", 2), ("EXPIRED", 1), ("LOST", 1), ("CANCELLED", 0)]
    ):
        runs.append(a_run(due, ref=one_off_ref("acme", f"x{number}"), state=RunState(state), attempt=attempt, **given))
    world.end(runs)
    before = world.owner.stats(by="version")
    world.fold()
    world.clock.advance(timedelta(hours=5))
    world.fold()
    assert world.owner.stats(by="version", until=from_ms(world.clock())) == before
    assert {line.version: (line.attempts, line.failed_attempts) for line in before} == {
        version: (
            sum(run.attempt for run in runs if run.app_version == version),
            sum(run.attempt for run in runs if run.app_version == version and run.state is RunState.DEAD) + more,
        )
        for version, more in (("1.4", 0), ("1.5", 0), ("1.6", 2 + 1 + 1 + 1))
    }
    (line,) = world.owner.stats(version="1.6")
    assert (line.version, line.job, line.schedule, line.runs) == ("1.6", None, None, 5)
    assert line.failed_attempts == sum(each.failed_attempts for each in before if each.version == "1.6")


def test_a_run_without_a_version_adds_nothing_to_what_is_stored() -> None:
    runs = [replace(run, app_version=None) for run in some(200, days=1)]
    stats, column = Stats(), Stats()
    for run in runs:
        stats.add(entry_of(run, run.ended_at or 0, 1))
        column.add(replace(entry_of(run, run.ended_at or 0, 1), app_version="1.4"))
    assert stats.versions == {}
    (plain,), (versioned,) = encode_parts(stats), encode_parts(column)
    assert len(versioned) - len(plain) < 400  # a tally of one more name
    entries = [entry_of(run, run.ended_at or 0, 1) for run in runs]
    alike = [replace(entry, app_version="1.4") for entry in entries]
    assert len(encode(alike)) - len(encode(entries)) < 12  # a column of one value


def test_a_late_run_is_counted_when_it_is_folded() -> None:
    world, runs = World(), some(50)
    world.end(runs[1:])
    world.clock.advance(timedelta(days=2))
    world.fold()
    world.end(runs[:1])
    world.clock.advance(timedelta(hours=3))
    world.fold()
    assert sum(one.runs for one in world.owner.stats()) == len(runs)


def test_a_gap_counts_for_its_fires_and_a_run_that_never_began_has_no_times() -> None:
    world = World()
    world.end([a_run(MIDNIGHT, state=RunState.SKIPPED, ended_at=MIDNIGHT, skipped=7, skipped_until=MIDNIGHT + SECOND)])
    (line,) = world.owner.stats()
    assert (line.runs, line.outcomes, line.lateness, line.duration) == (7, {"SKIPPED": 7}, None, None)


def test_many_names_are_in_several_parts() -> None:
    stats = Stats()
    for run in some(50):
        for n in range(30):
            stats.jobs[f"{run.job}-{n}-{run.due}"] = tally(run)
    parts = encode_parts(stats)
    assert len(parts) == 2
    again = total(map(decode, parts))
    assert encode_parts(again) == parts
    assert again.jobs.keys() == stats.jobs.keys()


def tally(run: RunRow) -> Tally:
    return Tally(outcomes={str(run.state): 1}, attempts=run.attempt, lateness={3: 1}, duration={4: 1})


@pytest.mark.parametrize("ms", [1, 2, 3, 10, 99, 1_000, 12_345, 3_600_000])
def test_a_step_is_close_to_its_times(ms: int) -> None:
    assert time_of(step_of(ms)) == pytest.approx(ms, rel=0.1)
    assert step_of(0) == step_of(-5) == 0
    assert time_of(0) == 0
    assert quantile({}, 0.5) is None
    assert quantile({step_of(ms): 10}, 0.99) == time_of(step_of(ms))


@pytest.mark.parametrize(
    ("conditions", "problem"),
    [
        ({"by": "tag"}, "by='tag': is not what runs are counted by"),
        ({"job": "a", "schedule": "b"}, "by=.*name at most one"),
        ({"job": "a", "version": "b"}, "by=.*name at most one"),
        ({"version": "a b"}, "version='a b': is not a valid name of a version"),
        ({"job": "a b"}, "job='a b'"),
        ({"since": from_ms(MIDNIGHT), "until": from_ms(MIDNIGHT - DAY)}, "since=.*leaves no days"),
        ({"since": from_ms(MIDNIGHT - 400 * DAY), "until": from_ms(MIDNIGHT)}, "since=.*at most 366 days"),
    ],
    ids=str,
)
def test_bad_calls_are_refused(conditions: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        World().owner.stats(**conditions)


def test_days_before_1970_have_no_place_in_a_key_and_are_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []

    def daily(tenant: str, *, first: int, last: int, **_: Any) -> dict[int, Any]:
        asked.append((first, last))
        return {}

    monkeypatch.setattr(statistics, "daily", daily)
    owner = World().owner
    assert owner.stats(until=from_ms(-700 * DAY)) == []
    assert owner.stats(since=from_ms(-3 * DAY), until=from_ms(2 * DAY)) == []
    assert asked == [(0, 2)]


def test_without_a_history_there_are_none() -> None:
    world = World()
    owner = Scheduler("acme", settings=Settings(history=False), services=world.services, clock=world.clock)
    with pytest.raises(Misconfigured, match="QUARTERJACK_HISTORY=off"):
        owner.stats()


def test_a_line_has_its_day_and_name() -> None:
    world = World()
    world.end(some(1))
    (line,) = world.owner.stats()
    assert isinstance(line, DayStats)
    assert str(line.lateness).count("/") == 2


# By hour.


def ended(at: int, state: RunState = RunState.SUCCEEDED, name: str = "a") -> RunRow:
    return a_run(at, ref=fire_ref(f"acme/{name}", at), state=state, job="j", started_at=at, ended_at=at, attempt=1)


def by_hour(runs: list[RunRow], now: int, hours: int) -> dict[int, Counter[str]]:
    found: dict[int, Counter[str]] = {}
    for run in runs:
        assert run.ended_at is not None
        if run.ended_at // HOUR > now // HOUR - hours:
            found.setdefault(run.ended_at // HOUR, Counter())[str(run.state)] += 1
    return found


def shown(world: World, hours: int) -> dict[int, dict[str, int]]:
    answer = world.owner.hourly_outcomes(hours)
    assert len(answer.hours) == hours
    assert all(one.is_whole for one in answer.hours)
    return {to_ms(one.hour, "hour") // HOUR: dict(one.outcomes) for one in answer.hours if one.outcomes}


def test_hours_count_the_same_before_and_after_they_are_folded() -> None:
    world, runs = World(), some(600)
    world.end(runs)
    expected = by_hour(runs, world.clock(), 48)
    assert len(expected) > 20
    assert shown(world, 48) == expected
    world.fold()
    assert shown(world, 48) == expected
    later = [ended(world.clock() - 10 * MINUTE, RunState.DEAD, "late")]
    world.end(later)
    assert shown(world, 48) == by_hour([*runs, *later], world.clock(), 48)


def test_the_last_hour_is_the_last_sixty_minutes() -> None:
    world = World()
    now = world.clock()
    world.end([ended(now - 61 * MINUTE), ended(now - 59 * MINUTE, name="b"), ended(now - MINUTE, RunState.DEAD, "c")])
    answer = world.owner.hourly_outcomes(3)
    assert answer.last_hour == {"SUCCEEDED": 1, "DEAD": 1}
    assert answer.last_hour_is_whole
    assert answer.hours[0].hour == from_ms(now // HOUR * HOUR)


def test_no_run_is_no_count() -> None:
    answer = World().owner.hourly_outcomes()
    assert (len(answer.hours), answer.last_hour, answer.last_hour_is_whole) == (24, {}, True)


def test_folded_hours_cost_the_same_whatever_ran() -> None:
    units = []
    for count in (10, 1_000):
        world = World()
        world.end(some(count))
        world.fold()
        meter = ReadMeter()
        found = statistics.hourly(
            "acme",
            now=world.clock(),
            hours=48,
            services=world.services,
            meter=meter,
            budget=PageBudget(meter, world.clock),
        )
        assert sum(sum(one.values()) for one in found.hours.values()) > 0
        units.append(meter.units)
    assert units[0] == units[1] < 10


def test_hours_that_are_not_folded_are_read_until_the_bound_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    now = world.clock()
    for minute in range(1, 60, 7):  # an appended page each
        world.end([ended(now - minute * MINUTE - number, name=f"m{minute}-{number}") for number in range(20)])
    monkeypatch.setattr("quarterjack.history.read.MOST_UNITS", 0)
    answer = world.owner.hourly_outcomes(2)
    assert not answer.last_hour_is_whole
    assert not all(one.is_whole for one in answer.hours)
    assert sum(answer.last_hour.values()) < 180


@pytest.mark.parametrize("hours", [0, 169, 1.5, True, "24", None])
def test_a_number_of_hours_that_cannot_be_is_refused(hours: Any) -> None:
    with pytest.raises(InvalidInput, match="hours"):
        World().owner.hourly_outcomes(hours)


def test_without_a_history_nothing_is_counted() -> None:
    world = World()
    owner = Scheduler("acme", settings=Settings(history=False), services=world.services, clock=world.clock)
    with pytest.raises(Misconfigured):
        owner.hourly_outcomes()
