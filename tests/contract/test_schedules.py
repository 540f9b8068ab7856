"""Heads and revisions: one transaction or nothing, conditional on the head not having moved."""

from __future__ import annotations

from dataclasses import replace

import pytest
from quarterjack.domain.policies import Delivery, Overrides, Retry, Start
from quarterjack.domain.run import AgendaEntry, EntryKind
from quarterjack.domain.schedule import ClosedBy, Head, Revision, ScheduleState
from quarterjack.domain.times import MINUTE
from quarterjack.ports.services import Services
from quarterjack.stores.records import Record

from tests.support.builders import NOON, OWNER, a_definition, a_head, a_revision, an_audit_entry, an_entry

T0 = NOON + 5 * MINUTE


def armed(services: Services, name: str = "report") -> tuple[Head, Revision]:
    """A schedule as created: head, revision 1, first entry."""
    head, revision = a_head(name=name), a_revision(name=name)
    entry = an_entry(NOON + MINUTE, owner=f"acme/{name}")
    assert services.schedules.arm(head, expected=0, previous=None, revision=revision, entry=entry)
    return head, revision


def revision_of(services: Services, number: int, owner: str = OWNER) -> Revision | None:
    return services.schedules.revisions([(owner, number)]).found.get((owner, number))


def entries(services: Services) -> list[str]:
    return [entry.id for entry in services.agenda.due(0, upto=NOON * 10, after=None, limit=500).entries]


def closed(revision: Revision, by: ClosedBy = ClosedBy.REPLACED) -> Revision:
    return replace(revision, active_until=T0, closed_by=by)


# Arm.


def test_arming_writes_head_revision_and_entry(services: Services) -> None:
    head, revision = armed(services)
    assert services.schedules.head("acme", "report") == head
    assert revision_of(services, 1) == revision
    assert entries(services) == [f"{OWNER}#1"]


def test_the_first_entry_names_the_queue_of_its_messages(services: Services) -> None:
    entry = an_entry(NOON + MINUTE, queue="reports")
    assert services.schedules.arm(a_head(), expected=0, previous=None, revision=a_revision(), entry=entry)
    assert services.agenda.due(0, upto=NOON * 10, after=None, limit=500).entries == [entry]


def test_a_rich_schedule_comes_back_whole(services: Services) -> None:
    head = a_head(
        description="Über alles", tags={"team": "α", "empty": ""}, reason="why", state=ScheduleState.PAUSED, version=1
    )
    definition = a_definition(
        "0 9 * * MON-FRI",
        timezone="Europe/Berlin",
        payload='{"a":[1,2.5,null,"\\u00e4"]}',
        overrides=Overrides(
            delivery=Delivery.AT_MOST_ONCE, start=Start.EXACT, retry=Retry(max_attempts=5, base=0.5, cap=60.0)
        ),
    )
    revision = a_revision(definition=definition, active_until=NOON, closed_by=ClosedBy.PAUSED, shard=3)
    assert services.schedules.arm(head, expected=0, previous=None, revision=revision, entry=None)
    assert services.schedules.head("acme", "report") == head
    assert revision_of(services, 1) == revision
    assert entries(services) == []


def test_arming_an_update_closes_the_previous_revision(services: Services) -> None:
    _, first = armed(services)
    second, head = a_revision(2, active_from=T0), a_head(2, revision=2)
    assert services.schedules.arm(
        head, expected=1, previous=closed(first), revision=second, entry=an_entry(T0 + MINUTE, number=2)
    )
    assert revision_of(services, 1) == closed(first)
    assert revision_of(services, 2) == second
    assert services.schedules.head("acme", "report") == head
    assert entries(services) == [f"{OWNER}#1", f"{OWNER}#2"]


@pytest.mark.parametrize("expected", [0, 2])
def test_a_lost_race_leaves_nothing_half_written(services: Services, expected: int) -> None:
    head, first = armed(services)
    lost = services.schedules.arm(
        a_head(3, revision=2, job="other"),
        expected=expected,
        previous=closed(first),
        revision=a_revision(2, active_from=T0),
        entry=an_entry(T0 + MINUTE, number=2),
    )
    assert not lost
    assert services.schedules.head("acme", "report") == head
    assert revision_of(services, 1) == first
    assert revision_of(services, 2) is None
    assert entries(services) == [f"{OWNER}#1"]


