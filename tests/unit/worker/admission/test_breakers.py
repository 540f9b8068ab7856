"""A tenant's circuit breakers: jobs that fail are held but for probes, and come back by a ramp; others go on."""

from __future__ import annotations

import itertools
import logging
from collections import Counter
from dataclasses import replace

import pytest
from quarterjack import Context, Retry, Scheduler
from quarterjack.domain.audit import AuditAct
from quarterjack.domain.run import RunState
from quarterjack.domain.times import MINUTE, SECOND, from_ms
from quarterjack.errors import NotFound
from quarterjack.fires.breakers import change_breakers, hinted, read_breakers
from quarterjack.state.tenants.breaker import ALL, Breaker, Hint
from quarterjack.testing.process import Hand
from quarterjack.worker.breakers import BreakerBook, Passage

from tests.support.open_breakers import open_breaker, open_breaker_of_all
from tests.support.parts import in_rotation
from tests.support.scenes.failing import Failing
from tests.support.scenes.world import NOON, Faults, fails


def said(caplog: pytest.LogCaptureFixture, event: str) -> list[logging.LogRecord]:
    return [line for line in caplog.records if line.getMessage() == event]


@in_rotation(of=6)
@pytest.mark.parametrize("hours", [1, pytest.param(6, marks=pytest.mark.proof)])
def test_a_job_that_fails_for_hours_is_probed_once_a_minute_and_comes_back_by_the_ramp(
    hours: int, caplog: pytest.LogCaptureFixture
) -> None:
    world = Failing(options={"catch_up": "all", "catch_up_window": 7 * 3600})
    began = world.clock()
    with caplog.at_level(logging.WARNING):
        world.minutes(6)
    assert world.open() == ["shaky"]
    opened = read_breakers("acme", world.services)[0].jobs["shaky"].opened_at or 0
    assert opened - began <= 6 * MINUTE, "within the minute after the fifth bad one"
    assert [line.job for line in said(caplog, "breaker.opened")] == ["shaky"]  # type: ignore[attr-defined]
    world.minutes(1)
    held = world.clock()
    messages = len(world.memory.messages())
    world.minutes(hours * 60)
    assert max(world.by_minute(held)) <= 1, "at most one probe a minute, by four workers and two tickers"
    assert sum(world.by_minute(held)) >= hours * 60 * 0.4
    assert len(world.memory.messages()) <= messages + 10, "fires wait in the agenda, not in the queue"
    world.broken = False
    well = world.clock()
    world.minutes(45)
    ramp = world.by_minute(well)
    assert ramp[0] <= 2
    sums = list(itertools.accumulate(ramp))[:12]
    assert all(total < 2 ** (minute + 2) for minute, total in enumerate(sums)), "twice as many each minute, and no more"
    assert sums[-1] > 60 * 12, "and more than come new"
    assert world.open() == []
    world.tick()
    assert hinted(Hint.OPEN, world.services) == []
    world.minutes(15)
    for n in range(world.schedules):
        runs = world.memory.runs(f"acme/s{n}")
        assert [(run.due - NOON) // MINUTE for run in runs if run.due <= world.clock()] == list(
            range(1, 1 + sum(run.due <= world.clock() for run in runs))
        ), "none is lost"
        assert {run.state for run in runs if well < run.due <= world.clock() - MINUTE} == {RunState.SUCCEEDED}
    starts = Counter((start.run_id, start.attempt) for start in world.started)
    assert max(starts.values()) == 1


def test_a_sound_job_and_another_tenant_go_on(caplog: pytest.LogCaptureFixture) -> None:
    """Most attempts of the tenant are those of the sound job, so that only the failing job is held."""
    world = Failing(schedules=10)
    for n in range(20):
        world.scheduler.create_schedule(f"well{n}", "sound", "* * * * *")
    other = Scheduler("other", jobs=world.jobs, services=world.services, clock=world.clock)
    other.create_schedule("s", "shaky", "* * * * *")
    with caplog.at_level(logging.WARNING):
        world.minutes(10)
    assert world.open() == ["shaky"]
    assert read_breakers("other", world.services) == (read_breakers("nobody", world.services)[0], 0), "it has no limit"
    since = world.clock()
    world.minutes(5)
    assert world.by_minute(since, "sound") == [20] * 5
    assert len(world.memory.runs("other/s")) >= 15
    assert {run.state for run in world.memory.runs("other/s") if run.due < since} == {RunState.DEAD}


