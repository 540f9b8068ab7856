"""Records: versions decide races, and no listing of runs takes one for a run."""

from __future__ import annotations

from dataclasses import replace

from quarterjack.domain.run import AgendaEntry, EntryKind
from quarterjack.ports.services import Services
from quarterjack.stores.records import Record

from tests.support.builders import OWNER, a_run

FIRST = Record(owner=OWNER, key="~turns", version=1, body={"holders": ["a"], "limit": 2})


def test_a_record_is_read_as_it_was_written(services: Services) -> None:
    assert services.records.read(OWNER, "~turns") is None
    lasting = replace(FIRST, expires=1_800_000_000_000)
    assert services.records.write(lasting)
    assert services.records.read(OWNER, "~turns") == lasting


def test_the_version_decides_a_race(services: Services) -> None:
    assert services.records.write(FIRST)
    mine = replace(FIRST, version=2, body={"holders": ["b"]})
    theirs = replace(FIRST, version=2, body={"holders": ["c"]})
    assert not services.records.write(replace(FIRST, body={"holders": ["late"]}))
    assert services.records.write(mine)
    assert not services.records.write(theirs)
    assert services.records.read(OWNER, "~turns") == mine


def test_no_version_is_passed_over(services: Services) -> None:
    assert not services.records.write(replace(FIRST, version=2))
    assert services.records.write(FIRST)
    assert not services.records.write(replace(FIRST, version=3))
    assert services.records.read(OWNER, "~turns") == FIRST


def test_a_write_that_is_repeated_after_a_lost_answer_counts(services: Services) -> None:
    assert services.records.write(FIRST)
    assert services.records.write(FIRST)


def test_removing_asks_for_the_version_and_may_be_repeated(services: Services) -> None:
    services.records.write(FIRST)
    assert not services.records.remove(replace(FIRST, version=2))
    assert services.records.remove(FIRST)
    assert services.records.remove(FIRST)
    assert services.records.read(OWNER, "~turns") is None


def test_they_are_listed_by_prefix_and_are_no_runs(services: Services) -> None:
    run = a_run(0)
    services.ledger.claim([run])
    others = [replace(FIRST, key=f"~backfill~{letter}") for letter in "ab"]
    for record in (FIRST, *others):
        services.records.write(record)
    assert list(services.records.listed(OWNER, "~backfill~")) == others
    assert [found.ref for found in services.ledger.window(OWNER, after=-1, upto=10**14)] == [run.ref]
    assert [
        found.ref
        for found in services.ledger.page(OWNER, after=None, upto=None, limit=9, cursor=None, newest_first=True).items
    ] == [run.ref]


def test_a_record_and_entries_of_the_agenda_are_one_write(services: Services) -> None:
    """As an overdue run is told: of two tickers that come to it, one puts the notice and its timers."""
    record = Record(owner=OWNER, key="~notice~t", version=1, body={"to": "job:j"})
    first, second = (
        AgendaEntry(shard=0, due=due, kind=EntryKind.OVERDUE, id=f"{OWNER}#000000000000001#{due}", created_at=1)
        for due in (1, 2)
    )
    assert services.records.write(record, entries=[first])
    assert not services.records.write(record, entries=[second])
    assert services.agenda.due(0, upto=3, after=None, limit=10).entries == [first]
    assert services.records.read(OWNER, record.key) == record
