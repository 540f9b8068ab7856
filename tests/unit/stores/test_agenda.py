"""The agenda: entries by due time, locks that expire, a layout that only grows."""

from __future__ import annotations

from collections.abc import Collection

import pytest
from quarterjack.domain.tenants.profile import TenantProfile
from quarterjack.domain.times import MINUTE, from_ms
from quarterjack.errors import Unavailable
from quarterjack.ports.services import Services
from quarterjack.stores.agenda import BELIEVED, Agenda
from quarterjack.stores.rows import entry_row
from quarterjack.stores.tables import AGENDA
from quarterjack.testing import ManualClock
from quarterjack.testing.memory.calls import Detail, Hook
from quarterjack.testing.memory.installation import Memory

from tests.support.builders import NOON, an_entry

ENTRIES = [an_entry(NOON + minute * MINUTE, owner=f"acme/s{minute}") for minute in range(3)]


def test_what_is_due_comes_oldest_first_page_by_page(services: Services) -> None:
    services.agenda.put(ENTRIES[::-1])
    page = services.agenda.due(0, upto=NOON + 2 * MINUTE - 1, after=None, limit=1)
    rest = services.agenda.due(0, upto=NOON + 2 * MINUTE - 1, after=page.last, limit=9)
    assert [*page.entries, *rest.entries] == ENTRIES[:2]
    assert rest.last is None
    assert services.agenda.due(1, upto=NOON * 2, after=None, limit=9).entries == []


def test_entries_that_cannot_be_read_are_told_apart(memory: Memory) -> None:
    services = memory.connect()
    services.agenda.put(ENTRIES[:1])
    memory.put_item(0, "0000", "garbage")
    later = entry_row(ENTRIES[1]) | {"v": 99}
    memory._tables[AGENDA].put("0000", ENTRIES[1].key, later)
    page = services.agenda.due(0, upto=NOON * 2, after=None, limit=9)
    assert (page.entries, page.broken, page.newer) == (ENTRIES[:1], ["0000"], [ENTRIES[1].key])


def test_a_lock_is_held_until_it_ends_or_is_given_back(services: Services) -> None:
    def lock(holder: str, now: int) -> bool:
        return services.agenda.lock(0, holder=holder, now=now, until=now + MINUTE)

    assert [lock("a", NOON), lock("b", NOON + 1), lock("a", NOON + 2)] == [True, False, True]
    services.agenda.unlock(0, holder="b")
    assert not lock("b", NOON + 3)
    services.agenda.unlock(0, holder="a")
    assert lock("b", NOON + 4)
    assert lock("a", NOON + 5 + MINUTE), "the lock of b has ended"


def test_failures_are_counted_while_the_entry_is_there(services: Services) -> None:
    services.agenda.put(ENTRIES[:1])
    assert [services.agenda.fail(ENTRIES[0]) for _ in range(2)] == [1, 2]
    services.agenda.remove(ENTRIES[:1])
    assert services.agenda.fail(ENTRIES[0]) == 0


def test_a_quarantined_entry_is_not_due_and_is_listed(services: Services) -> None:
    services.agenda.put(ENTRIES[:1])
    services.agenda.quarantine(ENTRIES[0], reason="x" * 900, now=NOON)
    assert services.agenda.due(0, upto=NOON * 2, after=None, limit=9).entries == []
    assert services.agenda.quarantined(0) == [ENTRIES[0].key]
    assert services.agenda.quarantined(1) == []


def test_the_number_of_shards_only_grows_and_is_believed_for_a_while(services: Services) -> None:
    clock = ManualClock(from_ms(NOON))

    def agenda(shards: int) -> Agenda:
        return Agenda(services.agenda._tables, shards=shards, clock=clock)

    few = agenda(2)
    assert (few.layout().shards, agenda(1).layout().shards, agenda(8).layout().shards) == (2, 2, 8)
    assert few.layout().shards == 2, "it believes what it has read"
    assert few.layout(fresh=True).shards == 8
    agenda(16).layout()
    clock.reach(NOON + BELIEVED)
    assert few.layout().shards == 16


class Away(Hook):
    """Reads of the layout are not answered while it is away."""

    def __init__(self) -> None:
        self.is_away, self.asked = False, 0

    def before_call(self, operation: str, detail: Detail) -> Collection[int]:
        if detail.verb == "layout":
            self.asked += 1
            if self.is_away:
                raise Unavailable("no answer")
        return ()


def test_a_layout_that_cannot_be_read_anew_is_believed_and_without_one_a_tenant_counts_once() -> None:
    clock, away = ManualClock(from_ms(NOON)), Away()
    agenda = Memory(clock).connect(away, attempts=1).agenda
    away.is_away = True
    assert [agenda.weight_of("acme") for _ in range(3)] == [1, 1, 1]
    assert away.asked == 1, "it is not asked again with each message"
    with pytest.raises(Unavailable):
        agenda.layout()
    away.is_away = False
    layout = agenda.layout()
    clock.reach(NOON + BELIEVED)
    away.is_away = True
    assert agenda.layout() == layout
    with pytest.raises(Unavailable):
        agenda.layout(fresh=True)


def test_a_profile_and_the_layout_change_together_or_not_at_all(services: Services) -> None:
    seen = services.agenda.layout()
    more, most = seen.grown(8), seen.grown(16)
    profile = TenantProfile(tenant="acme", created_at=NOON, updated_at=NOON)
    assert services.tenants.put(profile, expected=0, layout=(seen, more))
    assert services.agenda.layout(fresh=True) == more
    assert not services.tenants.put(profile, expected=1, layout=(seen, most)), "the layout has changed meanwhile"
    assert services.agenda.layout(fresh=True) == more
