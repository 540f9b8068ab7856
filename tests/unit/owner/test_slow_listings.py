"""Listings that read day by day, where each read takes 150 ms: no page takes much longer than ``PAGE_MS``, and none misses a day."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from quarterjack.stores.paging import PAGE_MS
from quarterjack.testing.process import bury_all

from tests.support.scenes.dead_runs import a_world, die_of_failure
from tests.support.scenes.world import World
from tests.support.slow_reads import READ_MS

DAYS = 60


@pytest.fixture
def world() -> World:
    """Of its days the first and the last have a dead run and an act; the others have nothing."""
    made = a_world()
    for number in range(2):
        made.clock.advance(timedelta(days=DAYS * number))
        die_of_failure(made)
        bury_all(made.services, made.clock)
        made.scheduler.create_schedule(f"s{number}", "note", "0 0 * * *")
    return made


def listed(world: World, listing: str) -> tuple[list[Any], list[int]]:
    """What all pages list, and how long each took in ms."""
    since, cursor, found, took = world.now() - timedelta(days=DAYS + 1), None, list[Any](), list[int]()
    while not took or cursor is not None:
        began = world.clock()
        page = getattr(world.scheduler, listing)(since=since, until=since + timedelta(days=DAYS + 2), cursor=cursor)
        found += page.items
        took.append(world.clock() - began)
        cursor = page.cursor
    return found, took


@pytest.mark.parametrize("listing", ["list_dead", "audit"])
def test_a_page_ends_when_its_time_is_over(world: World, listing: str) -> None:
    found, took = listed(world, listing)
    assert len(found) >= 2
    assert took == [0], "a page for all, where reads are fast"
    world.memory.read_latency_ms = READ_MS
    again, took = listed(world, listing)
    assert again == found
    assert max(took) <= PAGE_MS + 2 * READ_MS  # the read that is under way, and the one of the tenant's profile
    assert sum(took) >= DAYS * READ_MS, "the reads are slow"
    assert min(took[:-1]) >= PAGE_MS, "no page ends before"


@pytest.mark.parametrize("listing", ["list_dead", "audit"])
def test_a_page_makes_progress_however_slow_a_read_is(world: World, listing: str) -> None:
    found, _ = listed(world, listing)
    world.memory.read_latency_ms = 3 * PAGE_MS
    again, took = listed(world, listing)
    assert again == found
    assert len(took) <= DAYS + 3  # a day a page
