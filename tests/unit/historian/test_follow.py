"""A follower delivers everything once where nothing fails, and at least once whatever does; it knows when changes are missing."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from quarterjack.domain.history.run_change import RunChange
from quarterjack.domain.times import HOUR
from quarterjack.errors import Misconfigured, Unavailable
from quarterjack.historian import deliver as delivery
from quarterjack.historian.follow import StreamFollower
from quarterjack.historian.progress import StreamGap, gaps
from quarterjack.historian.rebuild import RebuildSpec, rebuild
from quarterjack.ports.run_stream import StreamPage, StreamShard, StreamTrimmed
from quarterjack.ports.services import Services
from quarterjack.testing import Crash, Hook, ManualClock, Memory

from tests.support.builders import NOON, a_run
from tests.support.consumers import Consumer

AT = datetime(2036, 5, 14, tzinfo=UTC)


class World:
    """An installation whose changes go to one consumer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, shards: int = 1) -> None:
        self.clock = ManualClock(AT)
        self.memory = Memory(self.clock)
        self.memory.stream_shards = shards
        self.consumer, self.claimed = Consumer(), 0
        monkeypatch.setattr(delivery, "CONSUMERS", (self.consumer,))
        self.services = self.memory.connect()

    def follower(self, hook: Hook | None = None, **changes: Any) -> StreamFollower:
        """Another process."""
        return StreamFollower(replace(self.memory.connect(hook, attempts=1), **changes), self.clock)

    def claim(self, count: int, *, owners: int = 5) -> None:
        """Claim further runs: a change for each."""
        fires = range(self.claimed, self.claimed + count)
        runs = [a_run(NOON + fire, owner=f"acme/s{fire % owners}") for fire in fires]
        self.services.ledger.claim(runs)
        self.claimed += count

    def pass_time(self, **by: float) -> None:
        self.clock.advance(timedelta(**by))

    @property
    def missing(self) -> set[int]:
        """The sequence numbers of runs that the consumer never saw."""
        return {change.sequence for change in self.memory.changes()} - set(self.consumer.handled)


@pytest.fixture(params=[1, 3])
def world(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch, shards=request.param)


def test_all_changes_are_delivered_once_and_in_order_of_each_owner(world: World) -> None:
    follower = world.follower()
    for count in (0, 40, 3, 0, 2_500):
        world.claim(count)
        report = follower.poll()
        assert report.changes == count
        world.pass_time(seconds=2)
    assert world.missing == set()
    assert max(Counter(world.consumer.handled).values()) == 1
    by_owner: dict[str, list[int]] = {}
    owners = {change.sequence: change.ref.owner for change in world.memory.changes()}
    for number in world.consumer.handled:
        by_owner.setdefault(owners[number], []).append(number)
    assert all(numbers == sorted(numbers) for numbers in by_owner.values())


def test_another_process_goes_on_where_the_last_one_was(world: World) -> None:
    world.claim(10)
    world.follower().poll()
    world.claim(10)
    assert world.follower().poll().changes == 10
    assert list(gaps(world.services)) == []


def test_the_position_alone_makes_no_further_writes(world: World) -> None:
    """Its record is in the table of runs, so that its write is in the stream, too."""
    world.claim(1)
    follower = world.follower()
    follower.poll()
    writes = world.memory._runs._last
    for _ in range(30):
        world.pass_time(seconds=2)
        follower.poll()
    assert world.memory._runs._last == writes


class Killed(Hook):
    """Dies at its n-th request, before or after it took effect."""

    def __init__(self, at: int, *, after: bool) -> None:
        self._left, self._after = at, after

    def before_call(self, operation: str, detail: object) -> Sequence[int]:
        self._left -= 1
        if self._left == 0 and not self._after:
            raise Crash
        return ()

    def after_call(self, operation: str, detail: object) -> None:
        if self._left == 0 and self._after:
            raise Crash


