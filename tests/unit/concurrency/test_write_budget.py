"""A tick's claims keep to their share of the writes, however that comes out: nothing is late for it, and nothing lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from typing import Any

import pytest
from quarterjack.concurrency.rate_limits import LEAST, LONGEST, SOON, WAITING, WriteBudget
from quarterjack.domain.times import MINUTE, SECOND
from quarterjack.errors import InvalidInput
from quarterjack.settings import LEAST_TICKER_WRITES
from quarterjack.testing import Crash, Detail, Hook
from quarterjack.ticker.fan_out import FanOutConfig, ShardQueue, group_event, group_of, writes_of
from quarterjack.ticker.tick import LOCK, TickReport

from tests.support.parts import in_turn
from tests.support.scenes.fan import Fan
from tests.support.scenes.far import far
from tests.support.scenes.world import NOON, Faults, World, crash

TIGHT = [(writes, shards) for writes in (1, 4, 5, 6) for shards in (1, 16, 64)]


@pytest.fixture(autouse=True)
def _small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quarterjack.ticker.tick.PAGE", 5)


class Claims(Hook):
    """When fires were claimed, and how many at a time."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.at: list[tuple[int, int]] = []  # ms after noon, claims

    def before_call(self, operation: str, detail: Detail) -> Collection[int]:
        if detail.verb == "claim":
            self.at.append((self._world.clock() - NOON, len(detail.items)))
        return ()

    def a_second(self) -> Counter[int]:
        found: Counter[int] = Counter()
        for at, claims in self.at:
            found[at // SECOND] += claims
        return found


def a_crowd(schedules: int = 40, expression: str = "3 12 * * *") -> World:
    """Schedules of which none is claimed yet."""
    world = World()
    for number in range(schedules):
        far(world, f"s{number}", expression)
    return world


def paced(
    world: World, writes: int, hook: Hook | None = None, wait: Callable[[float], object] | None = None, **options: Any
) -> TickReport:
    return world.tick(world.process(hook), spread=FanOutConfig(writes=writes, wait=wait or world.wait), **options)


def test_claims_are_spread_at_the_rate_that_they_have() -> None:
    world = a_crowd()
    claims = Claims(world)
    report = paced(world, 10, claims)
    assert report.handled.fires.claimed == report.handled.messages.sent == 40
    assert claims.a_second() == {0: 10, 1: 10, 2: 10, 3: 10}
    assert not report.stopped


def test_without_a_bound_nobody_waits() -> None:
    world = a_crowd()
    assert world.tick().handled.fires.claimed == 40
    assert world.clock() == NOON


def test_what_is_due_soon_is_claimed_at_once() -> None:
    world = a_crowd()
    world.wait(180 - SOON / SECOND)
    claims = Claims(world)
    paced(world, 1, claims)
    assert claims.a_second() == {(180_000 - SOON) // SECOND: 40}


@pytest.mark.parametrize("writes", [1, 2])
def test_a_share_that_is_far_too_small_makes_nothing_late(writes: int) -> None:
    world = a_crowd()
    late: list[int] = []
    claims = Claims(world)
    while world.clock() < NOON + 4 * MINUTE:
        started = world.clock()
        late.append(paced(world, writes, claims).handled.messages.lag)
        world.reach(started + MINUTE)
    assert sum(claims.a_second().values()) == 40, "each once"
    assert max(claims.at)[0] <= 3 * MINUTE - SOON
    assert late == [0] * len(late), "all were sent before their time"


@in_turn(("writes", "shards"), TIGHT, [f"{writes}-{shards}" for writes, shards in TIGHT], of=4)
def test_a_share_below_or_at_the_load_starves_no_shard(writes: int, shards: int) -> None:
    world = World(shards=shards)
    for number in range(320):  # 5.3 fires a second
        far(world, f"s{number}", "* * * * *")
    reports = []
    for minute in range(5):
        world.reach(NOON + minute * MINUTE)
        work = Faults().at(
            "lock", after=lambda: world.wait(32 / shards), times=None
        )  # of the 50 s of a tick, in equal parts
        reports.append(paced(world, writes, work))
    assert [report.shards for report in reports] == [shards] * 5, "none is left to the next tick"
    assert {report.handled.messages.lag for report in reports} == {0}, "all were sent before their time"
    assert len(world.fires(None)) >= 5 * 320


@pytest.mark.parametrize(
    ("writes", "most"),
    [(20, 20 + 20), (1, 3 * 20)],
    ids=["one that suffices is kept to", "one that does not is exceeded all the time, not at the end"],
)
def test_haste_comes_shard_by_shard(writes: int, most: int) -> None:
    world = World(shards=16)
    for number in range(320):
        far(world, f"s{number}", "3 12 * * *")
    claims = Claims(world)
    report = paced(world, writes, claims)
    assert report.handled.fires.claimed == 320
    assert max(claims.a_second().values()) <= most


def test_when_the_time_for_it_is_up_a_tick_waits_no_more() -> None:
    world = a_crowd()
    claims = Claims(world)
    report = paced(world, 5, claims, budget=2 * SECOND + 500)
    assert not report.stopped
    assert world.clock() == NOON + WAITING * 2_500, "not a millisecond longer"
    assert claims.a_second() == {0: 5, 1: 5, 2: 30}
    assert len(world.sent()) == 40, "each sent once"


def test_a_process_that_dies_while_it_waits_has_claimed_nothing_of_that() -> None:
    world = a_crowd()
    with pytest.raises(Crash):
        paced(world, 5, wait=lambda _: crash())
    assert len(world.fires(None)) == 5
    world.live(180)
    assert Counter(world.began()) == {180: 40}


# Turns.


def test_threads_take_from_one_allowance_and_a_turn_is_never_far_off() -> None:
    waits: list[float] = []
    allowance, far_off = WriteBudget(1_000, wait=waits.append), [10 * MINUTE]
    for _ in range(6):
        allowance.take(2_000, far_off, 0)
    assert waits == [2, 4, 6, LONGEST / SECOND, LONGEST / SECOND], "the first goes at once"
    assert 3 * LONGEST + LOCK // 2 < LOCK, "a page has up to three turns, and its lock is renewed after half of it"


def test_what_goes_at_once_is_taken_all_the_same() -> None:
    waits: list[float] = []
    allowance = WriteBudget(1_000, wait=waits.append)
    allowance.take(3_000, [SOON], 0)
    allowance.take(1, [10 * MINUTE, SOON + 1_000], 0)
    allowance.take(1, [10 * MINUTE], 1_500)
    assert waits == [1, 1.501], "until the earliest of them is due soon; then for its turn"


# Groups.


@pytest.mark.parametrize("accepts", [True, False])
def test_waiting_keeps_to_the_part_of_the_shards_that_was_begun_and_what_was_handed_over_counts_no_more(
    accepts: bool,
) -> None:
    allowance, begun = WriteBudget(1), list[float]()
    spread = FanOutConfig(groups=2, alone=1, hand_over=lambda _: accepts)
    shares = ShardQueue(range(8), spread, allowance)

    def body(shard: int) -> bool:
        shares.seen(shard, more=False, soon=False)
        begun.append(allowance.begun())
        return True

    assert shares.go_through(body)
    assert begun == [1 / 8, 2 / 8, 1] if accepts else [number / 8 for number in range(1, 9)]


def test_groups_have_their_parts_of_it_and_no_more_of_them_are_made_than_can_be_divided() -> None:
    for writes, expected in ((0, 3), (4 * LEAST, 3), (4 * LEAST - 1, 2), (2 * LEAST, 1), (2 * LEAST - 1, 0)):
        fan = Fan(alone=5)
        fan.spread = FanOutConfig(groups=4, alone=5, hand_over=fan.hand_over, writes=writes, wait=fan.world.wait)
        report = fan.tick()
        assert report.groups == len(fan.events) == expected
        parts = [writes_of(event) for event in fan.events]
        assert parts == [writes // (expected + 1)] * expected


def test_what_is_due_soon_waits_for_no_share_and_so_it_is_divided_among_all() -> None:
    fan = Fan(alone=5)
    fan.world.wait((180_000 - SOON) // SECOND + 1)
    fan.spread = FanOutConfig(groups=4, alone=5, hand_over=fan.hand_over, writes=2 * LEAST - 1, wait=fan.world.wait)
    assert fan.tick().groups == 3
    assert [writes_of(event) for event in fan.events] == [(2 * LEAST - 1) // 4] * 3


@pytest.mark.parametrize(("accepts", "rate"), [(True, LEAST), (False, 4 * LEAST)])
def test_who_hands_over_keeps_what_nobody_took(accepts: bool, rate: int) -> None:
    fan, waits = Fan(accepts=accepts), list[float]()
    spread = FanOutConfig(groups=4, alone=1, hand_over=fan.hand_over, writes=4 * LEAST, wait=waits.append)
    fan.world.tick(spread=spread)
    assert waits[0] == 5 / rate, "for the five claims of its first page"


def test_the_least_that_may_be_set_is_what_one_invocation_needs() -> None:
    assert LEAST_TICKER_WRITES == LEAST


def test_an_event_says_its_part_and_an_older_one_has_no_bound() -> None:
    assert (group_of(group_event([1, 2], 500)), writes_of(group_event([1, 2], 500))) == ((1, 2), 500)
    assert writes_of({"shards": [1]}) == 0


@pytest.mark.parametrize("writes", [-1, 1.5, "7", None, True])
def test_an_event_with_odd_writes_is_refused(writes: object) -> None:
    with pytest.raises(InvalidInput, match="writes"):
        writes_of({"shards": [1], "writes": writes})