def test_a_sound_job_of_few_runs_goes_on_beside_a_bad_one_of_many() -> None:
    """Nearly all attempts of the tenant are those of the bad job: still the others are not held for it."""
    world = Failing(schedules=12)
    world.scheduler.create_schedule("well", "sound", "* * * * *")
    world.minutes(12)
    assert world.open() == ["shaky"]
    assert world.by_minute(NOON + MINUTE, "sound") == [1] * 11


@pytest.mark.parametrize("ticks", [True, False])
def test_a_breaker_for_which_nothing_waits_any_more_closes(*, ticks: bool) -> None:
    """Its schedules were paused or deleted. Hours later it holds no other job. Without ticks the first run that asks closes it."""
    world = Failing(schedules=6)
    world.minutes(7)
    open_breaker_of_all("acme", world.services, world.clock())
    assert world.open() == [ALL, "shaky"]
    for n in range(world.schedules):
        if n % 2:
            world.scheduler.delete_schedule(f"s{n}")
        else:
            world.scheduler.pause_schedule(f"s{n}")
    if ticks:
        world.minutes(4)
        assert world.open() == [ALL, "shaky"], "runs that it held may come back for minutes"
        world.minutes(17)
        assert world.open() == []
        world.minutes(10)
        assert hinted(Hint.OPEN, world.services) == []
    world.wait(12 * 3600)
    since = world.clock()
    for _ in range(60):
        world.scheduler.submit("sound")
    world.minutes(1)
    assert world.by_minute(since, "sound") == [60]
    assert ALL not in world.open()


def test_a_tick_after_an_outage_of_the_ticker_closes_no_breaker_of_fires_that_wait() -> None:
    world = Failing(schedules=20, options={"catch_up_window": 7200})
    world.minutes(10)
    world.minutes(30, tickers=0)
    began = world.clock()
    world.minutes(3)
    assert world.open() == ["shaky"]
    assert max(world.by_minute(began)) <= 1


def test_what_was_held_follows_the_catch_up_policy() -> None:
    """``latest``: of what was held an hour, one fire of each schedule runs, late."""
    world = Failing(schedules=10, options={"catch_up": "latest"})
    world.minutes(70)
    assert world.open() == ["shaky"]
    world.broken = False
    world.minutes(30)
    assert world.open() == []
    runs = [run for n in range(10) for run in world.memory.runs(f"acme/s{n}")]
    states = Counter(run.state for run in runs if NOON + 12 * MINUTE < run.due < NOON + 65 * MINUTE)
    assert states[RunState.SKIPPED] >= 9, "one row for all that was passed over"
    assert states[RunState.SUCCEEDED] <= 15


def test_a_submission_waits_in_the_queue_and_its_deadline_counts() -> None:
    world = Failing()
    world.minutes(7)
    late = world.scheduler.submit("shaky", deadline=600)
    patient = world.scheduler.submit("shaky")
    world.minutes(14)
    assert world.scheduler.get_run(late.id).state is RunState.EXPIRED
    assert world.scheduler.get_run(patient.id).state in (RunState.QUEUED, RunState.DEAD)
    world.broken = False
    world.minutes(30)
    assert world.scheduler.get_run(patient.id).state in (RunState.SUCCEEDED, RunState.DEAD)