def test_a_historian_that_is_killed_again_and_again_leaves_nothing_out(world: World) -> None:
    chance, kills = random.Random(7), 0
    for _ in range(50):
        world.claim(chance.randrange(1, 30))
        follower = world.follower(Killed(chance.randrange(1, 8), after=chance.random() < 0.5))
        try:
            for _ in range(3):
                follower.poll()
                world.pass_time(seconds=chance.choice((2, 20)))
        except Crash:
            kills += 1
    world.follower().poll()
    assert kills > 40
    assert world.missing == set()
    assert list(gaps(world.services)) == []


def test_a_batch_that_is_stopped_comes_again(world: World) -> None:
    world.claim(5)
    follower = world.follower()
    world.consumer.fails = lambda change: Unavailable("no answer")
    for _ in range(2):
        with pytest.raises(Unavailable):
            follower.poll()
    world.consumer.fails = lambda change: None
    assert follower.poll().changes == 5
    assert world.missing == set()


def test_two_at_once_deliver_everything_and_go_on(world: World, caplog: pytest.LogCaptureFixture) -> None:
    first, second = world.follower(), world.follower()
    for _ in range(4):
        world.claim(3)
        first.poll()
        second.poll()
        world.pass_time(seconds=2)
    assert world.missing == set()
    assert "historian.not_alone" in {record.message for record in caplog.records}
    world.claim(1)
    assert world.follower().poll().changes == 1


# Gaps.


def test_after_more_than_a_day_without_a_historian_the_gap_is_told(world: World) -> None:
    world.claim(5)
    world.follower().poll()
    since = world.clock()
    world.pass_time(minutes=1)
    world.claim(5)
    world.pass_time(hours=25)
    world.claim(5)
    report = world.follower().poll()
    assert report.gaps > 0
    assert {(gap.since, gap.until) for gap in gaps(world.services)} == {(since, world.clock())}
    assert world.missing == set()  # of what the stream still has


def test_a_day_in_which_nothing_was_written_is_no_gap(world: World) -> None:
    world.claim(5)
    follower = world.follower()
    follower.poll()
    for _ in range(26 * 4):
        world.pass_time(minutes=15)
        follower.poll()
    world.claim(5)
    assert follower.poll().changes == 5
    assert world.follower().poll().changes == 0
    assert list(gaps(world.services)) == []


def test_an_idle_day_before_a_restart_is_no_gap_either(world: World) -> None:
    world.claim(5)
    follower = world.follower()
    for _ in range(23 * 4):
        follower.poll()
        world.pass_time(minutes=15)
    world.pass_time(hours=2)
    world.claim(5)
    assert world.follower().poll().changes == 5
    assert list(gaps(world.services)) == []


def test_a_rebuild_fills_the_gaps_in_its_time_for_all_tenants(world: World) -> None:
    world.claim(1)
    world.follower().poll()
    since = world.clock()
    world.pass_time(minutes=1)
    world.claim(1)
    world.pass_time(hours=25)
    world.follower().poll()
    until = world.clock()
    specs = [("acme", since - 1, until), (None, since, until), (None, since - 1, until - 1)]
    for tenant, after, upto in specs:
        rebuild(RebuildSpec(tenant=tenant, after=after, upto=upto), world.services, clock=world.clock)
        assert list(gaps(world.services)) == [StreamGap(since=since, until=until)]
    rebuild(RebuildSpec(tenant=None, after=since - 1, upto=until), world.services, clock=world.clock)
    assert list(gaps(world.services)) == []


# Shards that end, and streams that are replaced.


