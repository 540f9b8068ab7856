"""What tenants use of their limits: tokens of one bucket, a count that is changed in the transactions that arm schedules, and quotas."""

from __future__ import annotations

from dataclasses import replace

import pytest
from quarterjack.domain.names import one_off_ref
from quarterjack.domain.payload import folders_of
from quarterjack.domain.tenants.limits import AcceptedRate, QuotaWord, RateWord
from quarterjack.ports.services import Services
from quarterjack.state.tenants.quota import Quota, QuotaCount
from quarterjack.stores.tables import RUNS
from quarterjack.stores.tenants.schedule_counts import ScheduleCount, UsageChange

from tests.support.builders import NOON, a_head, a_revision
from tests.support.engines import Engine

RATE = AcceptedRate(RateWord.RUNS, 2.0, 4)
COUNT = ScheduleCount(tenant="acme", schedules=3, fires_per_hour=60, version=1, counted_at=NOON)
CHANGE = UsageChange(tenant="acme", schedules=1, fires_per_hour=12, most_schedules=None, most_fires=None)


def taken(services: Services, now: int, tenant: str = "acme") -> int:
    """How many acts are accepted at one instant."""
    return next(number for number in range(100) if services.usage.take(tenant, RATE, now))


def test_a_bucket_that_was_never_asked_is_full(services: Services) -> None:
    assert taken(services, NOON) == 4
    assert services.usage.take("acme", RATE, NOON) == 1_000, "it asks once a second"
    assert taken(services, NOON + 1_000) == 2
    assert taken(services, NOON + 3_600_000) == 4, "and is never fuller than full"
    assert taken(services, NOON, "beta") == 4


def test_two_processes_share_a_bucket(engine: Engine) -> None:
    first, second = engine.services, engine.again()
    assert taken(first, NOON) == 4
    assert taken(second, NOON) == 0
    assert taken(second, NOON + 500) + taken(first, NOON + 1_000) == 2


def test_what_is_left_is_told_and_taken_by_nobody(services: Services) -> None:
    assert [services.usage.left("acme", RATE, NOON) for _ in range(2)] == [4, 4], "it was never asked"
    taken(services, NOON)
    times = (0, 499, 500, 1_000, 3_600_000, -18_000, -22_000)  # the last beyond what clocks may be apart
    left = [services.usage.left("acme", RATE, NOON + after) for after in times]
    assert left == [0, 0, 1, 2, 4, 0, 4]


def test_a_count_is_put_over_the_one_before(services: Services) -> None:
    assert services.usage.count("acme") is None
    assert not services.usage.put_count(replace(COUNT, version=2))
    assert services.usage.put_count(COUNT)
    assert not services.usage.put_count(COUNT)
    assert services.usage.put_count(replace(COUNT, schedules=4, version=2))
    assert services.usage.count("acme") == replace(COUNT, schedules=4, version=2)
    assert services.usage.count("beta") is None


@pytest.mark.parametrize(
    ("change", "fits"),
    [
        (CHANGE, True),
        (replace(CHANGE, most_schedules=4, most_fires=72), True),
        (replace(CHANGE, most_schedules=3), False),
        (replace(CHANGE, most_fires=71), False),
        (replace(CHANGE, schedules=0, most_schedules=0, most_fires=72), True),
        (replace(CHANGE, schedules=0, fires_per_hour=-12, most_schedules=0, most_fires=0), True),
        (replace(CHANGE, tenant="beta"), False),  # never counted
    ],
)
def test_arming_changes_the_count_or_is_not_done(services: Services, change: UsageChange, fits: bool) -> None:
    assert services.usage.put_count(COUNT)
    armed = services.schedules.arm(a_head(), expected=0, previous=None, revision=a_revision(), entry=None, usage=change)
    assert armed is fits
    assert (services.schedules.head("acme", "report") is not None) is fits
    schedules, fires = (change.schedules, change.fires_per_hour) if fits else (0, 0)
    expected = replace(COUNT, schedules=3 + schedules, fires_per_hour=60 + fires, version=1 + fits)
    assert services.usage.count("acme") == expected
    if change.tenant == "acme":
        assert change.fits(COUNT) is fits