def test_fewer_failures_open_nothing() -> None:
    """Nine in ten are needed, and twenty attempts within five minutes."""
    world = Failing(schedules=3)
    world.minutes(15)
    assert len(world.attempts) == 3 * 14
    assert world.open() == [], "fifteen attempts in five minutes"
    world = Failing(schedules=8)
    for n in range(2):
        world.scheduler.create_schedule(f"well{n}", "shaky", "* * * * *", payload="well")
    real, world.broken = world._shaky, False

    def some(ctx: Context, payload: object) -> None:
        world.broken = payload != "well"
        real(ctx, payload)

    world.jobs = type(world.jobs)()
    world.jobs.job("shaky", retry=Retry(max_attempts=1))(some)
    world.hands = [Hand(worker=world.worker(name=f"v{n}")) for n in range(4)]
    world.minutes(15)
    assert world.open() == [], "eight in ten"


def test_a_tenant_without_the_limit_costs_no_request_more() -> None:
    with_limit, without = Failing(schedules=5), Failing(schedules=5, limits={})
    calls = []
    for world in (with_limit, without):
        faults = Faults()
        world.hands = [Hand(worker=world.worker(faults))]
        world.minutes(4)
        calls.append([detail for _, detail in faults.calls if "~breakers" in str(detail)])
    assert calls[1] == []
    assert calls[0], "the test sees such calls"


def test_a_sound_tenant_with_the_limit_costs_no_write_and_a_read_where_it_runs() -> None:
    world = Failing(schedules=5)
    world.broken = False
    faults = Faults()
    world.hands = [Hand(worker=world.worker(faults))]
    world.minutes(10)
    assert len(world.attempts) == 5 * 9
    assert read_breakers("acme", world.services)[1] == 0
    assert sum("~breakers" in str(detail) for _, detail in faults.calls) == 9, "one for the five runs of each minute"


def test_writes_of_counting_stay_far_below_those_of_the_runs() -> None:
    """A process writes what it counted once in ten seconds: here 4 processes and 600 attempts a minute that fail."""
    world = Failing(schedules=600)
    world.minutes(4)
    assert world.open() == []
    assert 0 < read_breakers("acme", world.services)[1] <= 0.1 * len(world.attempts)


@pytest.mark.parametrize("verb", ["record", "write_record"])
def test_breakers_that_do_not_answer_stop_nobody(verb: str, caplog: pytest.LogCaptureFixture) -> None:
    world = Failing(schedules=10)
    faults = Faults().at(verb, before=fails, times=None)
    world.hands = [Hand(worker=world.worker(faults))]
    with caplog.at_level(logging.WARNING):
        world.minutes(10)
    assert len(world.attempts) == 10 * 9
    assert said(caplog, "breaker.unread") or said(caplog, "breaker.not_counted")


def test_a_ticker_that_cannot_read_them_holds_nothing(caplog: pytest.LogCaptureFixture) -> None:
    world = Failing()
    world.minutes(20)
    before = len(world.memory.runs())
    world.services = world.process(Faults().at("records", before=fails, times=None))
    with caplog.at_level(logging.WARNING):
        world.tick(world.services)
    assert said(caplog, "breakers.not_looked_at")
    assert len(world.memory.runs()) >= before + 50


def test_a_probe_whose_worker_dies_costs_a_minute() -> None:
    """Nobody reports what came of it; the next probe comes a minute later all the same."""
    world = Failing()
    world.minutes(8)
    now, book = world.clock(), world.hands[1].worker.breakers
    granted = [book.ask("acme", "shaky", world.services, now + n * 10 * SECOND) is Passage.PROBE for n in range(31)]
    assert 4 <= sum(granted) <= 6, "one a minute for five minutes, although none of them ends"


def test_of_two_workers_that_ask_in_the_same_millisecond_one_has_the_probe() -> None:
    world, asked = Failing(schedules=0), list[Passage]()
    now = world.clock()
    open_breaker("acme", "shaky", world.services, now)
    later = now + MINUTE

    def another_asks() -> None:
        asked.append(BreakerBook().ask("acme", "shaky", world.services, later))

    services = world.process(Faults().at("write_record", before=another_asks))
    asked.append(BreakerBook().ask("acme", "shaky", services, later))
    assert asked == [Passage.PROBE, Passage.HELD]


