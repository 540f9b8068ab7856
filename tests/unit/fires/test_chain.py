"""A chain's entry goes only when all of its work was done."""

from __future__ import annotations

from typing import Any

import pytest
from quarterjack.domain.run import AgendaEntry, EntryKind
from quarterjack.fires.chain import advance_chains
from quarterjack.fires.context import EntryCounts, FireContext, TickCounts

from tests.support.scenes.world import NOON, Faults, World


def chained() -> tuple[World, AgendaEntry]:
    world = World()
    world.scheduler.create_schedule("s", "note", "* * * * *")
    world.reach(NOON + 1)
    (entry,) = world.entries(EntryKind.CHAIN)
    return world, entry


def advanced(world: World, entry: AgendaEntry, faults: Faults | None = None) -> TickCounts:
    return advance_chains([entry], FireContext(services=world.process(faults, rounds=1), clock=world.clock))


@pytest.mark.parametrize("verb", ["claim", "send", "put"])
def test_an_entry_stays_while_a_part_of_its_work_was_not_accepted(verb: str) -> None:
    world, entry = chained()
    throttled: dict[str, Any] = {"throttle": [0], "times": None}
    counts = advanced(world, entry, Faults().at(verb, **throttled))
    assert counts.agenda == EntryCounts(left=1)
    assert world.entries(EntryKind.CHAIN) == [entry]


def test_an_entry_is_replaced_by_its_next_one() -> None:
    world, entry = chained()
    before = len(world.sent())  # by the call that created the schedule
    counts = advanced(world, entry)
    assert counts.agenda == EntryCounts(done=1)
    (following,) = world.entries(EntryKind.CHAIN)
    assert following.due > entry.due
    assert len(world.sent()) - before == counts.fires.claimed == counts.messages.sent > 0
