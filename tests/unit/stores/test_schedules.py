"""Schedules: a change is one transaction over the head's version, or nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from quarterjack.domain.audit import AuditAct
from quarterjack.domain.history.dead_run import DeadRunRow
from quarterjack.domain.run import AgendaEntry
from quarterjack.domain.schedule import ClosedBy, Freeze, Revision, ScheduleState, freeze_key
from quarterjack.domain.times import DAY, MINUTE
from quarterjack.errors import TooNew
from quarterjack.ports.services import Services
from quarterjack.stores.records import Record
from quarterjack.stores.schedules import IncidentChange
from quarterjack.stores.tables import SCHEDULES
from quarterjack.stores.tenants.schedule_counts import ScheduleCount, UsageChange
from quarterjack.testing.memory.installation import Memory

from tests.support.builders import NOON, OWNER, a_head, a_revision, a_run, an_audit_entry, an_entry

ENTRY = an_entry()
DEAD = DeadRunRow(run=a_run().ref, ended_at=NOON, job="report", fence=3, attempts=3, reason="failed")
TOKEN = Record(owner=OWNER, key="~token#t", version=1, body={})


def arm(services: Services, version: int = 1, *, previous: Revision | None = None, **more: object) -> bool:
    head, revision = a_head(version, revision=version), a_revision(version)
    given = {"expected": version - 1, "previous": previous, "revision": revision, "entry": an_entry(number=version)}
    return services.schedules.arm(head, **(given | more))  # type: ignore[arg-type]


def current(memory: Memory) -> tuple[int, list[int], list[AgendaEntry]]:
    """The head's version, the numbers of open revisions, the entries."""
    (head,) = memory.heads()
    opened = [revision.number for revision in memory.revisions(OWNER) if revision.active_until is None]
    return head.version, opened, memory.entries()


def test_an_update_replaces_the_revision_and_leaves_an_entry(memory: Memory) -> None:
    services = memory.connect()
    assert arm(services)
    ended = replace(a_revision(), active_until=NOON + MINUTE, closed_by=ClosedBy.REPLACED)
    assert arm(services, 2, previous=ended)
    assert current(memory) == (2, [2], [an_entry(number=1), an_entry(number=2)])
    assert [revision.number for revision in services.schedules.history(OWNER)] == [2, 1]


def test_a_lost_race_writes_nothing(memory: Memory) -> None:
    services = memory.connect()
    arm(services)
    assert not arm(services)
    assert not arm(services, 3)
    closed = replace(a_revision(), active_until=NOON, closed_by=ClosedBy.REPLACED)
    assert services.schedules.close(a_head(2), expected=1, revision=closed)
    assert not arm(services, 3, previous=closed), "its revision is closed"
    assert current(memory) == (2, [], [ENTRY])


def test_a_client_token_is_used_once(services: Services) -> None:
    assert arm(services, token=TOKEN)
    again = {"previous": None, "revision": a_revision(name="b"), "entry": None, "token": replace(TOKEN, body={"b": 1})}
    assert not services.schedules.arm(a_head(name="b"), expected=0, **again)  # type: ignore[arg-type]
    assert services.schedules.head("acme", "b") is None


@pytest.mark.parametrize(("most", "fits"), [(3, False), (4, True), (None, True)])
def test_a_schedule_beyond_the_limit_is_refused(services: Services, most: int | None, fits: bool) -> None:
    services.usage.put_count(ScheduleCount(tenant="acme", schedules=3, fires_per_hour=0, version=1))
    change = UsageChange(tenant="acme", schedules=1, fires_per_hour=60, most_schedules=most, most_fires=None)
    assert arm(services, usage=change) is fits
    count = services.usage.count("acme")
    assert count is not None
    assert (count.schedules, count.fires_per_hour) == ((4, 60) if fits else (3, 0))


def test_a_drain_may_become_a_pause_and_nothing_else_is_closed_twice(services: Services) -> None:
    arm(services)

    def close(version: int, by: ClosedBy) -> bool:
        revision = replace(a_revision(), active_until=NOON + version, closed_by=by)
        return services.schedules.close(a_head(version), expected=version - 1, revision=revision)

    assert [close(2, ClosedBy.DRAINED), close(3, ClosedBy.PAUSED), close(4, ClosedBy.DELETED)] == [True, True, False]
    (found,) = services.schedules.revisions([(OWNER, 1)]).found.values()
    assert (found.closed_by, found.active_until) == (ClosedBy.PAUSED, NOON + 3)