def test_a_probe_of_one_breaker_is_none_of_another() -> None:
    """A job had one of the breaker of all jobs when its own opened, which has given none."""
    world, book = Failing(schedules=0), BreakerBook()
    now = world.clock()

    def opens(name: str, at: int) -> None:
        breaker = Breaker(opened_at=at, since=at, taken=1)
        change_breakers("acme", lambda one: replace(one, jobs={**one.jobs, name: breaker}), world.services)

    opens(ALL, now)
    now += MINUTE
    assert book.ask("acme", "shaky", world.services, now) is Passage.PROBE
    book.give_back("acme", "shaky")
    assert book.ask("acme", "shaky", world.services, now + SECOND) is Passage.PROBE
    book.give_back("acme", "shaky")
    opens("shaky", now + SECOND)
    assert book.ask("acme", "shaky", world.services, now + 10 * SECOND) is Passage.HELD
    assert book.ask("acme", "other", world.services, now + 10 * SECOND) is Passage.HELD, (
        "the probe was of the other job"
    )


def test_while_a_thread_reads_the_others_go_by_no_old_knowledge() -> None:
    """A process that begins, or has not asked for long, reads in each of its threads until one of them knows."""
    world, meanwhile = Failing(schedules=0), list[Passage]()
    now = world.clock()
    open_breaker("acme", "shaky", world.services, now)
    book, others = BreakerBook(), world.process(Faults())

    def another_asks() -> None:
        meanwhile.append(book.ask("acme", "shaky", others, now))

    reads = world.process(Faults().at("record", before=another_asks, times=1))
    assert book.ask("acme", "shaky", reads, now) is Passage.HELD
    assert meanwhile == [Passage.HELD]


def test_it_is_closed_by_hand_and_the_audit_says_who() -> None:
    world = Failing()
    world.minutes(8)
    tenants = world.tenants.acting_as("ann")
    with pytest.raises(NotFound, match="job='other': tenant 'acme' has no open breaker"):
        tenants.reset_breaker("acme", "other")
    assert {view.job: view.is_open for view in tenants.breakers("acme")} == {"shaky": True}
    assert tenants.reset_breaker("acme") == ["shaky"]
    assert (tenants.breakers("acme"), tenants.reset_breaker("acme")) == ([], [])
    (line,) = [line for line in world.memory.audit_entries() if line.act is AuditAct.RESET_BREAKER]
    assert (line.target, line.detail["jobs"]) == ("acme", ["shaky"])
    since = world.clock()
    world.minutes(12)
    assert world.by_minute(since)[2] >= 60, "all start again"
    assert world.open() == ["shaky"], "and it opens again, since they fail"


def test_what_was_held_is_no_late_send_of_the_ticker() -> None:
    """An alarm counts late sends against the ticker's objective; these wait because the job fails."""
    world = Failing()
    world.minutes(20)
    world.tenants.reset_breaker("acme")
    released = world.tick()
    assert released.handled.messages.sent >= 60
    assert released.handled.fires.missed >= 60
    assert released.handled.messages.sent_late == 0
    later = Failing()
    later.minutes(8, tickers=0)
    assert later.tick().handled.messages.sent_late > 0, "as after an outage of the ticker"


def test_a_tick_that_holds_something_back_says_so() -> None:
    """A breaker would close while fires wait in the agenda, because fewer runs than it lets through come to the workers."""
    world = Failing()
    world.minutes(12)
    ticked = world.clock()
    assert world.tick().broken == ["acme"]
    found = read_breakers("acme", world.services)[0]
    assert {name: one.held_at for name, one in found.jobs.items()} == {"shaky": ticked}


def test_probes_are_sent_when_all_runs_that_waited_are_gone() -> None:
    """They were cancelled or have expired, and nobody asks for a probe any more: the ticker must not wait for them."""
    world = Failing()
    world.minutes(8)
    for n in range(world.schedules):
        world.scheduler.cancel_runs(f"s{n}", between=(from_ms(NOON), from_ms(world.clock() + 60 * MINUTE)))
    world.broken = False
    world.minutes(40)
    assert world.open() == []
    assert world.by_minute(world.clock() - 5 * MINUTE) == [60] * 5
