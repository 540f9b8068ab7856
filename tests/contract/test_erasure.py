"""The data of one tenant in tables and buckets, on every engine."""

from __future__ import annotations

from collections.abc import Iterator

from quarterjack.domain.audit import AuditAct
from quarterjack.domain.history.dead_run import dead_run_row
from quarterjack.domain.names import fire_ref
from quarterjack.domain.run import RunState
from quarterjack.domain.tenants.certificate import certificate_key
from quarterjack.domain.tenants.erasure import PARTS, DataKind, Erasure, ErasurePlace, Kept, SweepRules, Swept
from quarterjack.domain.tenants.profile import TenantProfile, TenantState
from quarterjack.domain.times import MINUTE
from quarterjack.ports.buckets import ObjectVersion
from quarterjack.ports.services import Services

from tests.support.builders import (
    NOON,
    a_head,
    a_one_off,
    a_revision,
    a_run,
    an_audit_entry,
    an_entry,
)
from tests.support.engines import Engine

RULES = SweepRules(tenant="acme", began_at=NOON, now=NOON)


def _swept(place: ErasurePlace, services: Services, rules: SweepRules = RULES) -> Iterator[Swept]:
    cursors: tuple[str | None, ...] = ("",) * PARTS
    while any(cursor is not None for cursor in cursors):
        swept = services.erasures.sweep(place, cursors, rules)
        yield swept
        cursors = swept.cursors


def _found(place: ErasurePlace, services: Services, rules: SweepRules = RULES) -> dict[DataKind, int]:
    found = dict[DataKind, int]()
    for swept in _swept(place, services, rules):
        for kind, count in swept.found.items():
            found[kind] = found.get(kind, 0) + count
    return found


def test_rows_of_one_tenant_go_and_those_of_others_stay(services: Services) -> None:
    for tenant in ("acme", "acme2", "acm"):
        owner = f"{tenant}/report"
        head, revision = a_head(tenant=tenant), a_revision(tenant=tenant)
        assert services.schedules.arm(
            head, expected=0, previous=None, revision=revision, entry=an_entry(owner=owner), audit=an_audit_entry(owner)
        )
        services.ledger.claim([a_run(NOON + n * MINUTE, owner=owner) for n in range(3)])
        services.ledger.submit(a_one_off(tenant=tenant))
        services.dead_index.put(dead_run_row(a_run(owner=owner, ended_at=NOON)), expires=NOON * 2)
    dry = SweepRules(tenant="acme", began_at=NOON, now=NOON, is_dry=True)
    counted = {
        place: _found(place, services, dry)
        for place in (ErasurePlace.AGENDA, ErasurePlace.RUNS, ErasurePlace.SCHEDULES)
    }
    assert counted[ErasurePlace.RUNS] == {DataKind.RUN: 4, DataKind.DEAD_ENTRY: 1}
    assert counted == {place: _found(place, services) for place in counted}
    assert _found(ErasurePlace.REVISIONS, services) == {DataKind.REVISION: 1}
    assert _found(ErasurePlace.AUDIT, services) == {DataKind.AUDIT_ENTRY: 1}
    for place in (
        ErasurePlace.AGENDA,
        ErasurePlace.RUNS,
        ErasurePlace.SCHEDULES,
        ErasurePlace.REVISIONS,
        ErasurePlace.AUDIT,
    ):
        assert _found(place, services) == {}
    assert sum(swept.kept[Kept.DIGEST] for swept in _swept(ErasurePlace.AUDIT, services)) == 1
    day = NOON // 86_400_000
    assert [line.is_erased for line in services.audit.entries("acme", day)] == [True]
    for tenant in ("acme2", "acm"):
        assert services.schedules.head(tenant, "report") is not None
        assert len(list(services.ledger.window(f"{tenant}/report", after=0, upto=NOON * 2))) == 3
        assert [line.is_erased for line in services.audit.entries(tenant, day)] == [False]
    assert {entry.id for entry in services.agenda.due(0, upto=NOON * 2, after=None, limit=9).entries} == {
        "acme2/report#1",
        "acm/report#1",
    }


