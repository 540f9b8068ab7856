"""When a circuit breaker opens, what it lets through, and when it closes."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest
from quarterjack.domain.times import HOUR, MINUTE, SECOND
from quarterjack.state.backpressure import GRACE
from quarterjack.state.tenants.breaker import (
    ALL,
    FORGOTTEN,
    LARGEST,
    LEAST,
    QUIET,
    WINDOWS,
    Breaker,
    TenantBreakers,
    parse_breakers,
)

START = 29_631_600  # a minute


def counted(breaker: Breaker, minute: int, succeeded: int, failed: int, percent: int = 90) -> Breaker:
    at = START + minute
    return breaker.counted(at, succeeded, failed, now=at * MINUTE + 30 * SECOND, percent=percent)


def opened() -> Breaker:
    breaker = Breaker()
    for minute in range(WINDOWS):
        breaker = counted(breaker, minute, 0, LEAST)
    assert breaker.is_open
    return breaker


@pytest.mark.parametrize(
    ("succeeded", "failed", "opens"),
    [(0, LEAST // WINDOWS, True), (0, LEAST // WINDOWS - 1, False), (1, 9, True), (2, 9, False), (100, 0, False)],
)
def test_nine_in_ten_of_twenty_in_five_minutes(succeeded: int, failed: int, *, opens: bool) -> None:
    breaker = Breaker()
    for minute in range(WINDOWS - 1):
        breaker = counted(breaker, minute, succeeded, failed)
        assert not breaker.is_open, "not before the fifth minute"
    assert counted(breaker, WINDOWS - 1, succeeded, failed).is_open is opens


def test_five_minutes_without_a_failure_end_the_counting() -> None:
    breaker = counted(Breaker(), 0, 0, 100)
    assert breaker.is_needed
    assert counted(breaker, WINDOWS - 1, 1, 0).is_needed
    assert counted(breaker, WINDOWS, 1, 0) == Breaker()


def test_what_lies_before_five_minutes_counts_no_more() -> None:
    breaker = counted(Breaker(), 0, 1_000, 1)
    for minute in range(1, WINDOWS):
        breaker = counted(breaker, minute, 0, 10)
    assert not breaker.is_open
    assert counted(breaker, WINDOWS, 0, 10).is_open


def test_one_probe_a_minute_until_a_probe_succeeds_then_twice_as_many() -> None:
    breaker, now = opened(), (START + WINDOWS) * MINUTE
    assert breaker.probe(now)[1] == 0, "the failure that opened it was the first probe"
    rates = []
    for minute in range(1, 12):
        now = breaker.since + MINUTE
        probes = 0
        while (answer := breaker.probe(now))[1]:
            breaker, granted = answer
            probes += granted
        breaker = answer[0]
        rates.append(probes)
        failed = 1 if minute in (1, 2) else 0
        breaker = replace(breaker, succeeded=0 if failed else probes, failed=failed)
    assert rates == [1, 1, 1, 2, 4, 8, 16, 32, 64, 128, 256]


def test_so_many_failures_as_opened_it_close_down_to_one_again_and_fewer_do_not() -> None:
    """A job that fails now and then is not held for that when it has come back: it would not be held otherwise either."""
    breaker = replace(opened(), rate=256, taken=256)
    for minute in range(3):
        failed = breaker.taken * breaker.percent // 100 - 1
        breaker = replace(breaker, succeeded=breaker.taken - failed, failed=failed)
        breaker = replace(breaker.probe(breaker.since + MINUTE)[0], taken=512 << minute)
        assert breaker.rate == 512 << minute
    failed = -(-breaker.taken * breaker.percent // 100)
    breaker = replace(breaker, succeeded=breaker.taken - failed, failed=failed)
    assert breaker.probe(breaker.since + MINUTE)[0].rate == 1


def test_a_worker_takes_a_part_of_many_probes_at_once() -> None:
    breaker = replace(opened(), rate=1_024, taken=0)
    after, granted = breaker.probe(breaker.since)
    assert (granted, after.taken) == (32, 32)
    nearly = replace(breaker, taken=1_020)
    assert nearly.probe(breaker.since)[1] == 4


def test_it_closes_when_probes_are_left_and_nothing_is_held() -> None:
    breaker = replace(opened(), rate=8, taken=3, succeeded=3)
    now = breaker.since + MINUTE
    assert breaker.probe(now)[0] == Breaker()
    assert breaker.probe(now)[1] == 1
    assert replace(breaker, refused=True).probe(now)[0].rate == 16
    assert replace(breaker, held_at=now - MINUTE).probe(now)[0].rate == 16
    assert replace(breaker, taken=8).probe(now)[0].rate == 16
    assert replace(breaker, rate=LARGEST, taken=LARGEST).probe(now)[0] == Breaker()
    assert replace(breaker, succeeded=0).probe(now)[0].rate == 8, "nothing has ended"


def test_a_run_needs_a_probe_of_its_jobs_breaker_or_else_of_that_of_all_jobs() -> None:
    job = replace(opened(), rate=8, taken=0)
    every = replace(job, taken=8)
    breakers = TenantBreakers({"shaky": job, ALL: every})
    after, granted = breakers.probe("shaky", job.since)
    assert (granted, after.jobs["shaky"].taken, after.jobs[ALL]) == (1, 1, every)
    after, granted = breakers.probe("other", job.since)
    assert (granted, after.jobs["shaky"]) == (0, job)
    assert after.jobs[ALL].refused
    assert (breakers.over("shaky"), breakers.over("other")) == (["shaky"], [ALL])
    assert TenantBreakers({"shaky": job}).over("other") == []
    assert after.probe("other", job.since)[0] is after, "nothing is written for the next one"


def test_a_run_whose_jobs_breaker_closes_asks_that_of_all_jobs() -> None:
    job = replace(opened(), rate=8, taken=3, succeeded=3)
    now = job.since + MINUTE
    after, granted = TenantBreakers({"shaky": job, ALL: replace(job, since=now, taken=8)}).probe("shaky", now)
    assert (after.open, granted) == ([ALL], 0)
    after, granted = TenantBreakers({"shaky": job}).probe("shaky", now)
    assert (after.open, granted) == ([], 1)


@pytest.mark.parametrize(("percent", "succeeded", "failed"), [(75, 5, 15), (50, 10, 10), (100, 0, 20), (90, 3, 27)])
def test_at_exactly_the_limits_share_it_opens_and_probes_close_down(percent: int, succeeded: int, failed: int) -> None:
    def after(fewer: int) -> Breaker:
        breaker = counted(Breaker(), 0, 0, 1, percent)
        return counted(breaker, WINDOWS - 1, succeeded + fewer, failed - fewer - 1, percent)

    assert after(0).is_open
    assert not after(1).is_open, "one failure fewer"
    breaker = replace(after(0), rate=64, taken=64, succeeded=succeeded, failed=failed)
    assert breaker.probe(breaker.since + MINUTE)[0].rate == 1
    fewer = replace(breaker, succeeded=succeeded + 1, failed=failed - 1)
    assert fewer.probe(breaker.since + MINUTE)[0].rate == 128
    idle = replace(breaker, taken=3)
    assert idle.probe(breaker.since + MINUTE)[0].is_open, "so many failures close no breaker, whatever is left over"


def through(counts: dict[str, tuple[int, int]], minutes: int, percent: int = 90) -> TenantBreakers:
    """The breakers of a tenant whose jobs end so many attempts, succeeded and failed, in each minute."""
    breakers = TenantBreakers()
    for at in range(START, START + minutes):
        ended = [(job, at, *ends) for job, ends in counts.items()]
        breakers = breakers.counted(ended, now=at * MINUTE + 30 * SECOND, percent=percent)
    return breakers


def test_one_bad_job_does_not_open_the_breaker_of_all_jobs() -> None:
    """Nearly all attempts of the tenant are those of its bad job."""
    breakers = through({"bad": (0, 60), "good": (2, 0)}, 12)
    assert breakers.open == ["bad"]
    assert breakers.over("good") == []
    assert through({"bad": (0, 60), "good": (2, 0)}, WINDOWS - 1).open == []


def test_a_job_that_fails_now_and_then_before_a_bad_one_opens_nothing_for_all() -> None:
    """The breaker of all jobs counts for longer than that of the bad job, so it would open first."""
    breakers = TenantBreakers()
    for at in range(START, START + 20):
        ended = [("good", at, 2, 1 if at == START else 0)]
        if at >= START + 3:
            ended.append(("bad", at, 0, 200))
        breakers = breakers.counted(ended, now=at * MINUTE + 30 * SECOND, percent=90)
        assert ALL not in breakers.open, at - START
    assert breakers.open == ["bad"]


def test_several_jobs_that_fail_seldom_open_the_breaker_of_all_jobs() -> None:
    few = {f"few{n}": (0, 1) for n in range(6)}
    assert through(few, WINDOWS).open == [ALL]
    assert through({**few, "bad": (0, 60)}, WINDOWS).open == [ALL, "bad"], "also beside a bad one"


def test_probes_of_a_bad_job_say_nothing_of_the_others() -> None:
    breakers = TenantBreakers({"bad": opened(), ALL: opened()})
    at = START + WINDOWS
    after = breakers.counted([("bad", at, 0, 1), ("good", at, 1, 0)], now=at * MINUTE, percent=90)
    assert (after.jobs["bad"].failed, after.jobs[ALL].failed, after.jobs[ALL].succeeded) == (1, 0, 1)


def test_a_breaker_that_nobody_asks_closes() -> None:
    """Its schedules were paused or deleted, and nothing waits."""
    breaker = replace(opened(), rate=8, failed=1, refused=True)
    quiet = breaker.since + FORGOTTEN + 1
    assert breaker.is_quiet(quiet)
    assert breaker.probe(quiet) == (Breaker(), 1)
    assert not breaker.is_quiet(quiet - 1)
    assert breaker.probe(quiet - 1)[0].is_open
    held = replace(breaker, held_at=quiet - QUIET)
    assert not held.is_quiet(quiet), "the ticker holds fires back"
    assert held.probe(quiet)[0].is_open
    assert not Breaker().is_quiet(quiet)
    both = TenantBreakers({"shaky": breaker, ALL: held})
    assert both.without_quiet(quiet).open == [ALL]
    assert [(period.job, period.until) for period in both.without_quiet(quiet).changes(both)] == [("shaky", quiet)]
    assert breaker.fed(quiet) == 1, "what a tick finds due after an outage is probed, and the rest is held"


def test_ticks_feed_as_many_as_there_are_probes_and_none_beside_those_that_wait() -> None:
    breakers = TenantBreakers({"shaky": replace(opened(), rate=8)})
    since = breakers.jobs["shaky"].since
    assert breakers.fed("shaky", since) == 8
    assert breakers.fed("other", since) is None
    refused = TenantBreakers({"shaky": replace(breakers.jobs["shaky"], refused=True)})
    assert refused.fed("shaky", since) == refused.fed("shaky", since + FORGOTTEN - 1) == 0
    assert refused.fed("shaky", since + FORGOTTEN) == 8, "nobody has asked since: those that waited are gone"


def test_the_last_times_in_which_one_was_open_are_remembered() -> None:
    first, breakers = opened(), TenantBreakers()
    began = first.opened_at or 0
    for number in range(20):
        at = began + number * HOUR
        present = {"a": replace(first, opened_at=at, since=at)} if number % 2 else {ALL: replace(first, opened_at=at)}
        breakers = replace(breakers, jobs=present).without(None, at + MINUTE, "ann" if number == 19 else None)
    assert [period.since for period in breakers.past] == [began + number * HOUR for number in range(4, 20)]
    assert [period.actor for period in breakers.past[-2:]] == [None, "ann"]
    assert len(json.dumps(breakers.body())) < 1_000
    last = began + 19 * HOUR
    assert [period.job for period in breakers.between("a", last - HOUR, last)] == [ALL, "a"]
    assert [period.job for period in breakers.between("b", last - HOUR, last)] == [ALL]
    assert breakers.between("a", last + MINUTE + 1, last + HOUR) == []
    assert breakers.has_held("a", last + MINUTE + GRACE, last + HOUR)
    assert not breakers.has_held("a", last + MINUTE + GRACE + 1, last + HOUR)
    assert not breakers.has_held("a", last - 10 * MINUTE, last - 1), "it opened later"
    assert breakers.are_felt(last + MINUTE + GRACE)
    assert not breakers.are_felt(last + MINUTE + GRACE + 1)
    opens = replace(breakers, jobs={"a": replace(first, opened_at=last + HOUR)})
    assert [(period.job, period.until) for period in opens.changes(breakers)] == [("a", None)]
    assert opens.are_felt(last + 9 * HOUR)
    assert opens.has_held("a", last + 8 * HOUR, last + 9 * HOUR)
    closed = opens.without("a", last + 2 * HOUR)
    assert [(period.job, period.until) for period in closed.changes(opens)] == [("a", last + 2 * HOUR)]
    assert closed.changes(closed) == []


def test_what_is_stored_is_read_as_it_was() -> None:
    chance, breakers, now = random.Random(5), TenantBreakers(), START * MINUTE
    for _ in range(2_000):
        now += chance.choice((1, 10, 40)) * SECOND
        job = chance.choice(("a", "b"))
        if chance.random() < 0.5:
            count = (job, now // MINUTE, chance.randrange(2), chance.randrange(30))
            breakers = breakers.counted([count], now=now, percent=90)
        elif chance.random() < 0.02:
            breakers = breakers.without(chance.choice((job, None)), now, "ann")
        else:
            breakers, _ = breakers.probe(job, now)
        assert parse_breakers(json.loads(json.dumps(breakers.body()))) == breakers
    assert breakers.open


@pytest.mark.parametrize(("ago", "fails"), [(0, False), (1, True), (WINDOWS, True)])
def test_attempts_apart_count_less_only_where_they_were_counted(ago: int, *, fails: bool) -> None:
    """Those of a minute that has left the windows are in no sum that they could be taken from."""
    windows = tuple((START + minute, 0, LEAST // WINDOWS) for minute in range(WINDOWS))
    apart = ((START - ago, 0, 1),)
    assert Breaker(windows=windows, watched_since=START).fails(90, [apart]) is fails
