"""Stores of tenants: API keys, usage and erasures."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from quarterjack.domain.audit import AuditAct
from quarterjack.domain.run import RunState
from quarterjack.domain.tenants.api_key import ApiKey
from quarterjack.domain.tenants.erasure import DataKind, Erasure, ErasurePlace, Kept, SweepRules
from quarterjack.domain.tenants.limits import AcceptedRate, QuotaWord, RateWord
from quarterjack.domain.tenants.profile import TenantProfile, TenantState
from quarterjack.domain.times import DAY, SECOND
from quarterjack.errors import Unavailable
from quarterjack.ports.services import Services
from quarterjack.state.tenants.quota import Quota, QuotaCount
from quarterjack.stores.records import Record
from quarterjack.stores.tenants.schedule_counts import ScheduleCount
from quarterjack.testing.memory.installation import Memory

from tests.support.builders import NOON, a_run, an_attempt, an_audit_entry, an_entry
from tests.support.lease_steps import lease_of

KEY = ApiKey(
    tenant="acme", name="ci", slot=1, digest="ab", can=("operator",), jobs=("*",), created_at=NOON, created_by="app:a"
)
RATE = AcceptedRate(RateWord.RUNS, 2.0, 4)
RULES = SweepRules(tenant="acme", began_at=NOON, now=NOON, spares_running=True)
ERASURE = Erasure(tenant="acme", id="e1", since=NOON, began_at=NOON, actor="app:a", version=1)
PROFILE = TenantProfile(tenant="acme", state=TenantState.ERASED, version=1, created_at=NOON, updated_at=NOON)


def test_a_slot_has_one_valid_key(services: Services) -> None:
    line = an_audit_entry("acme", act=AuditAct.CREATE_KEY)
    assert services.api_keys.put(replace(KEY, expires_at=NOON + DAY), line)
    assert not services.api_keys.put(replace(KEY, digest="cd"), an_audit_entry("acme", at=NOON + DAY - 1))
    assert services.api_keys.put(replace(KEY, digest="cd"), an_audit_entry("acme", at=NOON + DAY)), (
        "the first has expired"
    )
    assert services.api_keys.keys("acme") == [replace(KEY, digest="cd")]
    assert services.api_keys.keys("acme2") == []


def test_a_revoked_key_is_believed_by_other_processes_for_five_seconds(memory: Memory) -> None:
    here, there = memory.connect(), memory.connect()
    here.api_keys.put(KEY, an_audit_entry("acme"))
    assert there.api_keys.key("acme", "ci", 1, NOON) == KEY
    assert not here.api_keys.revoke(replace(KEY, digest="cd"), an_audit_entry("acme"))
    assert here.api_keys.revoke(KEY, an_audit_entry("acme"))
    assert here.api_keys.key("acme", "ci", 1, NOON) is None
    read = [there.api_keys.key("acme", "ci", 1, NOON + ms) for ms in (5 * SECOND - 1, 5 * SECOND)]
    assert read == [KEY, None]


def test_the_last_use_of_a_key_is_noted_while_it_is_there(services: Services) -> None:
    services.api_keys.put(KEY, an_audit_entry("acme"))
    services.api_keys.mark_used(KEY, 7)
    services.api_keys.mark_used(replace(KEY, digest="cd"), 8)
    assert services.api_keys.keys("acme") == [replace(KEY, used_on=7)]


def test_processes_share_the_tokens_of_a_tenant(memory: Memory) -> None:
    here, there = memory.connect(), memory.connect()
    assert [here.usage.take("acme", RATE, NOON) for _ in range(4)] == [0, 0, 0, 0]
    assert there.usage.take("acme", RATE, NOON) > 0
    assert here.usage.left("acme", RATE, NOON) == 0
    assert there.usage.take("beta", RATE, NOON) == 0


def test_places_are_counted_anew_by_one_process_and_fail_open(memory: Memory) -> None:
    here, counted = memory.connect(), list[int]()

    def count(quota: Quota) -> QuotaCount:
        del quota
        counted.append(1)
        return QuotaCount(in_use=3)

    assert here.usage.take_place("acme", 4, NOON, count) == 0
    assert here.usage.take_place("acme", 4, NOON, count) > 0, "three were there, one was taken"
    here.usage.give_back_place("acme")
    assert here.usage.take_place("acme", 4, NOON, count) == 0
    assert len(counted) == 1
    found = here.usage.quota("acme", QuotaWord.WAITING_RUNS)
    assert found is not None
    assert found.in_use == 4

    def unknown(quota: Quota) -> QuotaCount:
        raise Unavailable("no answer")

    assert memory.connect().usage.take_place("beta", 4, NOON, unknown) == 0
    there = memory.connect().usage
    assert there.take_bytes("beta", 5, 10, NOON, lambda _: QuotaCount(in_use=0)) is None
    assert there.take_bytes("beta", 6, 10, NOON, lambda _: QuotaCount(in_use=5)) == 11


def test_a_process_that_could_not_count_leaves_it_to_the_next(memory: Memory) -> None:
    counted = list[int]()

    def count(quota: Quota) -> QuotaCount:
        counted.append(quota.in_use)
        return QuotaCount(in_use=0)

    def unknown(quota: Quota) -> QuotaCount:
        raise Unavailable("no answer")

    memory.connect().usage.take_place("acme", 4, NOON, unknown)
    assert memory.connect().usage.take_place("acme", 4, NOON, count) == 0
    assert len(counted) == 1


def test_a_process_leaves_places_to_the_others(memory: Memory) -> None:
    here, there = memory.connect().usage, memory.connect().usage

    def count(quota: Quota) -> QuotaCount:
        return QuotaCount(in_use=quota.in_use)

    assert [here.take_place("acme", 8, NOON, count) for _ in range(4)] == [0] * 4
    assert [there.take_place("acme", 8, NOON, count) for _ in range(3)] == [0] * 3


def test_a_limit_that_was_raised_counts_at_once(services: Services) -> None:
    def count(quota: Quota) -> QuotaCount:
        return QuotaCount(in_use=quota.in_use)

    assert services.usage.take_place("acme", 1, NOON, count) == 0
    assert services.usage.take_place("acme", 1, NOON, count) > 0
    assert services.usage.take_place("acme", 2, NOON, count) == 0


def test_a_count_of_schedules_is_put_over_the_one_before(services: Services) -> None:
    count = ScheduleCount(tenant="acme", schedules=3, fires_per_hour=60, version=1, counted_at=NOON)
    second = replace(count, version=2, schedules=9)
    puts = [services.usage.put_count(each) for each in (second, count, count, second)]
    assert puts == [False, True, False, True]
    assert services.usage.count("acme") == second


def test_an_erasure_is_written_with_its_profile_or_not_at_all(services: Services) -> None:
    assert services.erasures.gone(NOON) == frozenset()
    assert services.erasures.write(ERASURE, PROFILE, an_audit_entry("acme", act=AuditAct.ERASE_TENANT))
    assert services.erasures.gone(NOON + 5 * SECOND) == frozenset(), "it believes for five seconds"
    assert services.erasures.gone(NOON + 5 * SECOND + 1) == {"acme"}
    stale = replace(ERASURE, version=2)
    assert not services.erasures.write(stale, PROFILE, an_audit_entry("acme")), "the profile has changed"
    assert services.erasures.read("acme") == ERASURE
    assert services.erasures.save(replace(stale, found=1))
    assert services.erasures.save(replace(stale, found=1)), "a response was lost"
    assert not services.erasures.save(replace(stale, found=2))


def test_a_sweep_removes_the_rows_of_one_tenant(memory: Memory) -> None:
    services = memory.connect()
    runs = {tenant: a_run(owner=f"{tenant}/report") for tenant in ("acme", "acme2")}
    services.ledger.claim([*runs.values(), a_run(NOON + 1)])
    services.siblings.record(an_attempt(runs["acme"]))
    services.records.write(Record(owner="acme/report", key="~x", version=1, body={}))
    leased = lease_of(services, a_run(NOON + 1))
    swept = services.erasures.sweep(ErasurePlace.RUNS, ("",), RULES)
    assert swept.found == Counter({DataKind.RUN: 1, DataKind.BESIDE: 1, DataKind.RECORD: 1})
    assert swept.kept == Counter({Kept.RUNNING: 1})
    assert swept.cursors == (None,)
    assert {str(run.ref) for run in memory.runs()} == {str(leased.ref), str(runs["acme2"].ref)}
    asked = services.ledger.read(leased.ref)
    assert asked is not None
    assert asked.cancel_requested, "its worker is asked to end it"
    assert asked.state is RunState.RUNNING


def test_a_dry_sweep_counts_and_writes_nothing(memory: Memory) -> None:
    services = memory.connect()
    services.agenda.put([an_entry(), an_entry(owner="acme2/report")])
    swept = services.erasures.sweep(ErasurePlace.AGENDA, ("",), replace(RULES, is_dry=True))
    assert sum(swept.found.values()) == 1
    assert len(memory.entries()) == 2
    services.erasures.sweep(ErasurePlace.AGENDA, ("",), RULES)
    assert [entry.id for entry in memory.entries()] == ["acme2/report#1"]
