"""The slots and the line of a concurrency cap, as every engine stores them."""

from __future__ import annotations

import pytest
from quarterjack.domain.message import Message
from quarterjack.domain.run import EntryKind
from quarterjack.errors import Unavailable
from quarterjack.fires.context import FAR
from quarterjack.fires.lines import change_cap, is_in_line, line_up, look_after_line, read_shared, read_slots, slots_of
from quarterjack.ports.services import Services
from quarterjack.state.tenants.slots import CapSlots, ConcurrencyCap, SharedSlots
from quarterjack.stores.records import Record

from tests.support.builders import NOON, a_one_off
from tests.support.engines import Engine

CAP = ConcurrencyCap(tenant="acme", job="report", most=2)


def now() -> int:
    return NOON


def test_a_line_is_a_partition_that_no_shard_shows(services: Services) -> None:
    runs = [a_one_off(f"r{number}", due=NOON - number) for number in range(5)]
    messages = [(Message(run=run.ref, revision=0, not_before=run.not_before), f"m{run.ref.owner}") for run in runs]
    line_up(CAP, messages, services, now)
    line_up(CAP, messages, services, now)  # the messages came once more
    page = services.agenda.due(CAP.line, upto=FAR, after=None, limit=10)
    assert [entry.run for entry in page.entries] == [run.ref for run in reversed(runs)], (
        "in the order in which they were due"
    )
    assert {(entry.shard, entry.kind, entry.tenant) for entry in page.entries} == {(CAP.line, EntryKind.RUN, "acme")}
    shards = [
        services.agenda.due(shard, upto=FAR, after=None, limit=10) for shard in range(services.agenda.layout().shards)
    ]
    assert not any(page.entries for page in shards)
    assert all(is_in_line(CAP, run, services) for run in runs)
    assert not is_in_line(CAP, a_one_off("another"), services)
    assert not is_in_line(ConcurrencyCap(tenant="acme", job="*", most=1), runs[0], services)
    services.agenda.remove(page.entries)
    assert not any(is_in_line(CAP, run, services) for run in runs)


def test_a_run_whose_message_is_on_its_way_is_in_line(services: Services) -> None:
    run = a_one_off("r1")
    change_cap(CAP, lambda slots: slots.fed([str(run.ref)], NOON, has_line=False), services, now)
    assert is_in_line(CAP, run, services)


def test_the_timer_of_a_line_is_one_entry_of_a_shard(services: Services) -> None:
    for _ in range(2):
        look_after_line(CAP, services, NOON, NOON)
    pages = [
        services.agenda.due(shard, upto=FAR, after=None, limit=10) for shard in range(services.agenda.layout().shards)
    ]
    (entry,) = [entry for page in pages for entry in page.entries]
    assert (entry.kind, entry.id, entry.tenant) == (EntryKind.LINE, CAP.id, "acme")


def test_slots_are_one_record_whose_version_decides(engine: Engine) -> None:
    first, second = engine.services, engine.again()
    for number, services in enumerate((first, second, first)):
        change_cap(CAP, lambda slots, n=number: slots.taken(f"w{n}", 0, [("r", False)], 9, NOON)[0], services, now)  # type: ignore[misc]
    slots, version = read_slots(CAP, second), read_shared(CAP, second)[1]
    assert (set(slots.held), version) == ({"w0", "w1", "w2"}, 3)
    assert change_cap(CAP, lambda slots: slots, first, now) == slots, "an edit that changes nothing writes nothing"
    assert read_shared(CAP, second)[1] == 3
    assert slots_of("acme", first) == {"report": slots}
    assert slots_of("beta", first) == {}


def test_slots_that_others_keep_writing_are_unavailable(services: Services) -> None:
    pauses = list[int]()

    def another(slots: CapSlots) -> CapSlots:
        _, version = read_shared(CAP, services)
        services.records.write(Record(owner=CAP.owner, key=CAP.key, version=version + 1, body=SharedSlots().body()))
        return slots.taken("w", 0, [("r", False)], 9, NOON)[0]

    with pytest.raises(Unavailable, match="the slots of acme/~slots#~caps were written by others 12 times"):
        change_cap(CAP, another, services, now, pause=pauses.append)
    assert pauses == list(range(1, 12))
