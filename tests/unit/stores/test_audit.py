"""The audit: a line is written with its act, and none after its day was closed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from quarterjack.domain.audit import GATES, DayClose
from quarterjack.domain.times import DAY
from quarterjack.errors import Unavailable
from quarterjack.ports.services import Services
from quarterjack.stores.audit import audit_row, close_row
from quarterjack.stores.tables import AUDIT
from quarterjack.testing.memory.installation import Memory

from tests.support.builders import NOON, a_head, a_revision, an_audit_entry

TODAY = NOON // DAY
CLOSE = DayClose(tenant="acme", number=1, day=TODAY, entries=1, root="r", previous="", closed_at=NOON)


def test_lines_of_a_day_are_read_as_they_were_written(services: Services) -> None:
    lines = [an_audit_entry(at=NOON + n, before=n, reason="why") for n in range(3)]
    for line in lines[::-1]:
        services.audit.write(line)
    services.audit.write(an_audit_entry(at=NOON + DAY))
    found = list(services.audit.entries("acme", TODAY))
    assert [each.entry for each in found] == lines
    assert all(each.is_genuine for each in found)
    page = services.audit.page("acme", TODAY, first=lines[0].key, last=lines[1].key, only=None, limit=9)
    assert page.items == [lines[1], lines[0]], "newest first"


def test_a_refused_act_has_no_line(services: Services) -> None:
    new = {"previous": None, "revision": a_revision(), "entry": None}
    assert services.schedules.arm(a_head(), expected=0, audit=an_audit_entry(), **new)  # type: ignore[arg-type]
    assert not services.schedules.arm(a_head(), expected=0, audit=an_audit_entry(at=NOON + 1), **new)  # type: ignore[arg-type]
    assert len(list(services.audit.entries("acme", TODAY))) == 1


def test_a_line_that_was_changed_is_not_genuine(memory: Memory) -> None:
    line = an_audit_entry()
    row = audit_row(line)
    memory._tables[AUDIT].put(row["partition"], row["key"], row | {"actor": "app:mallory"})
    (found,) = memory.connect().audit.entries("acme", TODAY)
    assert (found.is_genuine, found.is_erased) == (False, False)


def test_an_erased_line_keeps_its_digest(memory: Memory) -> None:
    row = audit_row(an_audit_entry())
    left = {name: row[name] for name in ("partition", "key", "digest")} | {"erased": NOON}
    memory._tables[AUDIT].put(row["partition"], row["key"], left)
    (found,) = memory.connect().audit.entries("acme", TODAY)
    assert (found.entry, found.is_erased, found.digest) == (None, True, row["digest"])
    page = memory.connect().audit.page("acme", TODAY, first="0", last="9", only=None, limit=9)
    assert page.items == []


def test_no_line_comes_after_its_day_was_closed(services: Services) -> None:
    services.audit.shut("acme", TODAY, now=NOON)
    for _ in range(GATES):  # each line has one of the gates
        with pytest.raises(Unavailable, match="is closed"):
            services.audit.write(an_audit_entry())
    services.audit.write(an_audit_entry("beta/report"))
    services.audit.write(an_audit_entry(at=NOON + DAY))
    assert list(services.audit.entries("acme", TODAY)) == []


def test_the_closed_days_are_told_by_their_gates(memory: Memory) -> None:
    services = memory.connect()
    for day in (TODAY - 1, TODAY, TODAY + 1):
        services.audit.shut("acme", day, now=NOON)
    whole = services.audit.shut_days("acme", TODAY - 1, TODAY)
    assert whole.days == {TODAY - 1, TODAY}
    assert not whole.damaged
    (gate, *_) = [row for _, _, row in memory._tables[AUDIT] if row.get("day") == TODAY]
    memory._tables[AUDIT].delete(gate["partition"], gate["key"])
    damaged = services.audit.shut_days("acme", TODAY, TODAY)
    assert damaged.days == {TODAY}
    assert f"{GATES - 1} of its {GATES} gates" in damaged.damaged[TODAY]


def test_a_number_is_closed_once(services: Services) -> None:
    assert services.audit.close(CLOSE)
    assert not services.audit.close(replace(CLOSE, root="another"))
    services.audit.close(replace(CLOSE, number=2, previous=CLOSE.digest))
    assert [each.close and each.close.number for each in services.audit.closes("acme")] == [1, 2]
    (newest,) = services.audit.closes("acme", newest=1)
    assert (newest.number, newest.is_genuine) == (2, True)
    assert services.audit.closes("beta") == []


def test_tenants_register_for_a_day_and_days_are_done(services: Services) -> None:
    for tenant in ("acme", "beta", "acme"):
        services.audit.register(tenant, TODAY)
    assert services.audit.tenants(TODAY) == ["acme", "beta"]
    assert services.audit.tenants(TODAY + 1) == []
    services.audit.mark_done(TODAY)
    assert services.audit.done_days() == {TODAY}


def test_a_close_that_cannot_be_read_is_told_by_its_number(memory: Memory) -> None:
    services = memory.connect()
    services.audit.close(CLOSE)
    damaged = close_row(replace(CLOSE, number=2)) | {"day": "today"}
    memory._tables[AUDIT].put(damaged["partition"], damaged["key"], damaged)
    first, second = services.audit.closes("acme")
    assert first.is_genuine
    assert (second.number, second.close, second.is_genuine) == (2, None, False)
    assert second.problem
