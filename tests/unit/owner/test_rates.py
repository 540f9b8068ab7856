"""Rates of tenants: eight processes with clocks of their own share one bucket; each writes once a second."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

import pytest
from quarterjack.domain.tenants.limits import AcceptedRate, RateWord
from quarterjack.domain.times import SECOND
from quarterjack.state.lease import SKEW
from quarterjack.stores.tenants.usage import TenantUsage
from quarterjack.testing import ManualClock, Memory

from tests.support.scenes.world import NOON, START, Faults, fails

SECONDS = 60


def rate_of(per_second: float, burst: int | None = None) -> AcceptedRate:
    return AcceptedRate(RateWord.RUNS, per_second, burst or max(round(per_second), 1))


@dataclass
class Process:
    """One of those that accept runs: its services, and how far its clock is off (ms)."""

    usage: TenantUsage
    faults: Faults
    off: int = 0
    accepted: int = 0
    waits: list[int] = field(default_factory=list)


def processes(number: int, off: int = 0) -> list[Process]:
    memory, chance = Memory(ManualClock(START)), random.Random(number)
    found = []
    for _ in range(number):
        faults = Faults()
        found.append(Process(memory.connect(hook=faults).usage, faults, chance.randint(-off, off) if off else 0))
    return found


def flood(group: list[Process], rate: AcceptedRate, a_second: float, chance: random.Random, at: int = NOON) -> None:
    """Each process is asked so often a second, at random instants, for a minute."""
    asked = sorted(
        (at + chance.random() * SECONDS * 1_000, process)
        for process in range(len(group))
        for _ in range(round(a_second * SECONDS))
    )
    for instant, number in asked:
        process = group[number]
        wait = process.usage.take("acme", rate, int(instant) + process.off)
        process.accepted += wait == 0
        process.waits += [wait] if wait else []


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("per_second", "times", "off"),
    [(20, 20, 0), (50, 1.2, 0), (50, 2.5, 0), (100, 20, 0), (100, 20, 200), (400, 2.5, 0)],
)
def test_eight_processes_accept_the_limit_within_five_percent(
    per_second: int, times: float, off: int, seed: int
) -> None:
    """Also where their clocks are 0.4 s apart: each asks for so many times its share."""
    group, rate = processes(8, off), rate_of(per_second)
    flood(group, rate, times * per_second / len(group), random.Random(seed))
    accepted, allowed = sum(process.accepted for process in group), per_second * SECONDS
    assert 0.95 * allowed <= accepted <= 1.05 * allowed, f"{accepted} of {allowed}"
    writes = [process.faults.count("UpdateItem") for process in group]
    # A lease may take a second write where more is asked than in the second before, or another process was faster.
    assert sum(writes) <= 1.75 * SECONDS * len(group), writes


def test_processes_that_judge_by_an_old_bucket_take_too_much_once() -> None:
    """Each takes a burst by what it saw last: the second one's is made up before anybody takes again."""
    first, second, third = processes(3)
    rate = rate_of(10)
    for process in (first, second):  # both used to ten a second
        for ms in range(0, 2_000, 100):
            process.usage.take("acme", rate, NOON - 60_000 + ms)
    accepted = 0
    for ms in range(0, 20_000, 20):
        for process in (first, second, third):
            accepted += process.usage.take("acme", rate, NOON + ms) == 0
        assert accepted <= 10 + 10 + 10 * ms / 1_000, "the rate, a burst, and once what another took meanwhile"
    assert accepted >= 0.95 * 10 * 20


def test_processes_whose_clocks_are_far_apart_accept_no_burst_each_time() -> None:
    """The bucket that the fast one leaves is ahead of the slow one's clock, and counts all the same."""
    group, rate = processes(2), rate_of(2, burst=10)
    group[0].off, group[1].off = -SKEW, SKEW
    flood(group, rate, 4, random.Random(3))
    assert sum(process.accepted for process in group) <= 10 + 2 * (SECONDS + 2 * SKEW / SECOND)


def test_below_the_limit_nobody_waits() -> None:
    group, rate = processes(8), rate_of(100)
    flood(group, rate, 8, random.Random(1))
    assert sum(process.accepted for process in group) == 8 * 8 * SECONDS
    assert not any(process.waits for process in group)


def test_one_process_uses_all_of_it_and_writes_once_a_second() -> None:
    (only,), rate = processes(1), rate_of(50)
    flood([only], rate, 400, random.Random(2))
    assert 0.95 * 50 * SECONDS <= only.accepted <= 1.05 * 50 * SECONDS
    assert only.faults.count("UpdateItem") <= 1.3 * SECONDS + 20
    assert max(only.waits) <= 1_000


def test_a_burst_comes_at_once_and_then_the_rate() -> None:
    (only,), rate = processes(1), rate_of(2, burst=40)
    assert [only.usage.take("acme", rate, NOON) for _ in range(40)] == [0] * 40
    assert only.usage.take("acme", rate, NOON) == 1_000
    later = [only.usage.take("acme", rate, NOON + 1_000) for _ in range(3)]
    assert later[:2] == [0, 0]
    assert later[2] > 0