def test_a_change_that_is_lost_counts_nothing(services: Services) -> None:
    assert services.usage.put_count(COUNT)
    assert not services.schedules.arm(
        a_head(), expected=5, previous=None, revision=a_revision(), entry=None, usage=CHANGE
    )
    assert services.usage.count("acme") == COUNT
    assert RUNS.stream, "the rows lie among the runs, whose followers leave them out"


def no_runs(quota: Quota) -> QuotaCount:
    return QuotaCount(in_use=0)


def test_two_processes_share_the_places_of_runs(engine: Engine) -> None:
    """One write takes some for five seconds; what is taken while somebody counts is not lost."""
    first, second = engine.services.usage, engine.again().usage
    assert first.quota("acme", QuotaWord.WAITING_RUNS) is None
    assert [first.take_place("acme", 3, NOON, no_runs) for _ in range(2)] == [0, 0]
    assert second.take_place("acme", 3, NOON, no_runs) == 0
    assert (first.take_place("acme", 3, NOON, no_runs), second.take_place("acme", 3, NOON, no_runs)) == (1_000, 1_000)

    def count(quota: Quota) -> QuotaCount:
        assert second.take_place("acme", 5, NOON + 1_000, no_runs) == 0
        assert quota.taken == 3
        return QuotaCount(in_use=1, seen=3)

    assert first.take_place("acme", 3, NOON + 1_000, count) == 0
    found = second.quota("acme", QuotaWord.WAITING_RUNS)
    assert found is not None
    assert (found.taken, found.in_use) == (5, 3), "one is open, two have ended, and two are new"
    assert second.quota("beta", QuotaWord.WAITING_RUNS) is None


def test_bytes_are_taken_whole_or_not_at_all(engine: Engine) -> None:
    usage = engine.services.usage
    parts = iter((QuotaCount(in_use=40, cursor="here"), QuotaCount(in_use=30)))
    assert usage.take_bytes("acme", 90, 100, NOON, lambda quota: next(parts)) is None, (
        "it is not counted to the end yet"
    )
    found = usage.quota("acme", QuotaWord.KEPT_BYTES)
    assert found is not None
    assert (found.in_use, found.part, found.cursor) == (90, 40, "here")
    assert usage.take_bytes("acme", 1, 200, NOON + 1_000, lambda quota: next(parts)) is None
    again = engine.again().usage.quota("acme", QuotaWord.KEPT_BYTES)
    assert again is not None
    assert (again.in_use, again.cursor) == (161, None)
    assert usage.take_bytes("acme", 40, 200, NOON + 1_000, no_runs) == 201
    assert usage.take_bytes("acme", 39, 200, NOON + 1_000, no_runs) is None


def test_the_objects_of_a_tenant_are_listed_with_their_sizes(services: Services) -> None:
    payloads = services.payloads
    sizes = list[int]()
    for tenant in ("acme", "acme.eu", "beta"):
        for number in range(3):
            payloads.put(one_off_ref(tenant, f"r{number}"), "x" * 10 * (number + 1))
        payloads.put(f"{tenant}/s", "é" * 100)
        payloads.keep(tenant, "y" * 1_000)
    objects, cursor = 0, None
    while True:
        page = payloads.kept("acme", after=cursor, since=0)
        objects, cursor = objects + page.objects, page.cursor
        sizes.append(page.bytes)
        if cursor is None:
            break
        assert cursor.startswith(folders_of("acme"))
    assert (objects, sum(sizes)) == (5, 10 + 20 + 30 + 200 + 1_000)
    assert payloads.kept("acme", after=None, since=0).recent == 10 + 20 + 30 + 200, "payloads, and no results"
    assert payloads.kept("acme", after=None, since=10**15).recent == 0
    assert payloads.kept("nobody", after=None, since=0).bytes == 0