def test_no_revision_is_written_twice(services: Services) -> None:
    head, first = armed(services)
    again = services.schedules.arm(
        a_head(2), expected=1, previous=None, revision=a_revision(1, active_from=T0), entry=an_entry(T0, number=1)
    )
    assert not again
    assert services.schedules.head("acme", "report") == head
    assert revision_of(services, 1) == first


def test_a_closed_revision_is_not_closed_again(services: Services) -> None:
    _, first = armed(services)
    paused = a_head(2, state=ScheduleState.PAUSED)
    assert services.schedules.close(paused, expected=1, revision=closed(first, ClosedBy.PAUSED))
    lost = services.schedules.arm(
        a_head(3, revision=2),
        expected=2,
        previous=replace(closed(first), active_until=T0 + 1),
        revision=a_revision(2),
        entry=None,
    )
    assert not lost
    assert services.schedules.head("acme", "report") == paused
    assert revision_of(services, 2) is None


# Close.


def test_closing_moves_the_head_and_ends_the_revision(services: Services) -> None:
    _, first = armed(services)
    paused = a_head(2, state=ScheduleState.PAUSED, reason="holidays", updated_at=T0)
    assert services.schedules.close(paused, expected=1, revision=closed(first, ClosedBy.PAUSED))
    assert services.schedules.head("acme", "report") == paused
    assert revision_of(services, 1) == closed(first, ClosedBy.PAUSED)


def test_closing_on_a_moved_head_writes_nothing(services: Services) -> None:
    head, first = armed(services)
    paused = a_head(3, state=ScheduleState.PAUSED)
    assert not services.schedules.close(paused, expected=2, revision=closed(first, ClosedBy.PAUSED))
    assert services.schedules.head("acme", "report") == head
    assert revision_of(services, 1) == first


def test_a_drain_may_become_a_pause_but_nothing_else_changes_an_end(services: Services) -> None:
    _, first = armed(services)
    draining = closed(first, ClosedBy.DRAINED)
    assert services.schedules.close(a_head(2, state=ScheduleState.PAUSED), expected=1, revision=draining)
    stopped = replace(draining, closed_by=ClosedBy.PAUSED)
    assert services.schedules.close(a_head(3, state=ScheduleState.PAUSED), expected=2, revision=stopped)
    assert revision_of(services, 1) == stopped
    deleted = replace(stopped, closed_by=ClosedBy.DELETED)
    assert not services.schedules.close(a_head(4, state=ScheduleState.DELETED), expected=3, revision=deleted)
    assert revision_of(services, 1) == stopped
    head = services.schedules.head("acme", "report")
    assert head is not None
    assert (head.version, head.state) == (3, ScheduleState.PAUSED)


def test_a_head_may_move_alone(services: Services) -> None:
    armed(services)
    gone = a_head(2, state=ScheduleState.DELETED)
    assert services.schedules.close(gone, expected=1, revision=None)
    assert services.schedules.head("acme", "report") == gone, "a deleted head stays"


def test_a_pause_puts_the_entry_that_ends_it_or_nothing(services: Services) -> None:
    _, first = armed(services)
    ends = AgendaEntry(shard=0, due=T0 + 60_000, kind=EntryKind.RESUME, id="acme/report")
    paused = a_head(2, state=ScheduleState.PAUSED, resume_at=ends.due)
    assert not services.schedules.close(a_head(3), expected=2, revision=None, entry=ends)
    assert entries(services) == [first.id]
    assert services.schedules.close(paused, expected=1, revision=closed(first, ClosedBy.PAUSED), entry=ends)
    page = services.agenda.due(0, upto=NOON * 10, after=None, limit=500)
    assert ends in page.entries
    assert sorted(entries(services)) == [OWNER, first.id]
    assert services.schedules.head("acme", "report") == paused


# Client tokens.


def a_token(version: int = 1, **body: object) -> Record:
    return Record(owner="acme/~token", key="~token~t", version=version, body=body, expires=T0)


