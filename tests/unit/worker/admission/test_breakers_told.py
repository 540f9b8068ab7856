"""That a circuit breaker was open is told and remembered: by events, by the ends of runs, by notices, by ``why``, and by no late start."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from quarterjack.domain.message import Wait, decode
from quarterjack.domain.notice import RECORD
from quarterjack.domain.run import RunState
from quarterjack.domain.times import MINUTE, SECOND, from_ms
from quarterjack.fires.breakers import hinted, read_breakers
from quarterjack.state.tenants.breaker import ALL, Hint
from quarterjack.testing.process import Hand
from quarterjack.why.answer import Cause, Verdict

from tests.support.open_breakers import open_breaker_of_all
from tests.support.scenes.failing import Failing
from tests.support.scenes.world import NOON, Faults, World, fails

TOPIC = "arn:aws:sns:eu-west-1:123456789012:failures"


def told(world: Failing) -> list[tuple[str, str, object]]:
    """The events about breakers: type, job, and who closed it; each sent once."""
    events = world.follow()
    assert len({event.id for event in events}) == len(events)
    return [(event.type, event.job, event.data["actor"]) for event in events]


# Events.


def test_an_opening_and_a_closing_are_one_event_each_whoever_sees_them() -> None:
    """Four workers count and ask, two tickers look."""
    world = Failing(schedules=10)
    world.minutes(30)
    assert told(world) == [("breaker.opened", "shaky", None)]
    opened = read_breakers("acme", world.services)[0].jobs["shaky"].opened_at or 0
    document = json.loads(world.follow()[0].encode())
    assert document["type"] == "breaker.opened"
    assert document["timestamp"] == document["data"]["opened_at"]
    assert document["data"] == {
        "tenant": "acme",
        "job": "shaky",
        "opened_at": from_ms(opened).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
    }
    world.broken = False
    world.minutes(30)
    assert told(world)[1:] == [("breaker.closed", "shaky", None)]
    last = world.follow()[-1]
    assert (last.data["opened_at"], last.at) == (document["data"]["opened_at"], last.data["closed_at"])


def test_who_closes_it_by_hand_is_told() -> None:
    world = Failing(schedules=10)
    world.minutes(8)
    open_breaker_of_all("acme", world.services, world.clock())
    world.tenants.acting_as("ann").reset_breaker("acme", "shaky")
    assert told(world)[2:] == [("breaker.closed", "shaky", "app:ann")]
    world.tenants.acting_as("ben").reset_breaker("acme")
    assert told(world)[3:] == [("breaker.closed", ALL, "app:ben")]


def test_an_opening_whose_answer_is_lost_is_told_once() -> None:
    world, dies = Failing(schedules=10), iter([fails])

    def after() -> None:
        if read_breakers("acme", world.services)[0].open and (dead := next(dies, None)):
            dead()

    faults = Faults().at("write_record", after=after, times=None)
    world.hands = [Hand(worker=world.worker(faults))]
    world.minutes(10)
    assert next(dies, None) is None, "an answer was lost"
    assert [kind for kind, _, _ in told(world)] == ["breaker.opened"]


def test_of_a_tenant_without_breakers_nothing_is_told_or_written() -> None:
    world = Failing(schedules=10, limits={})
    world.minutes(10)
    assert world.attempts
    assert (told(world), read_breakers("acme", world.services)[1]) == ([], 0)
    assert list(world.services.records.listed("acme/~breakers", "~")) == []


def test_an_event_is_a_record_that_leaves_with_the_retention() -> None:
    world = Failing(schedules=10)
    world.minutes(8)
    records = list(world.services.records.listed("acme/~breakers", RECORD))
    assert len(records) == 1
    assert all(NOON < (record.expires or 0) - world.retention <= world.clock() for record in records)


# What is remembered.


def test_the_last_times_are_remembered_and_no_more() -> None:
    world = Failing(schedules=10)
    world.minutes(8)
    open_breaker_of_all("acme", world.services, world.clock())
    (one, other) = read_breakers("acme", world.services)[0].periods
    assert {one.job, other.job} == {ALL, "shaky"}
    assert {one.until, other.until} == {None}
    world.tenants.acting_as("ann").reset_breaker("acme")
    after = read_breakers("acme", world.services)[0]
    assert [(period.until, period.actor) for period in after.periods] == [(world.clock(), "app:ann")] * 2
    assert (after.open, after.jobs) == ([], {})


# Runs whose deadline passed, incidents, why.


def test_a_run_that_expires_while_it_is_held_names_the_breaker() -> None:
    world = Failing(schedules=10)
    world.minutes(7)
    late = world.scheduler.submit("shaky", deadline=600)
    world.minutes(14)
    found = world.scheduler.get_run(late.id)
    reason = "deadline passed: held by the circuit breaker of job shaky"
    assert (found.state, found.reason) == (RunState.EXPIRED, reason)
    world.tenants.reset_breaker("acme")
    answer = world.scheduler.why_run(late.id)
    assert answer.verdict is Verdict.EXPIRED
    assert answer.causes[:2] == (Cause.DEADLINE, Cause.BREAKER)
    assert Cause.QUEUE not in answer.causes


def test_a_fire_that_expires_after_it_was_held_in_the_agenda_names_the_breaker_to_its_owner() -> None:
    world = Failing(schedules=10)
    options: dict[str, Any] = {"deadline": 60, "on_failure": TOPIC, "catch_up": "all"}
    world.minutes(8)
    world.scheduler.create_schedule("strict", "shaky", "* * * * *", **options)
    world.minutes(10)
    world.tenants.reset_breaker("acme")
    world.broken = False
    world.minutes(3)
    runs = [run for run in world.memory.runs("acme/strict") if run.state is RunState.EXPIRED]
    assert len(runs) >= 5
    assert {run.reason for run in runs} == {"deadline passed: held by the circuit breaker of job shaky"}
    notice = next(one.notice for one in world.memory.published)
    assert notice.schedule == "strict"
    assert "(deadline passed: held by the circuit breaker of" in notice.text


def test_a_run_that_expires_for_another_reason_names_none() -> None:
    world = Failing(schedules=10)
    world.minutes(4)
    late = world.scheduler.submit("sound", deadline=5)
    world.wait(30)
    world.minutes(5)
    assert world.scheduler.get_run(late.id).reason == "deadline passed"


def test_a_run_that_was_held_expires_although_breakers_cannot_be_read() -> None:
    world = Failing(schedules=10)
    world.minutes(7)
    late = world.scheduler.submit("shaky", deadline=30)
    world.minutes(1)
    faults = Faults().at("record", before=fails, times=None)
    world.hands = [Hand(worker=world.worker(faults))]
    world.minutes(6)
    assert world.scheduler.get_run(late.id).reason == "deadline passed: held by a circuit breaker"


@pytest.mark.parametrize("is_over", [False, True])
def test_a_success_that_is_missing_because_of_a_breaker_says_so(*, is_over: bool) -> None:
    world = Failing(schedules=10)
    world.minutes(8)
    world.scheduler.create_schedule(
        "watched", "shaky", "0 * * * *", expect_success_within=20 * 60, on_failure=TOPIC, catch_up="none"
    )
    world.minutes(10)
    if is_over:
        world.tenants.acting_as("ann").reset_breaker("acme", "shaky")
    world.minutes(12)
    notice = next(one.notice for one in world.memory.published if one.notice.schedule == "watched")
    assert notice.kind == "no_success"
    assert "Its runs were held: the circuit breaker of job shaky was open from 2026-05-04T12:0" in notice.text
    assert (notice.reason or "").count("the circuit breaker of job shaky was open from") == 1 + is_over
    assert ("to 2026-05-04T12:18:00.000Z" in notice.text) is is_over
    assert f"{notice.reason}." in notice.text


def test_a_missing_success_is_told_without_a_breaker_where_none_was_open_or_known() -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "0 0 1 1 *", expect_success_within=20 * 60, on_failure=TOPIC)
    world.services = world.process(Faults().at("record", before=fails, times=None))
    world.live(25 * 60)
    assert (world.scheduler.get_schedule("s").incident or "").startswith("no_success"), "it begins all the same"
    world.services = world.process()
    world.live(120)
    (published,) = world.memory.published
    assert (published.notice.kind, published.notice.reason) == ("no_success", None)
    assert published.notice.text.endswith("Z.")


def test_why_names_the_breaker_after_it_has_closed() -> None:
    world = Failing(schedules=10, options={"catch_up": "all", "catch_up_window": 7 * 3600})
    world.minutes(40)
    waited = world.scheduler.submit("shaky")
    world.minutes(10)
    world.broken = False
    world.minutes(30)
    assert world.open() == []
    held = next(run for run in world.memory.runs("acme/s3") if run.due == NOON + 30 * MINUTE)
    answer = world.scheduler.why_run(str(held.ref))
    assert (answer.verdict, answer.causes) == (Verdict.RAN_LATE, (Cause.BREAKER,)), str(answer)
    assert "its fire was held in the agenda" in str(answer)
    assert "The circuit breaker of job shaky was open from 2026-05-04 12:0" in str(answer)
    answer = world.scheduler.why_run(waited.id)
    assert (answer.verdict, answer.causes) == (Verdict.RAN_LATE, (Cause.BREAKER,)), str(answer)


def test_why_names_the_breaker_of_a_fire_that_waits_or_was_passed_over() -> None:
    world = Failing(schedules=10, options={"catch_up": "latest"})
    world.minutes(40)
    at = NOON + 30 * MINUTE
    unclaimed = next(n for n in range(10) if all(run.due < at for run in world.memory.runs(f"acme/s{n}")))
    answer = world.scheduler.why(f"s{unclaimed}", from_ms(at))
    assert (answer.verdict, answer.causes) == (Verdict.NOT_CLAIMED, (Cause.BREAKER,)), str(answer)
    world.broken = False
    world.minutes(30)
    answer = world.scheduler.why(f"s{unclaimed}", from_ms(at))
    assert (answer.verdict, answer.causes) == (Verdict.MISSED, (Cause.CATCH_UP, Cause.BREAKER)), str(answer)


# Late on purpose.


def test_runs_that_a_breaker_held_are_not_late_starts() -> None:
    """Neither those that waited in the queue nor those that the ticker left in the agenda; those in time count as ever."""
    world = Failing(schedules=10, options={"catch_up": "all"})
    world.minutes(30)
    world.broken = False
    world.minutes(30)
    assert world.open() == []
    late = [one for one in world.done if one.start_lag is not None and one.start_lag > 2 * SECOND]
    assert late == []
    starts = Counter(start.run_id for start in world.started)
    began_late = [run for run in world.memory.runs() if str(run.ref) in starts and (run.lateness or 0) > 2 * SECOND]
    assert len(began_late) > 100, "they began late, and are left out"
    assert sum(one.start_lag is not None for one in world.done) >= 10 * (5 + 10), "the others are not"


def test_what_is_late_after_an_outage_of_the_ticker_counts() -> None:
    world = Failing(schedules=10)
    world.broken = False
    world.minutes(8, tickers=0)
    world.minutes(1)
    assert [one for one in world.done if (one.start_lag or 0) > MINUTE]


def test_fires_that_come_late_minutes_after_the_closing_are_late_on_purpose() -> None:
    """The ticks after it may be cut, and several invocations share one: each must see that the breaker was open."""
    world = Failing(schedules=10)
    world.minutes(20)
    world.tenants.reset_breaker("acme")
    first = world.tick(services=world.process(Faults().at("claim", before=fails, times=None)))
    assert (first.handled.messages.sent, hinted(Hint.OPEN, world.services) != []) == (0, True)
    world.wait(60)
    second = world.tick()
    assert second.handled.messages.sent >= 10
    assert second.handled.messages.sent_late == 0
    bodies = [decode(message.encode()) for message in world.memory.messages()]
    assert any(Wait.BREAKER in one.waited for one in bodies)
    world.wait(1000)
    world.tick()
    assert hinted(Hint.OPEN, world.services) == []


# The limit.


def test_a_breaker_of_a_limit_that_was_taken_away_is_closed() -> None:
    """No worker asks it for probes any more, so nothing else would close it."""
    world = Failing(schedules=10)
    world.minutes(20)
    world.tenants.set("acme", limits={"breaker_percent": None})
    world.broken = False
    world.minutes(3)
    assert world.open() == []
    since = world.clock()
    world.minutes(5)
    assert world.by_minute(since)[1:] == [10] * 4
    assert told(world) == [("breaker.opened", "shaky", None), ("breaker.closed", "shaky", None)]
    late = next(run for run in world.memory.runs("acme/s0") if run.created_at - run.due > 5 * MINUTE)
    answer = world.scheduler.why("s0", at=from_ms(late.due))
    assert Cause.BREAKER in answer.causes, str(answer)
    assert Cause.TICKER not in answer.causes
