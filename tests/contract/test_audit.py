"""The audit on every engine: an entry is written with its act or not at all, and not into a closed day."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from quarterjack.domain.audit import AuditAct, AuditEntryRow, DayClose, root_of
from quarterjack.domain.run import RunState
from quarterjack.domain.schedule import Freeze, ScheduleState
from quarterjack.domain.times import DAY, MINUTE
from quarterjack.errors import Unavailable
from quarterjack.ports.services import Services
from quarterjack.state.ending import cancel, request_cancel
from quarterjack.state.transition import Compare, any_of, signed
from quarterjack.stores.audit import ShutDays
from quarterjack.stores.records import Record

from tests.support.builders import NOON, OWNER, a_head, a_one_off, a_revision, a_run, an_audit_entry, an_entry

TODAY = NOON // DAY


def entries(services: Services, day: int = TODAY) -> list[AuditEntryRow | None]:
    found = list(services.audit.entries("acme", day))
    assert all(each.is_genuine for each in found)
    return [each.entry for each in found]


def test_a_change_of_a_schedule_writes_its_line_or_neither(services: Services) -> None:
    made, lost = (
        an_audit_entry(act=AuditAct.CREATE, before=None, after=1, version=1),
        an_audit_entry(act=AuditAct.CREATE),
    )
    new: Any = {"previous": None, "revision": a_revision(), "entry": an_entry()}
    assert services.schedules.arm(a_head(actor="app:alice"), expected=0, audit=made, **new)
    assert not services.schedules.arm(a_head(), expected=0, audit=lost, **new)
    assert entries(services) == [made]
    head = services.schedules.head("acme", "report")
    assert head is not None
    assert head.actor == "app:alice"
    paused = an_audit_entry(act=AuditAct.PAUSE, at=NOON + 1, reason="why", identity="iam:x", detail={"a": [1, "b"]})
    assert services.schedules.close(a_head(2), expected=1, revision=None, audit=paused)
    assert not services.schedules.close(a_head(2), expected=1, revision=None, audit=an_audit_entry(at=NOON + 2))
    assert entries(services) == [made, paused]


def test_a_completion_and_a_freeze_have_their_lines(services: Services) -> None:
    services.schedules.arm(a_head(), expected=0, previous=None, revision=a_revision(), entry=None)
    over = an_audit_entry(act=AuditAct.COMPLETE, actor="system:ticker")
    assert services.schedules.complete(over, revision=1, to=ScheduleState.COMPLETED)
    assert not services.schedules.complete(replace(over, id="ff"), revision=1, to=ScheduleState.COMPLETED)
    frozen = an_audit_entry("acme", at=NOON + 1, act=AuditAct.FREEZE)
    services.schedules.freeze(Freeze(tenant="acme", until=NOON, created_at=1, actor="app:a"), frozen)
    assert entries(services) == [over, frozen]


def test_a_run_is_put_with_its_line_or_neither(services: Services) -> None:
    for number, payload in enumerate(('"small"', '"' + "x" * 1_000 + '"')):
        run = a_one_off(f"k{number}", payload=payload, actor="app:alice")
        entry = an_audit_entry(str(run.ref), at=NOON + number, act=AuditAct.REPLAY)
        assert services.ledger.submit(run, entry) is None
        again = services.ledger.submit(run, an_audit_entry(str(run.ref), at=NOON + number, act=AuditAct.REPLAY))
        assert again is not None
        assert again.payload == payload
        assert again.actor == "app:alice"
    assert len(entries(services)) == 2


def test_a_skipped_fire_is_put_with_its_line_or_neither(services: Services) -> None:
    run = a_run(state=RunState.SKIPPED, ended_at=NOON, reason="skip_next", actor="app:alice")
    entry = an_audit_entry(str(run.ref), act=AuditAct.SKIP)
    assert services.ledger.put(run, entry) is None
    there = services.ledger.put(run, an_audit_entry(str(run.ref), act=AuditAct.SKIP))
    assert there is not None
    assert (there.state, there.actor) == (RunState.SKIPPED, "app:alice")
    assert entries(services) == [entry]


def test_a_transition_is_made_with_its_line_or_neither(services: Services) -> None:
    run = a_one_off(payload='"' + "x" * 1_000 + '"')
    services.ledger.submit(run)
    entry = an_audit_entry(str(run.ref), act=AuditAct.CANCEL)
    asked = services.ledger.move(run.ref, request_cancel(), an_audit_entry(str(run.ref), act=AuditAct.CANCEL))
    assert (asked.applied, asked.run and asked.run.state) == (False, RunState.QUEUED)
    end = signed(cancel(now=NOON, expires=NOON + DAY), "app:alice")
    moved = services.ledger.move(run.ref, end, entry)
    assert moved.run is not None
    assert (moved.applied, moved.run.state, moved.run.actor) == (True, RunState.CANCELLED, "app:alice")
    again = services.ledger.move(run.ref, end, an_audit_entry(str(run.ref), act=AuditAct.CANCEL))
    assert again.applied, "the row shows it"
    nobody = services.ledger.move(a_one_off("none").ref, end, an_audit_entry(str(run.ref), act=AuditAct.CANCEL))
    assert (nobody.applied, nobody.run) == (False, None)
    assert entries(services) == [entry]


def test_a_record_is_written_with_its_line_or_neither(services: Services) -> None:
    record = Record(owner=OWNER, key="~backfill~b", version=1, body={"state": "RUNNING"})
    entry = an_audit_entry(f"{OWNER}#backfill/b", act=AuditAct.BACKFILL)
    assert services.records.write(record, entry)
    assert not services.records.write(record, an_audit_entry(f"{OWNER}#backfill/b", act=AuditAct.BACKFILL))
    assert entries(services) == [entry]


def test_a_closed_day_takes_no_line_and_no_act(services: Services) -> None:
    services.audit.shut("acme", TODAY, now=NOON + DAY)
    new: Any = {"previous": None, "revision": a_revision(), "entry": None}
    for _ in range(20):  # through every gate
        with pytest.raises(Unavailable, match="is closed, so nothing was written"):
            services.schedules.arm(a_head(), expected=0, audit=an_audit_entry(), **new)
    assert services.schedules.head("acme", "report") is None
    assert services.schedules.arm(a_head(), expected=0, audit=an_audit_entry(at=NOON + DAY), **new)
    assert entries(services) == []
    assert len(entries(services, TODAY + 1)) == 1
    assert services.audit.shut_days("acme", TODAY - 3, TODAY + 3) == ShutDays(days=frozenset({TODAY}))
    assert services.audit.shut_days("other", TODAY - 3, TODAY + 3).days == frozenset()


def test_lines_are_read_backwards_by_conditions(services: Services) -> None:
    made = [an_audit_entry(at=NOON + i * MINUTE, actor=f"app:u{i % 2}", id=f"{i:016x}") for i in range(9)]
    for number, entry in enumerate(made):
        services.records.write(Record(owner=OWNER, key=f"~r{number}", version=1, body={}), entry)
    span: dict[str, Any] = {"first": "0", "last": "9"}
    page = services.audit.page("acme", TODAY, only=None, limit=4, **span)
    assert page.items == made[:-5:-1]
    assert page.cursor == made[5].key
    rest = services.audit.page("acme", TODAY, only=None, limit=50, first="0", last=page.cursor)
    assert rest.items == made[5::-1]
    mine = any_of(Compare("actor", "=", "app:u1"), Compare("identity", "=", "none"))
    assert services.audit.page("acme", TODAY, only=mine, limit=50, **span).items == made[7::-2]
    assert services.audit.page("other", TODAY, only=None, limit=50, **span).items == []


def test_closes_are_put_once_and_read_in_their_order(services: Services) -> None:
    closes = [
        DayClose(
            tenant="acme",
            number=n,
            day=TODAY + n,
            entries=n,
            root=root_of(["a" * n]),
            previous="p" * (n > 1),
            closed_at=n,
        )
        for n in range(1, 12)
    ]
    for close in closes:
        assert services.audit.close(close)
        assert not services.audit.close(replace(close, entries=99))
    assert [each.close for each in services.audit.closes("acme")] == closes
    assert all(each.is_genuine for each in services.audit.closes("acme"))
    assert [each.number for each in services.audit.closes("acme", newest=3)] == [9, 10, 11]
    assert services.audit.closes("other") == []


def test_tenants_are_registered_by_day(services: Services) -> None:
    for tenant in ("b", "a", "b"):
        services.audit.register(tenant, TODAY)
    assert services.audit.tenants(TODAY) == ["a", "b"]
    assert services.audit.tenants(TODAY + 1) == []
    services.audit.mark_done(TODAY)
    assert services.audit.done_days() == {TODAY}