def test_a_token_stands_and_falls_with_its_transaction(services: Services) -> None:
    head, first = armed(services)
    lost = services.schedules.close(a_head(3), expected=2, revision=None, token=a_token())
    assert not lost
    assert services.records.read("acme/~token", "~token~t") is None
    paused = a_head(2, state=ScheduleState.PAUSED)
    assert services.schedules.close(paused, expected=1, revision=closed(first), token=a_token(said="ä"))
    assert services.records.read("acme/~token", "~token~t") == a_token(said="ä")
    again = {"expected": 2, "previous": None, "revision": a_revision(2), "entry": None}
    assert not services.schedules.arm(a_head(3, revision=2), **again, token=a_token())  # type: ignore[arg-type]
    assert services.schedules.head("acme", "report") == paused, "the token was another call's"
    assert revision_of(services, 2) is None
    assert services.schedules.arm(a_head(3, revision=2), **again, token=a_token(2))  # type: ignore[arg-type]
    assert services.records.read("acme/~token", "~token~t") == a_token(2), "one that is over is replaced"
    assert head.version == 1


# Complete.

OVER = ScheduleState.COMPLETED


def test_a_schedule_completes_once_and_its_version_grows(services: Services) -> None:
    armed(services)
    assert services.schedules.complete(an_audit_entry("acme/report", at=T0), revision=1, to=OVER)
    assert not services.schedules.complete(an_audit_entry("acme/report", at=T0), revision=1, to=OVER)
    head = services.schedules.head("acme", "report")
    assert head is not None
    assert (head.state, head.version, head.updated_at) == (ScheduleState.COMPLETED, 2, T0)


def test_a_schedule_may_be_deleted_by_its_completion(services: Services) -> None:
    armed(services)
    assert services.schedules.complete(an_audit_entry("acme/report", at=T0), revision=1, to=ScheduleState.DELETED)
    head = services.schedules.head("acme", "report")
    assert head is not None
    assert (head.state, head.version) == (ScheduleState.DELETED, 2)


def test_only_an_active_head_of_that_very_revision_completes(services: Services) -> None:
    _, first = armed(services)
    assert not services.schedules.complete(an_audit_entry("acme/report", at=T0), revision=2, to=OVER)
    assert not services.schedules.complete(an_audit_entry("acme/nothing", at=T0), revision=1, to=OVER)
    services.schedules.close(a_head(2, state=ScheduleState.PAUSED), expected=1, revision=closed(first, ClosedBy.PAUSED))
    assert not services.schedules.complete(an_audit_entry("acme/report", at=T0), revision=1, to=OVER)
    assert services.schedules.head("acme", "nothing") is None


# Reads.


def test_a_hundred_and_more_revisions_are_read_at_once(services: Services) -> None:
    names = [f"s{i:03d}" for i in range(120)]
    for name in names:
        armed(services, name)
    wanted = [(f"acme/{name}", 1) for name in names]
    answer = services.schedules.revisions([*wanted, *wanted, ("acme/s000", 2), ("acme/nothing", 1)])
    assert set(answer.found) == set(wanted)
    assert not answer.unanswered
    assert not answer.broken


def test_nothing_to_read_is_no_call(services: Services) -> None:
    assert services.schedules.revisions([]).found == {}


def test_no_head_no_schedule(services: Services) -> None:
    assert services.schedules.head("acme", "report") is None


def test_heads_are_listed_by_name_page_by_page(services: Services) -> None:
    names = ["a", "b", "ba", "bb", "c", "Z", "b.1"]
    for name in names:
        armed(services, name)
    seen: list[str] = []
    cursor, pages = None, 0
    while True:
        page = services.schedules.page("acme", prefix="", limit=3, cursor=cursor)
        seen += [head.name for head in page.items]
        cursor, pages = page.cursor, pages + 1
        if cursor is None:
            break
    assert seen == sorted(names)
    assert pages == 3
    some = services.schedules.page("acme", prefix="b", limit=10, cursor=None)
    assert [head.name for head in some.items] == ["b", "b.1", "ba", "bb"]
    after = services.schedules.page("acme", prefix="b", limit=2, cursor="b.1")
    assert [head.name for head in after.items] == ["ba", "bb"]
    assert services.schedules.page("nobody", prefix="", limit=3, cursor=None).items == []


def test_every_head_of_every_tenant(services: Services) -> None:
    for tenant in ("a", "b"):
        for name in ("x", "y"):
            head, revision = a_head(tenant=tenant, name=name), a_revision(tenant=tenant, name=name)
            services.schedules.arm(head, expected=0, previous=None, revision=revision, entry=None)
    found = {(head.tenant, head.name) for head in services.schedules.scan_heads("", limit=1_000)[0]}
    assert found == {("a", "x"), ("a", "y"), ("b", "x"), ("b", "y")}