class ShardedStream:
    """A stream whose shards a test writes: by their ids, with their parents and sequence numbers."""

    def __init__(self) -> None:
        self.stream = "first"
        self.content: dict[str, list[int]] = {}
        self.parents: dict[str, str] = {}
        self.closed: set[str] = set()

    def name(self) -> str:
        return self.stream

    def shards(self) -> list[StreamShard]:
        return [StreamShard(id=shard, parent=self.parents.get(shard)) for shard in reversed(self.content)]

    def read(self, shard: str, after: str | None) -> StreamPage:
        if shard not in self.content:
            raise StreamTrimmed(f"shard {shard} is gone")
        numbers = [number for number in self.content[shard] if number > int(after or 0)]
        runs = [a_run(NOON + number) for number in numbers]
        found = [
            RunChange(ref=run.ref, sequence=number, at=NOON, old=None, new=run)
            for run, number in zip(runs, numbers, strict=True)
        ]
        return StreamPage(
            changes=found,
            position=str(numbers[-1]) if numbers else None,
            at=NOON if numbers else None,
            is_end=shard in self.closed,
        )


@pytest.fixture
def sharded() -> ShardedStream:
    return ShardedStream()


@pytest.fixture
def single(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def test_a_shard_is_read_after_the_one_that_it_follows(single: World, sharded: ShardedStream) -> None:
    sharded.content = {"a": [1, 2], "b": [5, 6], "c": [7]}
    sharded.parents = {"b": "a", "c": "b", "a": "trimmed long ago"}
    follower = single.follower(stream=sharded)
    follower.poll()
    assert single.consumer.handled == [1, 2]
    sharded.content["a"].append(3)
    sharded.closed = {"a"}
    while follower.poll().has_more:
        pass
    assert single.consumer.handled == [1, 2, 3, 5, 6]
    sharded.closed.add("b")
    while follower.poll().has_more:
        pass
    assert single.consumer.handled == [1, 2, 3, 5, 6, 7]
    sharded.closed.add("c")
    sharded.content["d"], sharded.parents["d"] = [8], "c"  # made when its parent was closed, and seen at once
    while follower.poll().has_more:
        pass
    assert single.consumer.handled[-1] == 8
    del sharded.content["a"]
    single.pass_time(minutes=1)
    follower.poll()
    assert single.follower(stream=sharded).poll().changes == 0
    assert list(gaps(single.services)) == []


def test_a_shard_that_is_gone_before_it_was_read_to_its_end_is_a_gap(single: World, sharded: ShardedStream) -> None:
    sharded.content = {"a": [1]}
    follower = single.follower(stream=sharded)
    follower.poll()
    began = single.clock()
    sharded.content = {"b": [9]}
    single.pass_time(hours=30)
    assert follower.poll().gaps == 1
    assert single.consumer.handled == [1, 9]
    assert list(gaps(single.services)) == [StreamGap(since=max(began, NOON), until=single.clock())]
    single.pass_time(hours=1)
    assert follower.poll().gaps == 0


def test_a_stream_that_was_replaced_is_a_gap_and_read_from_its_beginning(single: World, sharded: ShardedStream) -> None:
    sharded.content = {"a": [7]}
    single.follower(stream=sharded).poll()
    sharded.stream, sharded.content = "second", {"a": [3]}
    single.pass_time(seconds=HOUR / 1_000)
    assert single.follower(stream=sharded).poll().gaps == 1
    assert single.consumer.handled == [7, 3]
    assert single.follower(stream=sharded).poll().gaps == 0


def test_without_a_stream_a_round_says_what_to_do(single: World, sharded: ShardedStream) -> None:
    def none() -> str:
        raise Misconfigured("no stream")

    sharded.name = none  # type: ignore[method-assign]
    with pytest.raises(Misconfigured):
        single.follower(stream=sharded).poll()


def test_a_position_that_cannot_be_read_is_as_if_there_were_none(single: World, services: Services) -> None:
    single.claim(2)
    single.follower().poll()
    row = single.memory._runs.get("~quarterjack/~historian", "~position")
    assert row is not None
    single.memory._runs.put("~quarterjack/~historian", "~position", {**row, "body": '{"shards":[]}'})
    assert single.follower().poll().changes == 2
    assert single.follower().poll().changes == 0


@pytest.fixture
def services(single: World) -> Services:
    return single.services