def test_a_run_that_a_worker_has_is_asked_to_end(services: Services) -> None:
    running = a_run(lease_until=NOON + MINUTE, state=RunState.RUNNING, fence=1)
    services.ledger.claim([running, a_run(NOON + MINUTE)])
    sparing = SweepRules(tenant="acme", began_at=NOON, now=NOON, spares_running=True)
    steps = list(_swept(ErasurePlace.RUNS, services, sparing))
    assert sum(swept.kept[Kept.RUNNING] for swept in steps) == 1
    found = services.ledger.read(running.ref)
    assert found is not None
    assert found.cancel_requested
    assert services.ledger.read(fire_ref("acme/report", NOON + MINUTE)) is None
    assert _found(ErasurePlace.RUNS, services) == {DataKind.RUN: 1}


def test_an_erasure_is_stored_over_the_version_that_was_read(services: Services) -> None:
    store, profile = services.erasures, TenantProfile(tenant="acme", state=TenantState.ERASING, version=1)
    assert (store.read("acme"), store.gone(0)) == (None, frozenset())
    erasure = Erasure(tenant="acme", id="e1", since=NOON, began_at=NOON, actor="app:alice", version=1)
    assert store.write(erasure, profile, an_audit_entry("acme", act=AuditAct.ERASE_TENANT))
    assert store.read("acme") == erasure
    assert not store.write(erasure, profile, an_audit_entry("acme", act=AuditAct.ERASE_TENANT))
    further = erasure.next_pass(NOON + 1).after(Swept(cursors=("x", None)))
    stored = Erasure(**vars(further) | {"version": 2})
    assert store.save(stored)
    assert store.save(stored), "the response of the first attempt may have been lost"
    assert not store.save(Erasure(**vars(stored) | {"number": 9}))
    assert store.read("acme") == stored
    assert store.gone(NOON) == {"acme"}
    found = services.tenants.profile("acme")
    assert found is not None
    assert found.state is TenantState.ERASING


def _keys(services: Services, prefix: str) -> list[ObjectVersion]:
    cursor: str | None = ""
    found = list[ObjectVersion]()
    while cursor is not None:
        page = services.objects.page(prefix, cursor)
        found += page.versions
        cursor = page.cursor
    return found


def test_objects_go_with_all_their_versions_and_marks(engine: Engine) -> None:
    services = engine.services
    if engine.settings is not None:
        versioned = {"Bucket": engine.settings.bucket, "VersioningConfiguration": {"Status": "Enabled"}}
        engine.clients["s3"].put_bucket_versioning(**versioned)
    prefix = "archive/tenant=acme/"
    services.archive.put({f"{prefix}{n}": b"1" for n in range(5)} | {"archive/tenant=acme2/1": b"other"})
    services.archive.put({f"{prefix}1": b"2"})
    services.archive.remove([f"{prefix}2"])
    key = services.payloads.put("acme", "secret")
    found = _keys(services, prefix)
    assert len(found) >= 4
    assert {services.objects.read(each) for each in found if not each.is_marker} <= {b"1", b"2"}
    assert not services.objects.remove(found)
    assert not services.objects.remove(_keys(services, "payloads/acme/"))
    assert _keys(services, prefix) == _keys(services, "payloads/acme/") == []
    assert len(_keys(services, "archive/tenant=acme2/")) == 1
    assert services.objects.read(ObjectVersion(key=key, version=found[0].version)) is None
    assert services.archive.put_new(certificate_key("acme", "e1"), b"{}")


def test_objects_of_a_bucket_without_versions_go_as_well(services: Services) -> None:
    keys = [services.payloads.keep("acme", f"result {n}") for n in range(3)]
    found = _keys(services, "results/acme/")
    assert sorted(each.key for each in found) == sorted(keys)
    assert not services.objects.remove(found)
    assert _keys(services, "results/acme/") == []
