"""Profiles of tenants: their rows, and what a process remembers of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest
from quarterjack.domain.schedule import freeze_key
from quarterjack.domain.tenants.profile import INSTALLATION, Grant, TenantProfile, TenantState
from quarterjack.domain.times import SECOND
from quarterjack.errors import TooNew, Unavailable, Unreadable
from quarterjack.stores.tables import TENANTS
from quarterjack.stores.tenants.profiles import TenantStore, profile_of, profile_row
from quarterjack.testing.memory.calls import Detail, Hook
from quarterjack.testing.memory.installation import Memory

NOW = 1_000_000
FULL = TenantProfile(
    tenant="acme",
    state=TenantState.SUSPENDED,
    jobs=("report.*", "http.get"),
    grants=(
        Grant(to="app:alice@acme", can=("operator", "submit"), jobs=("report.*",)),
        Grant(to="iam:*", can=("viewer",)),
    ),
    tier="gold",
    queue="bulk",
    description="Acme Ltd.",
    suspension_reason="unpaid",
    version=3,
    created_at=1,
    updated_at=2,
)


class Counts(Hook):
    """Counts requests, and refuses what it is told to."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Detail]] = []
        self.refused: set[Any] = set()  # items

    def before_call(self, operation: str, detail: Detail) -> frozenset[int]:
        self.calls.append((operation, detail))
        return frozenset(place for place, item in enumerate(detail.items) if item in self.refused)

    @property
    def counted(self) -> Counter[str]:
        return Counter(operation for operation, _ in self.calls)


@pytest.fixture
def counts() -> Counts:
    return Counts()


@pytest.fixture
def memory() -> Memory:
    return Memory(lambda: NOW)


def test_a_profile_survives_its_row() -> None:
    assert profile_of(profile_row(FULL)) == FULL
    least = TenantProfile(tenant="acme")
    assert profile_of(profile_row(least)) == least
    nothing = replace(least, jobs=())
    assert profile_of(profile_row(nothing)).jobs == ()  # which is not "all"


@pytest.mark.parametrize(
    "damage", [{"state": "HAPPY"}, {"grants": "[{}]"}, {"grants": "{"}, {"jobs": "7"}, {"version": "x"}], ids=str
)
def test_a_damaged_profile_is_unreadable(damage: dict[str, Any]) -> None:
    with pytest.raises(Unreadable):
        profile_of(profile_row(FULL) | damage)


def test_a_profile_of_a_later_release_is_too_new() -> None:
    with pytest.raises(TooNew):
        profile_of(profile_row(FULL) | {"v": 99})


def test_put_is_conditional_on_the_version(memory: Memory) -> None:
    tenants = memory.connect().tenants
    profile = TenantProfile(tenant="acme")
    assert tenants.put(profile, expected=0)
    assert not tenants.put(profile, expected=0)
    assert not tenants.put(profile, expected=2)
    assert tenants.put(replace(profile, description="x"), expected=1)
    assert tenants.profile("acme") == replace(profile, description="x", version=2)
    assert [found.tenant for found in tenants.profiles()] == ["acme"]


