"""The permits and the wait queue of a concurrency cap, as every engine stores them."""

from __future__ import annotations

import pytest
from quarterjack.domain.message import Message
from quarterjack.domain.run import EntryKind
from quarterjack.errors import Unavailable
from quarterjack.fires.context import FAR
from quarterjack.fires.flow.wait_queue import (
    change_cap,
    enqueue,
    is_queued,
    permits_of,
    put_queue_timer,
    read_permits,
    read_shared,
)
from quarterjack.ports.services import Services
from quarterjack.state.tenants.caps import ConcurrencyCap
from quarterjack.state.tenants.permits import CapPermits, SharedPermits
from quarterjack.stores.records import Record
from quarterjack.values import replace

from tests.support.builders import NOON, a_one_off
from tests.support.engines import Engine

CAP = ConcurrencyCap(tenant="acme", job="report", most=2)


def now() -> int:
    return NOON


def test_a_queue_is_a_partition_that_no_shard_shows(services: Services) -> None:
    runs = [a_one_off(f"r{number}", due=NOON - number) for number in range(5)]
    messages = [(Message(run=run.ref, revision=0, not_before=run.not_before), f"m{run.ref.owner}") for run in runs]
    enqueue(CAP, messages, services, now)
    enqueue(CAP, messages, services, now)  # the messages came once more
    page = services.agenda.due(CAP.wait_queue, upto=FAR, after=None, limit=10)
    assert [entry.run for entry in page.entries] == [run.ref for run in reversed(runs)], (
        "in the order in which they were due"
    )
    assert {(entry.shard, entry.kind, entry.tenant) for entry in page.entries} == {
        (CAP.wait_queue, EntryKind.RUN, "acme")
    }
    shards = [
        services.agenda.due(shard, upto=FAR, after=None, limit=10) for shard in range(services.agenda.layout().shards)
    ]
    assert not any(page.entries for page in shards)
    assert all(is_queued(CAP, run, services) for run in runs)
    assert not is_queued(CAP, a_one_off("another"), services)
    assert not is_queued(ConcurrencyCap(tenant="acme", job="*", most=1), runs[0], services)
    services.agenda.remove(page.entries)
    assert not any(is_queued(CAP, run, services) for run in runs)


def test_a_run_whose_message_is_on_its_way_is_in_queue(services: Services) -> None:
    run = a_one_off("r1")
    change_cap(CAP, lambda permits: permits.fed([str(run.ref)], NOON, has_queue=False), services, now)
    assert is_queued(CAP, run, services)


def test_the_timer_of_a_queue_is_one_entry_of_a_shard(services: Services) -> None:
    for _ in range(2):
        put_queue_timer(CAP, services, NOON, NOON)
    pages = [
        services.agenda.due(shard, upto=FAR, after=None, limit=10) for shard in range(services.agenda.layout().shards)
    ]
    (entry,) = [entry for page in pages for entry in page.entries]
    assert (entry.kind, entry.id, entry.tenant) == (EntryKind.QUEUE, CAP.id, "acme")


def test_permits_are_one_record_whose_version_decides(engine: Engine) -> None:
    first, second = engine.services, engine.again()
    for number, services in enumerate((first, second, first)):
        change_cap(CAP, lambda permits, n=number: permits.taken(f"w{n}", 0, [("r", False)], 9, NOON)[0], services, now)  # type: ignore[misc]
    permits, version = read_permits(CAP, second), read_shared(CAP, second)[1]
    assert (set(permits.held), version) == ({"w0", "w1", "w2"}, 3)
    assert change_cap(CAP, lambda permits: permits, first, now) == permits, (
        "an edit that changes nothing writes nothing"
    )
    assert read_shared(CAP, second)[1] == 3
    assert permits_of("acme", first) == {"report": permits}
    assert permits_of("beta", first) == {}


def test_permits_that_others_keep_writing_are_unavailable(services: Services) -> None:
    pauses = list[float]()

    def another(permits: CapPermits) -> CapPermits:
        _, version = read_shared(CAP, services)
        services.records.write(Record(owner=CAP.owner, key=CAP.key, version=version + 1, body=SharedPermits().body()))
        return permits.taken("w", 0, [("r", False)], 9, NOON)[0]

    with pytest.raises(Unavailable, match="the permits of acme/~permits#~caps were written by others 12 times"):
        change_cap(CAP, another, replace(services, wait=pauses.append), now, name="w")
    assert len(pauses) == 11
