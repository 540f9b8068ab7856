"""The agenda: order, paging, locks, failures, what is moved aside, and a number of shards that only grows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from quarterjack.domain.run import AgendaEntry, EntryKind
from quarterjack.domain.times import SECOND
from quarterjack.ports.services import Services
from quarterjack.stores.agenda import DuePage

from tests.support.builders import NOON, a_one_off, a_run_entry, an_entry
from tests.support.engines import Engine

FAR = NOON * 10


def due(services: Services, shard: int = 0, *, upto: int = FAR, after: str | None = None, limit: int = 500) -> DuePage:
    return services.agenda.due(shard, upto=upto, after=after, limit=limit)


def chains(count: int, *, shard: int = 0) -> list[AgendaEntry]:
    return [an_entry(NOON + i, shard=shard, owner=f"acme/s{shard}.{i}") for i in range(count)]


def test_entries_come_back_whole(services: Services) -> None:
    ref = a_one_off().ref
    entries = [
        an_entry(NOON),
        replace(a_run_entry(ref, NOON + 1), created_at=8),
        AgendaEntry(shard=0, due=NOON + 2, kind=EntryKind.WATCH, id=f"{ref}#token", created_at=9),
    ]
    assert services.agenda.put(entries) == {entry.key for entry in entries}
    assert list(due(services).entries) == entries
    assert [entry.run for entry in due(services).entries[1:]] == [ref, ref]


def test_an_empty_shard_is_an_empty_page(services: Services) -> None:
    page = due(services)
    assert (list(page.entries), list(page.broken), page.last) == ([], [], None)


def test_what_is_due_comes_oldest_first_and_to_the_millisecond(services: Services) -> None:
    services.agenda.put(list(reversed(chains(5))))
    assert [entry.due - NOON for entry in due(services, upto=NOON + 2).entries] == [0, 1, 2]
    assert [entry.due - NOON for entry in due(services, upto=NOON - 1).entries] == []


def test_shards_are_apart(services: Services) -> None:
    services.agenda.put([*chains(2), *chains(3, shard=3)])
    assert [len(due(services, shard).entries) for shard in range(4)] == [2, 0, 0, 3]


def test_paging_reaches_past_five_hundred(services: Services) -> None:
    entries = chains(620)
    assert len(services.agenda.put(entries)) == 620
    seen: list[str] = []
    after, pages = None, 0
    while True:
        page = due(services, after=after)
        seen += [entry.key for entry in page.entries]
        pages, after = pages + 1, page.last
        if after is None:
            break
    assert seen == [entry.key for entry in entries]
    assert pages == 2


def test_paging_goes_on_after_entries_that_are_gone(services: Services) -> None:
    entries = chains(6)
    services.agenda.put(entries)
    first = due(services, limit=3)
    services.agenda.remove(first.entries)
    second = due(services, limit=3, after=first.last)
    assert [entry.key for entry in second.entries] == [entry.key for entry in entries[3:]]


def test_the_same_entry_is_there_once(services: Services) -> None:
    services.agenda.put([an_entry(after=1), an_entry(after=2)])
    services.agenda.put([an_entry(after=3)])
    assert [entry.after for entry in due(services).entries] == [3]


def test_removing_is_accepted_even_for_what_is_gone(services: Services) -> None:
    entries = chains(30)
    services.agenda.put(entries[:15])
    assert services.agenda.remove(entries) == {entry.key for entry in entries}
    assert list(due(services).entries) == []


def test_nothing_to_write_is_no_call(services: Services) -> None:
    assert (services.agenda.put([]), services.agenda.remove([])) == (frozenset(), frozenset())


# Locks.


def test_one_holder_at_a_time(services: Services) -> None:
    assert services.agenda.lock(0, holder="a", now=NOON, until=NOON + 50 * SECOND)
    assert not services.agenda.lock(0, holder="b", now=NOON + 50 * SECOND, until=FAR)
    assert services.agenda.lock(1, holder="b", now=NOON, until=FAR), "another shard is free"


def test_a_holder_may_take_its_lock_again(services: Services) -> None:
    services.agenda.lock(0, holder="a", now=NOON, until=NOON + 1)
    assert services.agenda.lock(0, holder="a", now=NOON, until=NOON + 50)
    assert not services.agenda.lock(0, holder="b", now=NOON + 50, until=FAR)


def test_a_lock_expires(services: Services) -> None:
    services.agenda.lock(0, holder="a", now=NOON, until=NOON + 50)
    assert services.agenda.lock(0, holder="b", now=NOON + 51, until=FAR)


def test_only_the_holder_gives_a_lock_back(services: Services) -> None:
    services.agenda.lock(0, holder="a", now=NOON, until=FAR)
    services.agenda.unlock(0, holder="b")
    assert not services.agenda.lock(0, holder="b", now=NOON, until=FAR)
    services.agenda.unlock(0, holder="a")
    assert services.agenda.lock(0, holder="b", now=NOON, until=FAR)
    services.agenda.unlock(1, holder="b")  # one that nobody has


def test_a_lock_is_no_entry(services: Services) -> None:
    services.agenda.lock(0, holder="a", now=NOON, until=FAR)
    assert (list(due(services).entries), list(due(services).broken)) == ([], [])


# Failures.


def test_failures_are_counted_on_the_entry(services: Services) -> None:
    entry = an_entry()
    services.agenda.put([entry])
    assert [services.agenda.fail(entry) for _ in range(3)] == [1, 2, 3]
    assert due(services).entries[0].failures == 3


def test_a_failure_of_what_is_gone_counts_nothing(services: Services) -> None:
    assert services.agenda.fail(an_entry()) == 0
    assert list(due(services).entries) == []


def test_an_entry_put_again_starts_counting_anew(services: Services) -> None:
    entry = an_entry()
    services.agenda.put([entry])
    services.agenda.fail(entry)
    services.agenda.put([entry])
    assert due(services).entries[0].failures == 0


def test_quarantine_moves_an_entry_aside(services: Services) -> None:
    one, other = an_entry(), an_entry(NOON + 1)
    services.agenda.put([one, other])
    services.agenda.quarantine(one, reason="x" * 2_000, now=NOON)
    assert list(due(services).entries) == [other]
    assert list(services.agenda.quarantined(0)) == [one.key]
    assert list(services.agenda.quarantined(1)) == []


def test_an_item_that_is_no_entry_is_named_and_left(engine: Engine) -> None:
    services, good = engine.services, an_entry(NOON + 5)
    services.agenda.put([good])
    bad = ["000000000000001#dance#x", "000000000000002", "00000000000000x#chain#y"]
    for key in bad:
        _put_item(engine, key)
    page = due(services)
    assert (sorted(page.broken), list(page.entries)) == (sorted(bad), [good])
    assert sorted(due(services).broken) == sorted(bad)


def _put_item(engine: Engine, key: str) -> None:
    if engine.settings is None:
        engine.memory.put_item(0, key, "something else")
    else:
        engine.clients["dynamodb"].put_item(
            TableName=engine.settings.table("agenda"), Item={"shard": {"S": "0000"}, "entry": {"S": key}}
        )


# Shards.


def test_the_number_of_shards_comes_from_the_settings_first(services: Services) -> None:
    assert services.agenda.layout().shards == 4


@pytest.mark.parametrize(("wanted", "then"), [(8, 8), (2, 4)])
def test_the_number_of_shards_only_grows(engine: Engine, wanted: int, then: int) -> None:
    first = engine.services
    assert first.agenda.layout().shards == 4
    second = engine.again(shards=wanted)
    assert second.agenda.layout().shards == then
    assert first.agenda.layout().shards in (4, then), "may be known from before"
    assert first.agenda.layout(fresh=True).shards == then
