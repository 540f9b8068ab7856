"""A map of 10,000 items, 100 at a time, whose workers are killed 20 times: complete, each once, a steady window."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection
from typing import Any

import pytest
from quarterjack import Context, Retry
from quarterjack.fires.windows.advance import read_window
from quarterjack.state.waits.window import map_ref
from quarterjack.testing import Crash, Detail, Hook
from quarterjack.testing.process import Hand

from tests.support.scenes.parking import Parking

ITEMS, AT_A_TIME, KILLS = 10_000, 100, 20


class Killer(Hook):
    """Kills its process at a call, before or after that has taken effect."""

    def __init__(self, at: int, *, after: bool) -> None:
        self.left, self.after = at, after

    def before_call(self, operation: str, detail: Detail) -> Collection[int]:
        self.left -= 1
        if self.left == 0 and not self.after:
            raise Crash
        return ()

    def after_call(self, operation: str, detail: Detail) -> None:
        if self.left == 0:
            raise Crash


@pytest.mark.check
def test_ten_thousand_items_a_hundred_at_a_time_with_twenty_kills() -> None:
    world, dice, kills, idle = Parking(), random.Random(7), 0, 0
    ran, widths = Counter[int](), Counter[int]()

    def item(ctx: Context, payload: int) -> int:
        ran[payload] += 1
        window = read_window(map_ref(world.row(parent.id).ref, "item"), world.services)
        if window is not None and window.cursor < ITEMS:
            widths[len(window.open)] += 1
        return payload

    def mapper(ctx: Context, payload: Any) -> list[int]:
        results = ctx.map("item", range(ITEMS), at_a_time=AT_A_TIME)
        return [len(results), sum(results)]

    often = Retry(max_attempts=30, base=1.0)
    world.jobs.job("item", retry=often)(item)
    world.jobs.job("mapper", retry=often)(mapper)
    parent = world.scheduler.submit("mapper")
    while not world.row(parent.id).is_terminal:
        hook = Killer(dice.randint(1, 6_000), after=dice.random() < 0.5) if kills < KILLS else None
        hand = Hand(worker=world.worker(hook), together=dice.random() < 0.5)
        try:
            while hand.work():
                idle = 0
        except Crash:
            kills += 1
        idle += 1
        assert idle < 100
        world.wait(30)
        world.tick()
    assert kills == KILLS
    assert world.scheduler.get_run(parent.id).result == [ITEMS, sum(range(ITEMS))]
    assert len(ran) == ITEMS
    assert ran.total() - ITEMS <= KILLS * 10, "only what a killed worker had in hand, a batch of ten, ran again"
    assert max(widths) == AT_A_TIME
    assert widths[AT_A_TIME] > 0.99 * widths.total()
    assert max(world.row(parent.id).slices, world.row(parent.id).wait_no) <= 3, (
        "it is woken once, but for its own kills"
    )