def test_what_a_process_had_left_is_gone_when_it_was_idle() -> None:
    """Else each process that was busy once would have a burst of its own."""
    (only,), rate = processes(1), rate_of(2, burst=40)
    assert [only.usage.take("acme", rate, NOON) for _ in range(35)] == [0] * 35
    assert [only.usage.take("acme", rate, NOON + 3_600_000) for _ in range(40)] == [0] * 40
    assert only.usage.take("acme", rate, NOON + 3_600_000) > 0


def test_of_a_slow_rate_processes_together_have_one_burst() -> None:
    """What they take too much is a second's at most: a row that is ten seconds ahead would not count."""
    first, second = processes(2)
    rate = rate_of(0.01, burst=5)
    assert [process.usage.take("acme", rate, NOON) for process in (first, second, second)] == [0, 0, 0]
    waits = [process.usage.take("acme", rate, NOON) for process in (first, first, second, first, second)]
    assert waits.count(0) == 2, (
        "one that the second has left, and the last, although the first process sees four of them"
    )
    assert all(wait > 90_000 for wait in waits if wait)
    later = [process.usage.take("acme", rate, NOON + 100_000) for process in (second, first, second)]
    assert later.count(0) == 1


@pytest.mark.parametrize(
    ("per_second", "burst"), [(0.01, 1), (0.1, 1), (0.5, 3), (1, 1), (3, 3), (25, 25), (1_000, 1_000)]
)
def test_who_comes_back_after_the_wait_is_accepted_and_who_is_early_is_not(per_second: float, burst: int) -> None:
    (only,), rate = processes(1), rate_of(per_second, burst)
    now = NOON
    for _ in range(20):
        while (wait := only.usage.take("acme", rate, now)) == 0:
            pass
        writes = only.faults.count("UpdateItem")
        early = only.usage.take("acme", rate, now + wait - 1)
        assert early == 1, "what is left of the same wait"
        assert only.faults.count("UpdateItem") == writes, "and a refusal writes nothing"
        assert wait <= 1_000 * max(1 / per_second, 1)
        now += wait
        assert only.usage.take("acme", rate, now) == 0


def test_of_a_thousand_tenants_one_floods_and_the_others_notice_nothing() -> None:
    """By eight processes: a hundred times its share; it gets that, and is told when to come back."""
    group, rate, chance, seconds = processes(8), rate_of(5), random.Random(3), 10
    asked = [(chance.random() * seconds, f"t{tenant}") for tenant in range(999) for _ in range(5)]
    asked += [(chance.random() * seconds, "flood") for _ in range(100 * 5 * seconds)]
    accepted, told = 0, list[int]()
    for instant, tenant in sorted(asked):
        wait = chance.choice(group).usage.take(tenant, rate, NOON + int(instant * 1_000))
        if tenant == "flood":
            accepted += wait == 0
            told += [wait] if wait else []
        else:
            assert wait == 0, tenant
    assert 5 * seconds <= accepted <= 5 * seconds + 2 * 5
    assert max(told) <= 1_000


def test_two_tenants_and_two_rates_share_nothing() -> None:
    (only,), rate = processes(1), rate_of(1)
    assert only.usage.take("acme", rate, NOON) == 0
    assert only.usage.take("acme", rate, NOON) > 0
    assert only.usage.take("beta", rate, NOON) == 0
    assert only.usage.take("acme", AcceptedRate(RateWord.CHANGES, 1, 1), NOON) == 0


def test_a_table_that_does_not_answer_opens_the_limit_and_is_asked_once_a_second() -> None:
    (only,), rate = processes(1), rate_of(1)
    only.faults.at("lease_tokens", before=fails, times=None)
    for ms in range(0, 5_000, 10):
        assert only.usage.take("acme", rate, NOON + ms) == 0
    failed = Counter(only.faults.verbs())["lease_tokens"]
    only.faults.rules.clear()
    assert failed <= 5 * 20, "five leases, each with the adapter's attempts"
    assert only.usage.take("acme", rate, NOON + 5_000) == 0
    assert only.usage.take("acme", rate, NOON + 5_001) > 0, "it limits again as soon as the table answers"


def test_a_lease_that_dies_with_its_process_costs_a_second() -> None:
    first, second = processes(2)
    rate = rate_of(10)
    for ms in range(0, 3_000, 100):
        first.usage.take("acme", rate, NOON + ms)  # it is used to ten a second, leases so many, and dies
    accepted = sum(second.usage.take("acme", rate, NOON + 3_000 + ms) == 0 for ms in range(0, 10_000, 10))
    assert 0.85 * 100 <= accepted <= 1.1 * 100


def test_a_clock_that_was_an_hour_ahead_stops_nobody_for_an_hour() -> None:
    wrong, right = processes(2)
    rate = rate_of(10)
    assert wrong.usage.take("acme", rate, NOON + 3_600_000) == 0
    assert right.usage.take("acme", rate, NOON) == 0


def test_a_clock_that_goes_back_waits_no_longer_than_the_rate() -> None:
    (only,), rate = processes(1), rate_of(10)
    while only.usage.take("acme", rate, NOON) == 0:
        pass
    assert only.usage.take("acme", rate, NOON - 3_600_000) <= 1_000
