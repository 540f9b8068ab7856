"""The oracle: what it calls missing, double, unexpected; and that it is not fooled by retries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from quarterjack.domain.run import RunState
from quarterjack.domain.times import to_ms
from quarterjack.local.processes import Event
from quarterjack.local.session.status import summary
from quarterjack.local.session.verifier import LatenessFigures, StartLog, VerifierReport, WatchedSchedule, verify
from quarterjack.sdk.views import Run

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def run_id(offset: float, name: str = "check") -> str:
    return f"acme/{name}#{to_ms(NOON + seconds(offset), 'due'):015d}"


def run(offset: float, *, name: str = "check", late: float | None = 0.5, state: str = "SUCCEEDED") -> Run:
    due = NOON + seconds(offset)
    return Run(
        id=run_id(offset, name),
        tenant="acme",
        schedule=name,
        revision=1,
        state=RunState(state),
        job="demo",
        due=due,
        not_before=due,
        started_at=None if late is None else due + seconds(late),
        ended_at=None,
        attempt=1,
        fence=1,
        reason=None,
        error_type=None,
        error=None,
    )


def started(offset: float, name: str = "check") -> Event:
    return {"event": "run.started", "run_id": run_id(offset, name), "attempt": 1, "lateness_ms": 500}


def ended(offset: float, state: str = "SUCCEEDED") -> Event:
    return {"event": "run.ended", "run_id": run_id(offset), "state": state}


def watched(name: str = "check", start: str = "prompt") -> WatchedSchedule:
    expression = "rate(10 seconds, from=2026-01-01T00:00:00Z)"
    return WatchedSchedule(tenant="acme", name=name, expression=expression, timezone="UTC", start=start, since=NOON)


def verdict(runs: Sequence[Run], events: Sequence[Event], *, upto: float = 30) -> VerifierReport:
    starts = StartLog()
    for event in events:
        starts.note("worker-1", event)
    return verify([watched()], {"check": runs}, starts, NOON + seconds(upto))


def all_of(*offsets: float) -> tuple[list[Run], list[Event]]:
    return [run(offset) for offset in offsets], [started(offset) for offset in offsets]


def test_every_fire_once_is_clean() -> None:
    found = verdict(*all_of(10, 20, 30))
    assert found.clean
    assert (found.expected, found.missing, found.double, found.unexpected) == (3, [], [], [])
    assert found.states == {"SUCCEEDED": 3}


def test_the_window_is_open_below_and_closed_above() -> None:
    runs, events = all_of(0, 10, 20, 30, 40)
    found = verdict(runs, events)
    assert found.clean
    assert (found.expected, found.caught_up) == (3, 1)
    assert list(found.lateness) == ["prompt"], "what is due later is not somebody else's"


def test_a_fire_without_a_run_is_missing() -> None:
    found = verdict(*all_of(10, 30))
    assert found.missing == [run_id(20)]
    assert not found.clean


@pytest.mark.parametrize("witness", ["ledger", "worker"])
def test_one_witness_is_not_enough(witness: str) -> None:
    runs, events = all_of(10, 20, 30)
    if witness == "ledger":
        events = events[:-1]
    else:
        runs[-1] = run(30, late=None, state="QUEUED")
    assert verdict(runs, events).missing == [run_id(30)]


def test_logs_without_room_for_events_make_no_fire_missing_or_double() -> None:
    """On a full disk five fires of ten that had run were said to be missing."""
    runs, events = all_of(10, 20, 30)
    starts = StartLog()
    for event in (*events[:2], started(10)):
        starts.note("worker", event)
    whole, torn = (
        verify([watched()], {"check": runs}, starts, NOON + seconds(30), logs_whole=whole) for whole in (True, False)
    )
    assert (len(whole.missing), len(whole.double)) != (0, 0)
    assert (torn.missing, torn.double, torn.clean) == ([], [], True)
    text = summary(torn, 30)
    assert "0 missing, double not known" in text
    assert "these fires are compared with the ledger alone" in text
    assert "compared with the ledger alone" not in summary(whole, 30)


def test_a_second_start_is_double() -> None:
    runs, events = all_of(10, 20, 30)
    found = verdict(runs, [*events, started(20)])
    assert found.double == [run_id(20)]
    assert not found.clean


@pytest.mark.parametrize(
    "reason",
    [
        ended(20, "RETRYING"),
        ended(20, "CONTINUED"),
        ended(20, "PARKED"),
        {"event": "run.released", "run_id": run_id(20)},
        {"event": "lease.lost", "run_id": run_id(20)},
    ],
    ids=["retry", "slice", "wait", "release", "lost lease"],
)
def test_a_start_after_a_failed_or_given_up_attempt_is_not(reason: Event) -> None:
    runs, events = all_of(10, 20, 30)
    assert verdict(runs, [*events, reason, started(20)]).clean
    assert verdict(runs, [*events, reason, started(20), started(20)]).double == [run_id(20)]


def test_a_run_that_its_worker_gave_back_waits() -> None:
    runs, events = all_of(10, 20)
    assert verdict(runs, events).states == {"SUCCEEDED": 2}
    starts = StartLog()
    starts.note("worker", started(20))
    starts.note("worker", {"event": "run.ended", "run_id": run_id(20), "state": None})
    assert starts.states == {run_id(20): "QUEUED"}


def test_a_start_after_the_crash_of_its_worker_is_not_either() -> None:
    starts = StartLog()
    for process, event in (("worker-1", started(10)), ("worker-2", started(20)), ("worker-1", started(30))):
        starts.note(process, event)
    starts.note("worker-1", ended(30))
    starts.crashed("worker-1")
    starts.note("worker-2", started(10))
    assert starts.twice() == []
    starts.note("worker-1", started(20))
    starts.note("worker-1", started(30))
    assert starts.twice() == [run_id(20), run_id(30)]


def test_a_run_of_an_instant_that_is_no_fire_is_unexpected() -> None:
    runs, events = all_of(10, 20, 25, 30)
    found = verdict(runs, events)
    assert found.unexpected == [run_id(25)]
    assert not found.clean


def test_more_fires_than_one_computation_gives() -> None:
    assert len(list(watched().expected(NOON + seconds(20_000)))) == 2_000


def test_a_schedule_that_ends_expects_no_more() -> None:
    once = WatchedSchedule(
        tenant="acme", name="once", expression="at(2026-06-01T12:00:10)", timezone="UTC", start="prompt", since=NOON
    )
    assert list(once.expected(NOON + seconds(100))) == [run_id(10, "once")]


def test_what_is_over_is_known_from_any_witness_of_it() -> None:
    starts = StartLog()
    for event in (
        ended(10),
        ended(20, "RETRYING"),
        {"event": "run.dead", "run_id": run_id(30)},
        {"event": "tick.done"},
    ):
        starts.note("worker-1", event)
    assert starts.over == {run_id(10), run_id(30)}


def test_a_one_off_that_ended_otherwise_than_it_should_is_astray() -> None:
    over = replace(run(5, name="~x", state="DEAD"), ended_at=NOON)
    waiting = run(6, name="~y", state="RETRYING")
    found = verify([], {}, StartLog(), NOON, one_offs=[(over, "SUCCEEDED"), (waiting, "SUCCEEDED"), (over, "DEAD")])
    assert found.astray == [over.id]
    assert not found.clean


def test_what_is_not_watched_is_counted_from_the_logs() -> None:
    runs, events = all_of(10, 20, 30)
    own = {"event": "run.started", "run_id": "acme/~mine#once", "attempt": 1, "lateness_ms": 20}
    done = {"event": "run.ended", "run_id": "acme/~mine#once", "state": "RETRYING"}
    again = {**own, "attempt": 2, "lateness_ms": 900}
    found = verdict(runs, [*events, own, done, again, started(10, "another")])
    assert found.clean
    assert found.states == {"SUCCEEDED": 3, "RUNNING": 2}
    assert found.lateness["other"] == LatenessFigures(count=2, p50=0.02, p99=0.5, most=0.5)


def test_percentiles_are_ranks() -> None:
    assert LatenessFigures.of([]) is None
    assert LatenessFigures.of([seconds(1)]) == LatenessFigures(count=1, p50=1, p99=1, most=1)
    assert LatenessFigures.of([seconds(n) for n in range(100, 0, -1)]) == LatenessFigures(
        count=100, p50=50, p99=99, most=100
    )


def test_the_summary_says_it_all() -> None:
    runs = {"check": [run(10), run(20, late=2.25)], "sample": [run(10, name="sample", late=0.012)]}
    events = [started(10), started(20), started(20), started(10, "sample"), started(-10)]
    starts = StartLog()
    for event in events:
        starts.note("worker-1", event)
    schedules = [watched(), watched("sample", "exact")]
    one_off = run(5, name="~x", state="DEAD")
    found = verify(schedules, runs, starts, NOON + seconds(20), one_offs=[(one_off, "DEAD")])
    assert summary(found, 21.4).splitlines() == [
        "21 s: 4 fires of the examples were due, 3 started; 1 missing, 1 double",
        "runs: DEAD 1, SUCCEEDED 3",
        "lateness, prompt: p50 500 ms, p99 2.25 s, max 2.25 s (2 runs)",
        "lateness, exact: p50 12 ms, p99 12 ms, max 12 ms (1 runs)",
        "caught up: 1 runs that were due before this session",
        f"missing: {run_id(20, 'sample')}",
        f"double: {run_id(20)}",
    ]


def test_a_long_list_is_cut() -> None:
    text = summary(verdict([], [], upto=100), 100)
    assert text.count("\nmissing: ") == 6
    assert text.endswith("missing: … and 5 more")


def test_states_of_runs_without_a_logged_end_are_those_of_the_ledger() -> None:
    starts, asked = StartLog(), list[str]()
    for event in (started(10), ended(10), started(20), ended(20, "PARKED"), started(30)):
        starts.note("worker-1", event)

    def state_of(run_id: str) -> str | None:
        asked.append(run_id)
        return "CANCELLED" if run_id == run_id_20 else None

    run_id_20 = run_id(20)
    starts.look_up(state_of)
    assert starts.states == {run_id(10): "SUCCEEDED", run_id_20: "CANCELLED", run_id(30): "RUNNING"}
    assert asked == [run_id_20, run_id(30)]
