"""What an incident writes: all of it or nothing, decided by the head; and the successes that a schedule had."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from quarterjack.domain.history.dead_run import DeadRunRow
from quarterjack.domain.names import aside_ref, fire_ref
from quarterjack.domain.run import AgendaEntry, EntryKind, RunState
from quarterjack.domain.schedule import ClosedBy, Head, Revision, ScheduleState
from quarterjack.domain.times import DAY, MINUTE
from quarterjack.ports.services import Services
from quarterjack.state.before_start import refuse
from quarterjack.state.lease import succeed
from quarterjack.stores.records import Record
from quarterjack.stores.schedules import IncidentChange

from tests.support.builders import NOON, OWNER, a_head, a_revision, a_run, an_entry
from tests.support.lease_steps import lease_of

HEAD, REVISION = a_head(), a_revision()
FAILING = replace(HEAD, version=2, failing=1, failed_at=NOON, failed_run=f"{OWNER}#1", incident=f"failure-{NOON}")


def a_death(at: int = NOON, **changes: Any) -> DeadRunRow:
    given: dict[str, Any] = {"run": fire_ref(OWNER, at), "job": "report", "fence": 1, "attempts": 1, "reason": "failed"}
    return DeadRunRow(ended_at=at, **(given | changes))


def a_notice_entry(word: str = "t") -> AgendaEntry:
    return AgendaEntry(shard=0, due=NOON, kind=EntryKind.NOTICE, id=f"{OWNER}#{word}", created_at=NOON)


def armed(services: Services) -> None:
    assert services.schedules.arm(HEAD, expected=0, previous=None, revision=REVISION, entry=an_entry())


def a_note(**changes: Any) -> IncidentChange:
    given: dict[str, Any] = {
        "head": FAILING,
        "expected": 1,
        "revision": replace(REVISION, failing=1),
        "dead": a_death(),
        "expires": NOON + DAY,
        "entries": [a_notice_entry()],
        "records": [Record(owner=OWNER, key="~notice~t", version=1, body={"to": "job:page"}, expires=NOON + DAY)],
    }
    return IncidentChange(**(given | changes))


def there(services: Services) -> tuple[Head | None, Revision, list[DeadRunRow], list[AgendaEntry], Record | None]:
    lines = services.dead_index.read("acme", after=NOON - DAY, upto=NOON + DAY, only=None, before=None, page=None)
    entries = services.agenda.due(0, upto=NOON + DAY, after=None, limit=9).entries
    notices = [entry for entry in entries if entry.kind is EntryKind.NOTICE]
    revision = services.schedules.revisions([(OWNER, 1)]).found[OWNER, 1]
    record = services.records.read(OWNER, "~notice~t")
    return services.schedules.head("acme", "report"), revision, list(lines), notices, record


def test_all_of_a_note_is_written(services: Services) -> None:
    armed(services)
    note = a_note()
    assert services.schedules.note(note)
    assert there(services) == (FAILING, note.revision, [note.dead], [note.entries[0]], note.records[0])


def test_what_is_over_says_nothing_any_more(services: Services) -> None:
    armed(services)
    services.schedules.note(a_note())
    well = replace(FAILING, version=3, failing=0, incident=None)
    assert services.schedules.note(IncidentChange(head=well, expected=2, revision=REVISION))
    head, revision, *_ = there(services)
    assert (head, revision) == (well, REVISION)


@pytest.mark.parametrize("why", ["head moved", "listed already", "closed already"])
def test_a_note_that_is_refused_writes_nothing(services: Services, why: str) -> None:
    armed(services)
    ended = replace(REVISION, active_until=NOON, closed_by=ClosedBy.DELETED)
    note = a_note()
    match why:
        case "head moved":
            note = replace(note, expected=7)
        case "listed already":
            services.dead_index.put(a_death(), expires=NOON + DAY)
        case _:
            services.schedules.close(replace(HEAD, version=2), expected=1, revision=ended)
            note = replace(note, expected=2, closes=True, revision=replace(ended, failing=1))
    before = there(services)
    assert not services.schedules.note(note)
    assert there(services) == before


def test_a_pause_is_part_of_the_note(services: Services) -> None:
    armed(services)
    ended = replace(REVISION, failing=1, active_until=NOON, closed_by=ClosedBy.PAUSED)
    paused = replace(FAILING, state=ScheduleState.PAUSED, reason="three in a row", updated_at=NOON)
    assert services.schedules.note(a_note(head=paused, revision=ended, closes=True))
    head, revision, *_ = there(services)
    assert (head, revision) == (paused, ended)


def test_of_two_notes_about_one_head_one_is_written(services: Services) -> None:
    armed(services)
    assert services.schedules.note(a_note())
    assert not services.schedules.note(a_note(dead=a_death(NOON + 1)))
    assert [line.ended_at for line in there(services)[2]] == [NOON]


def test_a_line_says_what_the_run_ended_as(services: Services) -> None:
    for at, state in enumerate((RunState.DEAD, RunState.LOST, RunState.EXPIRED)):
        services.dead_index.put(a_death(NOON + at, state=state), expires=NOON + DAY)
    assert [line.state for line in there_lines(services)] == [RunState.EXPIRED, RunState.LOST, RunState.DEAD]


def there_lines(services: Services) -> list[DeadRunRow]:
    lines = services.dead_index.read("acme", after=NOON - DAY, upto=NOON + DAY, only=None, before=None, page=None)
    return list(lines)


def test_successes_come_newest_first_and_nothing_else_does(services: Services) -> None:
    runs = [a_run(NOON + minute * MINUTE) for minute in range(5)]
    runs.append(a_run(NOON + MINUTE, ref=aside_ref(OWNER, NOON + MINUTE, "trigger-1")))
    services.ledger.claim(runs)
    for run in (runs[0], runs[1], runs[5], runs[3]):
        leased = lease_of(services, run)
        services.ledger.move(run.ref, succeed(fence=leased.fence, now=NOON + DAY, expires=NOON + 9 * DAY))
    refused = refuse(to=RunState.CANCELLED, revision=1, now=NOON, expires=NOON + 9 * DAY, reason="paused")
    services.ledger.move(runs[4].ref, refused)
    found = services.ledger.succeeded(OWNER, after=NOON, upto=NOON + DAY)
    assert [run.ref.key for run in found] == [runs[3].ref.key, runs[5].ref.key, runs[1].ref.key]
