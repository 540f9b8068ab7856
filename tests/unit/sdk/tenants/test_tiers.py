"""Tiers: profiles whose jobs, queue and limits count for the tenants that name them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from quarterjack import Context, Registry, Tenants
from quarterjack.domain.tenants.limits import TenantLimits
from quarterjack.domain.tenants.profile import INSTALLATION, Governance, TenantProfile
from quarterjack.domain.times import SECOND
from quarterjack.errors import InvalidInput, JobNotGranted, LimitExceeded, NotFound, Unavailable
from quarterjack.stores.tenants.app_versions import OWNER as VERSIONS
from quarterjack.testing import Harness, Memory
from quarterjack.testing.memory.calls import Detail, Hook

NOW = 1_000_000
GOLD = "~gold"


class Keys(Hook):
    """The tenants whose profiles each request reads."""

    def __init__(self) -> None:
        self.read: list[list[str]] = []

    def before_call(self, operation: str, detail: Detail) -> frozenset[int]:
        if detail.verb == "governance":
            self.read.append([item[0] for item in detail.items if isinstance(item, tuple) and item[0] != VERSIONS])
        return frozenset()


class Cut(Hook):
    """A network that can be off."""

    is_off = False

    def before_call(self, operation: str, detail: Detail) -> frozenset[int]:
        if self.is_off:
            raise Unavailable("it is off")
        return frozenset()


@pytest.fixture
def memory() -> Memory:
    return Memory(lambda: NOW)


@pytest.fixture
def tenants(memory: Memory) -> Tenants:
    return Tenants(services=memory.connect(), clock=lambda: NOW)


def test_what_a_tenant_has_not_its_tier_has_and_then_the_installation(tenants: Tenants) -> None:
    tenants.set(
        INSTALLATION, jobs=["a"], queue="slow", limits={"schedules": 1, "fires_per_hour": 2, "backfill_fires": 3}
    )
    tenants.create(GOLD, jobs=["b"], limits={"schedules": 10, "fires_per_hour": 20, "concurrent_runs:b": 4})
    tenants.create("acme", tier="gold", limits={"schedules": 100, "concurrent_runs:a": 7})
    profile = tenants.session.services.tenants.governance("acme", NOW).profile
    assert (profile.jobs, profile.queue) == (("b",), "slow")
    assert profile.limits == TenantLimits(
        schedules=100, fires_per_hour=20, backfill_fires=3, job_caps={"a": 7, "b": 4}
    ), "what the installation says of single jobs is of all tenants together"
    other = tenants.session.services.tenants.governance("other", NOW).profile
    assert (other.jobs, other.limits.schedules) == (("a",), 1)
    tenants.set("acme", tier=None)
    assert tenants.session.services.tenants.governance("acme", NOW).profile.jobs == ("a",)


def test_a_change_of_a_tier_counts_for_its_tenants_within_five_seconds(memory: Memory, tenants: Tenants) -> None:
    tenants.create(GOLD, limits={"schedules": 1})
    tenants.create("acme", tier="gold")
    other = memory.connect().tenants
    assert other.governance("acme", NOW).limits.schedules == 1
    tenants.set(GOLD, limits={"schedules": 2})
    assert other.governance("acme", NOW + 3 * SECOND).limits.schedules == 1, "that is believed"
    assert other.governance("acme", NOW + 5 * SECOND + 1).limits.schedules == 2


def test_a_tier_is_as_old_as_when_it_was_read_whoever_of_it_was_read_since(memory: Memory, tenants: Tenants) -> None:
    tenants.create(GOLD, limits={"schedules": 1})
    for name in ("acme", "beta"):
        tenants.create(name, tier="gold")
    cut = Cut()
    other = memory.connect(cut)
    other.tenants.governance("acme", NOW)
    later = NOW + 4 * SECOND
    read = other.schedules.revisions_freezes_profiles([("beta/s", 1)], ["beta"], later).governance["beta"]
    assert (read.limits.schedules, read.read_at) == (1, NOW), "a batch reads no tier of a tenant that it did not know"
    cut.is_off = True
    with pytest.raises(Unavailable):  # nobody goes by a tier of six seconds ago
        other.tenants.governance("beta", later + 2 * SECOND)


def test_a_tier_costs_a_row_more_and_nobody_else_anything(memory: Memory, tenants: Tenants) -> None:
    tenants.create(GOLD, limits={"schedules": 1})
    tenants.create("acme", tier="gold")
    keys = Keys()
    store = memory.connect(keys).tenants
    store.governance("other", NOW)
    assert keys.read.pop() == ["other", INSTALLATION]
    first = store.governance("acme", NOW)
    assert keys.read == [["acme", INSTALLATION], ["acme", INSTALLATION, GOLD]], (
        "a tier that the process did not know of"
    )
    assert store.governance("acme", NOW + 1) is first, "one object while nothing is read anew"
    store.governance("acme", NOW + 6 * SECOND)
    assert keys.read[2:] == [["acme", INSTALLATION, GOLD]], "from then on in one request"


def test_a_worker_reads_the_tier_with_its_batch(memory: Memory, tenants: Tenants) -> None:
    tenants.create(GOLD, jobs=["b"])
    tenants.create("acme", tier="gold")
    services = memory.connect()
    unknown = services.schedules.revisions_freezes_profiles([("acme/s", 1)], ["acme"], NOW).governance
    assert unknown == {}, "the batch did not have the tier, so the worker reads it for this tenant"
    assert services.tenants.governance("acme", NOW).profile.jobs == ("b",)
    later = NOW + 4 * SECOND
    known = services.schedules.revisions_freezes_profiles([("acme/s", 1)], ["acme"], later).governance["acme"]
    assert (known.profile.jobs, known.read_at) == (("b",), later)


def test_its_jobs_and_limits_hold_for_everything_that_is_done_for_its_tenants() -> None:
    jobs = Registry()
    for name in ("a", "b"):

        @jobs.job(name)
        def job(ctx: Context, payload: Any) -> None: ...

    harness = Harness(jobs, at=datetime(2026, 3, 2, 9, 0, tzinfo=UTC), tenant="acme")
    harness.tenants.create(GOLD, jobs=["a"], limits={"schedules": 1})
    harness.tenants.create("acme", tier="gold")
    with pytest.raises(JobNotGranted):
        harness.scheduler.submit("b")
    harness.scheduler.submit("a")
    harness.scheduler.create_schedule("s", "a", "0 9 * * *")
    with pytest.raises(LimitExceeded) as refused:
        harness.scheduler.create_schedule("t", "a", "0 9 * * *")
    assert (refused.value.limit, refused.value.most) == ("schedules", 1)
    assert {run.state.value for run in harness.advance(minutes=1)} == {"SUCCEEDED"}


def test_a_tier_without_a_profile_is_as_if_there_were_none() -> None:
    """As a row of a later release may name it."""
    own = TenantProfile(tenant="acme", tier="gold", queue="bulk")
    assert Governance(tenant="acme", own=own).profile == own


def test_profiles_of_tiers_are_listed_after_that_of_the_installation(tenants: Tenants) -> None:
    tenants.create(GOLD)
    tenants.create("acme", tier="gold")
    tenants.set(INSTALLATION, description="x")
    assert [(each.name, each.tier) for each in tenants.list()] == [
        (INSTALLATION, None),
        (GOLD, None),
        ("acme", "gold"),
    ]


def test_the_audit_has_the_tier(memory: Memory, tenants: Tenants) -> None:
    tenants.create(GOLD)
    tenants.create("acme", tier="gold")
    tenants.set("acme", tier=None)
    lines = [line for line in memory.audit_entries() if line.tenant == "acme"]
    assert [line.detail["tier"] for line in lines] == ["gold", ""]


@pytest.mark.parametrize(
    ("call", "field", "words"),
    [
        (lambda on: on.create("acme", tier="silver"), "tier", r"has no profile.*quarterjack tenants create '~silver'"),
        (lambda on: on.set("acme", tier="silver"), "tier", "has no profile"),
        (
            lambda on: on.create("acme", tier="~gold"),
            "tier",
            "is the name of a tier's profile; leave the '~' out: 'gold'",
        ),
        (lambda on: on.create("acme", tier=7), "tier", "A-Z a-z 0-9"),
        (lambda on: on.create("acme", tier="installation"), "tier", "is the installation"),
        (lambda on: on.create("~~gold"), "tenant", "A-Z a-z 0-9"),
        (lambda on: on.create("~"), "tenant", "A-Z a-z 0-9"),
        (
            lambda on: on.create("~silver", tier="gold"),
            "tier",
            "is not for the tier 'silver'; give it to single tenants",
        ),
        (lambda on: on.set(INSTALLATION, tier="gold"), "tier", "is not for the installation"),
        (lambda on: on.grant("~silver", "iam:*", "admin"), "tenant", "is a tier, which has no grants.*~installation"),
        (lambda on: on.suspend("~silver"), "tenant", "cannot be suspended; suspend single tenants"),
        (lambda on: on.set_secret("~silver", "token", "abcdef"), "tenant", "A-Z a-z 0-9"),
        (lambda on: on.erase("~silver", confirm="~silver"), "tenant", "A-Z a-z 0-9"),
        (lambda on: on.figures("~silver"), "tenant", "A-Z a-z 0-9"),
    ],
)
def test_bad_input_is_refused_and_nothing_written(
    tenants: Tenants, memory: Memory, call: Callable[[Tenants], Any], field: str, words: str
) -> None:
    tenants.create(GOLD)
    before = len(memory.audit_rows())
    with pytest.raises(InvalidInput, match=words) as refused:
        call(tenants)
    assert refused.value.field == field
    assert [each.name for each in tenants.list()] == [GOLD]
    assert len(memory.audit_rows()) == before


def test_a_tier_that_is_not_there_is_told_as_one(tenants: Tenants) -> None:
    with pytest.raises(NotFound, match="there is no such tier"):
        tenants.get("~silver")


def test_one_object_as_long_as_its_parts_are_the_same(memory: Memory) -> None:
    store = memory.connect().tenants
    tier = TenantProfile(tenant=GOLD, queue="bulk")
    store.put(tier, expected=0)
    store.put(TenantProfile(tenant="acme", tier="gold"), expected=0)
    first = store.governance("acme", NOW)
    store.put(replace(tier, queue="fast"), expected=1)
    assert store.governance("acme", NOW).profile.queue == "fast"
    assert first.profile.queue == "bulk"
