"""A tick that is spread over threads and invocations: nothing is lost, nothing is done twice, whatever becomes of a part of it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import pytest
from quarterjack.domain.run import EntryKind
from quarterjack.domain.times import SECOND
from quarterjack.errors import InvalidInput, Misconfigured
from quarterjack.testing import Crash, Detail, Hook
from quarterjack.ticker.fan_out import ALONE, FanOutConfig, group_event, group_of
from quarterjack.ticker.tick import LOCK, TickReport

from tests.support.scenes.fan import SCHEDULES, SHARDS, Fan
from tests.support.scenes.far import far
from tests.support.scenes.world import Faults, World, crash, fails


def test_what_one_invocation_can_do_it_does_alone() -> None:
    fan = Fan(alone=SCHEDULES)
    assert fan.tick().groups == 0
    assert (fan.events, fan.claimed()) == ([], SCHEDULES)
    assert ALONE > SCHEDULES


def test_more_than_that_is_handed_over_once_in_groups_of_shards_that_nobody_has_begun() -> None:
    fan = Fan()
    report = fan.tick()
    assert report.groups == len(fan.events) == 3
    handed = [shard for event in fan.events for shard in group_of(event) or ()]
    assert len(handed) == len(set(handed)) == SHARDS - report.shards, "each shard is somebody's, and nobody else's"
    assert 0 < fan.claimed() < SCHEDULES
    done = report.handled.fires.claimed + sum(fan.group(number).handled.fires.claimed for number in range(3))
    assert done == fan.claimed() == SCHEDULES
    assert len(fan.world.sent()) == SCHEDULES, "and sent once"


def test_a_little_too_much_takes_few_groups_and_a_shard_of_many_pages_as_many_as_may_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fan = Fan(alone=30)
    assert fan.tick().groups in (1, 2)
    monkeypatch.setattr("quarterjack.ticker.tick.PAGE", 5)
    deep = Fan(alone=3, groups=100)
    report = deep.tick()
    assert report.groups == SHARDS - report.shards
    assert max(len(group_of(event) or ()) for event in deep.events) == 1


def test_groups_that_nobody_takes_are_done_by_the_one_that_tried() -> None:
    fan = Fan(accepts=False)
    report = fan.tick()
    assert len(fan.events) == 3, "it asks once"
    assert (report.groups, report.shards, fan.claimed()) == (0, SHARDS, SCHEDULES)


@pytest.mark.parametrize("threads", [1, 3])
def test_one_group_that_nobody_takes_is_not_lost_among_others(threads: int) -> None:
    fan = Fan()
    refused = iter([True, False, True])
    spread = replace(fan.spread, threads=threads, hand_over=lambda event: fan.hand_over(event) and next(refused))
    report = fan.world.tick(fan.waiting(), spread=spread)
    assert report.groups == 2
    given = {shard for event in fan.events for shard in group_of(event) or ()}
    assert report.shards > SHARDS - len(given), "it did that group as well"
    for number in range(3):
        fan.group(number)
    assert fan.claimed() == len(fan.world.sent()) == SCHEDULES


def test_a_handing_over_that_fails_in_any_way_costs_no_other_group() -> None:
    fan = Fan()
    answers = iter([RuntimeError("no such module"), True, True])

    def hand_over(event: Mapping[str, Any]) -> bool:
        fan.hand_over(event)
        if isinstance(answer := next(answers), Exception):
            raise answer
        return bool(answer)

    report = fan.world.tick(spread=replace(fan.spread, hand_over=hand_over))
    assert (report.groups, report.unavailable) == (2, 0)
    for number in (1, 2):
        fan.group(number)
    assert fan.claimed() == SCHEDULES


def test_a_group_that_dies_or_never_begins_is_made_good_by_the_next_tick() -> None:
    fan = Fan()
    fan.tick()
    with pytest.raises(Crash):
        fan.group(0, fan.world.process(Faults().at("send", before=crash)))
    fan.group(1)
    fan.world.wait(LOCK // SECOND + 1)
    fan.world.tick(spread=replace(fan.spread, hand_over=None), holder="the next")
    assert fan.claimed() == SCHEDULES
    fan.world.live(180)
    assert fan.world.began() == [180] * SCHEDULES


def test_a_group_that_comes_twice_does_it_once() -> None:
    fan = Fan()
    fan.tick()
    again: list[TickReport] = []

    def meanwhile() -> None:
        spread = replace(fan.spread, only=group_of(fan.events[0]), hand_over=None)
        again.append(fan.world.tick(holder="the same again", spread=spread))

    before = fan.claimed()
    first = fan.group(0, fan.world.process(Faults().at("claim", before=meanwhile)))
    assert again[0].locked == 1, "one shard is the first one's, the others whose turn it is"
    assert (
        before + first.handled.fires.claimed + again[0].handled.fires.claimed == fan.claimed() == len(fan.world.sent())
    )
    assert fan.group(0).handled.agenda.entries == 0


def test_a_group_hands_nothing_over() -> None:
    fan = Fan(alone=0)
    fan.tick()
    events = len(fan.events)
    fan.group(0)
    assert len(fan.events) == events


def test_a_group_stops_in_time_and_what_is_left_is_still_there() -> None:
    fan = Fan(groups=2)
    fan.tick()

    class Slow(Hook):
        def before_call(self, operation: str, detail: Detail) -> Collection[int]:
            fan.world.wait(10)
            return ()

    report = fan.group(0, fan.world.process(Slow()))
    assert report.stopped
    assert report.handled.fires.claimed > 0
    fan.world.live(180)
    assert sorted(fan.world.began()) == [180] * SCHEDULES


# Events.


@pytest.mark.parametrize("event", [{}, {"source": "aws.scheduler"}, None, "", [], 7])
def test_an_event_that_names_no_shards_is_a_whole_tick(event: object) -> None:
    assert group_of(event) is None


@pytest.mark.parametrize(
    "shards", [None, "all", 3, [], {}, [1, "2"], [-1], [1, 1], [True], [1.0], [None], [[1]], {"1": 2}]
)
def test_garbage_is_refused_before_anything_is_done(shards: object) -> None:
    with pytest.raises(InvalidInput, match="shards"):
        group_of({"shards": shards})


def test_a_group_is_what_was_handed_over() -> None:
    assert group_of(group_event([3, 1, 2])) == (3, 1, 2)


def test_a_shard_that_there_is_not_is_refused() -> None:
    world, faults = World(shards=4), Faults()
    world.tick()
    with pytest.raises(InvalidInput, match="shards"):
        world.tick(world.process(faults), spread=FanOutConfig(only=(1, 4)))
    assert faults.verbs() == ["layout"]


# Threads.


def test_shards_are_gone_through_at_the_same_time() -> None:
    fan, together = Fan(), threading.Barrier(4, timeout=60)

    class Meets(Hook):
        def before_call(self, operation: str, detail: Detail) -> Collection[int]:
            if detail.verb == "claim":
                together.wait()  # breaks, and the test with it, unless four are here at once
            return ()

    report = fan.world.tick(fan.waiting(Meets()), spread=FanOutConfig(threads=4, stats=fan.spread.stats))
    assert (report.unavailable, report.shards) == (0, SHARDS)
    assert report.handled.fires.claimed == report.handled.messages.sent == fan.claimed() == SCHEDULES
    assert len(fan.world.entries(EntryKind.CHAIN)) == SCHEDULES


def test_threads_that_have_nothing_to_wait_for_are_not_asked() -> None:
    fan, threads = Fan(), set[int]()

    class Notes(Hook):
        def before_call(self, operation: str, detail: Detail) -> Collection[int]:
            threads.add(threading.get_ident())
            return ()

    fan.world.tick(fan.world.process(Notes()), spread=FanOutConfig(threads=4))
    assert threads == {threading.get_ident()}
    assert fan.claimed() == SCHEDULES


def test_threads_count_as_one_does() -> None:
    alone, many = Fan(), Fan()
    for fan, threads in ((alone, 1), (many, 5)):
        fan.report = fan.world.tick(fan.waiting(), spread=FanOutConfig(threads=threads, stats=fan.spread.stats))  # type: ignore[attr-defined]
    one, five = vars(alone.report), vars(many.report)  # type: ignore[attr-defined]
    assert {name: one[name] for name in one if name != "handled"} == {n: five[n] for n in five if n != "handled"}
    assert vars(one["handled"]) == vars(five["handled"])
    claims = [Counter(run.due for run in fan.world.memory.runs()) for fan in (alone, many)]
    assert claims[0] == claims[1]


@pytest.mark.parametrize("threads", [1, 3])
def test_one_failing_shard_stops_no_other_and_a_wrong_setting_stops_all(threads: int) -> None:
    fan = Fan()
    report = fan.world.tick(
        fan.waiting(Faults().at("due", before=fails, times=2)),
        spread=FanOutConfig(threads=threads, stats=fan.spread.stats),
    )
    assert (report.unavailable, report.shards) == (1, SHARDS - 1)

    def misconfigured() -> None:
        raise Misconfigured("no such table")

    with pytest.raises(Misconfigured):
        fan.world.tick(
            fan.waiting(Faults().at("due", before=misconfigured, times=None)),
            spread=FanOutConfig(threads=threads, stats=fan.spread.stats),
        )


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("verb", ["lock", "claim", "send", "put", "remove"])
def test_a_process_with_threads_that_dies_leaves_nothing_undone(verb: str, moment: str) -> None:
    fan = Fan()
    with pytest.raises(Crash):
        fan.world.tick(
            fan.waiting(Faults().at(verb, **{moment: crash}, times=None)),
            spread=FanOutConfig(threads=4, stats=fan.spread.stats),
            holder="dead",
        )
    fan.world.live(180)
    assert sorted(fan.world.began()) == [180] * SCHEDULES


# Locks of long ticks.


def test_the_lock_of_a_long_drain_is_renewed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quarterjack.ticker.tick.PAGE", 5)
    world = World()
    for number in range(30):
        far(world, f"s{number}", "3 12 * * *")
    others: list[TickReport] = []

    def meanwhile() -> None:
        world.wait(20)
        others.append(world.tick(holder="other"))

    services = world.process(Faults().at("claim", before=meanwhile, times=4))
    report = world.tick(services, holder="long", budget=200 * SECOND)
    assert [other.locked for other in others] == [1, 1, 1, 1]
    assert report.handled.fires.claimed == 30


def test_a_ticker_that_stalled_gives_way_to_the_one_that_took_its_shard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quarterjack.ticker.tick.PAGE", 5)
    world = World()
    for number in range(30):
        far(world, f"s{number}", "3 12 * * *")

    def stall() -> None:
        world.wait(LOCK // SECOND + 1)
        world.services.agenda.lock(0, holder="other", now=world.clock(), until=world.clock() + LOCK)

    report = world.tick(world.process(Faults().at("claim", before=stall)), holder="stalled", budget=200 * SECOND)
    assert (report.locked, report.handled.agenda.entries) == (1, 5), "it ends with what it had begun"
    assert world.tick(holder="other").handled.fires.claimed == 25


# Pace.


def test_throttled_items_are_counted() -> None:
    fan = Fan()
    some = Faults().at("claim", throttle=range(3), times=1)
    spread = FanOutConfig()
    services = fan.world.process(some, rounds=3, stats=spread.stats)
    assert fan.world.tick(services, spread=spread).throttled == 3
    assert fan.claimed() == SCHEDULES
    assert fan.world.tick(services, spread=spread).throttled == 0