def test_only_the_current_revision_completes(services: Services) -> None:
    arm(services)
    line = an_audit_entry(act=AuditAct.COMPLETE, actor="system:ticker")
    assert not services.schedules.complete(line, revision=2, to=ScheduleState.COMPLETED)
    assert services.schedules.complete(line, revision=1, to=ScheduleState.COMPLETED)
    head = services.schedules.head("acme", "report")
    assert head is not None
    assert (head.state, head.version, head.actor) == (ScheduleState.COMPLETED, 2, "system:ticker")


def test_a_chain_moves_to_another_shard_with_its_entry(memory: Memory) -> None:
    services = memory.connect()
    arm(services)
    assert services.schedules.move(a_revision(), ENTRY, 3)
    assert memory.entries() == [replace(ENTRY, shard=3)]
    assert [revision.shard for revision in memory.revisions(OWNER)] == [3]
    assert not services.schedules.move(a_revision(), ENTRY, 2), "the entry was handled meanwhile"
    assert [revision.shard for revision in memory.revisions(OWNER)] == [3]


def test_an_incident_is_noted_with_its_dead_run_or_not_at_all(services: Services) -> None:
    arm(services)
    ended = replace(a_revision(failing=2), active_until=NOON, closed_by=ClosedBy.PAUSED)
    change = IncidentChange(
        head=a_head(2), expected=1, revision=ended, closes=True, dead=DEAD, expires=NOON + DAY, records=(TOKEN,)
    )
    assert services.schedules.note(change)
    (found,) = services.schedules.revisions([(OWNER, 1)]).found.values()
    assert (found.failing, found.closed_by) == (2, ClosedBy.PAUSED)
    assert services.records.read(OWNER, TOKEN.key) == TOKEN
    assert not services.schedules.note(replace(change, head=a_head(3), expected=2, revision=None)), "the line exists"
    head = services.schedules.head("acme", "report")
    assert head is not None
    assert head.version == 2


def test_revisions_are_read_with_the_freeze_of_their_tenant(memory: Memory) -> None:
    services = memory.connect()
    arm(services)
    memory.put_revision(OWNER, 2, ValueError("broken"))
    freeze = Freeze(tenant="acme", until=NOON + DAY, created_at=NOON, reason="audit", actor="app:a")
    services.schedules.freeze(freeze, an_audit_entry("acme", act=AuditAct.FREEZE))
    batch = services.schedules.revisions([(OWNER, 1), (OWNER, 2), (OWNER, 3), freeze_key("acme")])
    assert list(batch.found) == [(OWNER, 1)]
    assert list(batch.broken) == [(OWNER, 2)]
    assert batch.frozen == {"acme": freeze}
    assert batch.unanswered == frozenset()


def test_heads_are_listed_by_name_and_scanned_to_the_end(memory: Memory) -> None:
    for name in ("b/2", "b/1", "a"):
        memory.put_head(a_head(name=name))
    memory.put_head(a_head(tenant="beta", name="b/3"))
    schedules = memory.connect().schedules
    first = schedules.page("acme", prefix="b/", limit=1, cursor=None)
    rest = schedules.page("acme", prefix="b/", limit=9, cursor=first.cursor)
    assert [head.name for head in [*first.items, *rest.items]] == ["b/1", "b/2"]
    seen, cursor = set[str](), ""
    for _ in range(9):
        found, cursor = schedules.scan_heads(cursor, limit=1)
        seen |= {head.owner for head in found}
        if not cursor:
            break
    assert seen == {"acme/a", "acme/b/1", "acme/b/2", "beta/b/3"}
    assert [head.name for head in schedules.heads([("acme", "a"), ("acme", "none")])] == ["a"]


def test_a_head_that_cannot_be_read_is_logged_by_its_key_and_told(
    memory: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("a", "b"):
        memory.put_head(a_head(name=name))
    rows = memory._tables[SCHEDULES]
    row = rows.get("acme", "b")
    assert row is not None
    rows.put("acme", "b", row | {"v": 2})
    page = memory.connect().schedules.page("acme", prefix="", limit=9, cursor=None)
    assert ([head.name for head in page.items], [*page.unread]) == (["a"], ["b"])
    assert isinstance(page.unread["b"], TooNew)
    (told,) = caplog.records
    assert (told.message, vars(told)["tenant"], vars(told)["schedule"]) == ("head.unreadable", "acme", "b")
    assert vars(told)["error"].startswith("schedule acme/b of schema 2: this release reads up to 1")