def test_governance_is_read_once_in_five_seconds(memory: Memory, counts: Counts) -> None:
    tenants = memory.connect(counts).tenants
    for each in range(600 * 5):
        tenants.governance("acme", NOW + each * 5 // 3)
    assert counts.counted == {"BatchGetItem": 2}
    assert [len(detail.items) for _, detail in counts.calls] == [3, 3]


def test_governance_is_never_older_than_five_seconds(memory: Memory, counts: Counts) -> None:
    tenants, other = memory.connect(counts).tenants, memory.connect().tenants
    tenants.governance("acme", NOW)
    other.put(FULL, expected=0)
    counts.refused = {("acme", "#profile")}
    assert (
        tenants.governance("acme", NOW + 5 * SECOND).own is None
    )  # it could not be read early, and goes by what it knows
    with pytest.raises(Unavailable, match="acme"):
        tenants.governance("acme", NOW + 5 * SECOND + 1)
    counts.refused = set()
    assert tenants.governance("acme", NOW + 5 * SECOND + 1).own == replace(FULL, version=1)
    assert tenants.governance("acme", NOW - 1).read_at == NOW - 1  # a clock that was set back


def test_a_process_goes_by_its_own_change_at_once(memory: Memory) -> None:
    tenants = memory.connect().tenants
    tenants.governance("acme", NOW)
    tenants.put(FULL, expected=0)
    assert tenants.governance("acme", NOW).own == replace(FULL, version=1)


def test_profiles_are_read_with_the_revisions_and_then_believed(memory: Memory, counts: Counts) -> None:
    services = memory.connect(counts)
    memory.connect().tenants.put(TenantProfile(tenant=INSTALLATION, jobs=("a",)), expected=0)
    keys = [freeze_key("acme"), freeze_key("beta")]
    first = services.schedules.revisions_freezes_profiles(keys, {"acme", "beta"}, NOW)
    assert counts.counted == {"BatchGetItem": 1}
    assert set(first.governance) == {"acme", "beta"}
    assert first.governance["beta"].profile.jobs == ("a",)
    second = services.schedules.revisions_freezes_profiles(keys, {"acme", "beta"}, NOW + 1_999)
    assert second.governance == first.governance
    services.schedules.revisions_freezes_profiles(keys, {"acme", "beta"}, NOW + 2_000)
    assert [len(detail.items) for _, detail in counts.calls] == [6, 2, 6]
    assert services.tenants.governance("acme", NOW + 2_600).read_at == NOW + 2_000  # without a request
    assert len(counts.calls) == 3


def test_a_profile_that_was_not_answered_is_not_none(memory: Memory, counts: Counts) -> None:
    services = memory.connect(counts)
    counts.refused = {("acme", "#profile")}
    batch = services.schedules.revisions_freezes_profiles([freeze_key("acme")], {"acme", "beta"}, NOW)
    assert set(batch.governance) == {"beta"}
    assert not batch.unanswered
    counts.refused = {(INSTALLATION, "#profile")}
    batch = memory.connect(counts).schedules.revisions_freezes_profiles([freeze_key("acme")], {"acme"}, NOW)
    assert not batch.governance


def test_a_damaged_profile_holds_for_nobody(memory: Memory) -> None:
    services = memory.connect()
    memory._tables[TENANTS].put("acme", "#profile", {"tenant": "acme", "item": "#profile", "state": "HAPPY"})
    batch = services.schedules.revisions_freezes_profiles([freeze_key("acme")], {"acme", "beta"}, NOW)
    assert set(batch.governance) == {"beta"}
    with pytest.raises(Unreadable):
        services.tenants.governance("acme", NOW)
    assert not list(services.tenants.profiles())


def test_what_is_remembered_is_bounded_and_what_a_batch_needs_stays(memory: Memory) -> None:
    """100,000 tenants in a minute: those of the last five seconds are remembered, and no batch misses one."""
    services = memory.connect()
    for batch in range(1_000):
        now, tenants = NOW + batch * 60, {f"t{batch * 100 + each}" for each in range(100)}
        found = services.schedules.revisions_freezes_profiles([], tenants | {"t0"}, now)
        assert set(found.governance) == tenants | {"t0"}
    known = vars(services.tenants)
    assert len(known["_known"]) <= 20_000
    assert len(known["_composed"]) <= 20_000


def test_it_is_one_object_until_something_is_read_anew(memory: Memory) -> None:
    tenants = memory.connect().tenants
    first = tenants.governance("acme", NOW)
    assert tenants.governance("acme", NOW + 3_999) is first
    assert tenants.governance("acme", NOW + 4_000) is not first


def test_a_tier_is_read_with_the_profiles_that_name_it() -> None:
    memory = Memory(lambda: NOW)
    here, there = memory.connect().tenants, memory.connect().tenants
    assert here.put(TenantProfile(tenant="acme", tier="gold"), expected=0)
    assert here.put(TenantProfile(tenant="~gold", queue="fast"), expected=0)
    assert here.governance("acme", NOW).profile.queue == "fast"
    assert there.put(TenantProfile(tenant="~gold", queue="slow"), expected=1)
    late = here.governance("acme", NOW + 5 * SECOND + 1)
    assert late.profile.queue == "slow"
    assert there.put(TenantProfile(tenant="~silver", queue="bulk"), expected=0)
    assert here.put(TenantProfile(tenant="acme", tier="silver"), expected=1)
    assert here.governance("acme", NOW + 5 * SECOND + 2).profile.queue == "bulk"


class ReadsMeanwhile(Hook):
    """Another thread of the process reads the profile while it is changed."""

    tenants: TenantStore | None = None

    def before_call(self, operation: str, detail: Detail) -> Collection[int]:
        if detail.verb == "put_profile" and self.tenants is not None:
            self.tenants.governance("acme", NOW)
        return ()


def test_a_profile_that_another_thread_read_during_its_change_is_forgotten() -> None:
    hook = ReadsMeanwhile()
    hook.tenants = Memory(lambda: NOW).connect(hook).tenants
    assert hook.tenants.put(TenantProfile(tenant="acme", queue="fast"), expected=0)
    assert hook.tenants.governance("acme", NOW).profile.queue == "fast"
