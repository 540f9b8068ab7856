"""Runs that have not ended and bytes that are kept: what is accepted, by whose count, and what it costs."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from quarterjack import Context, Retry, Scheduler, Settings
from quarterjack.domain.names import one_off_ref
from quarterjack.domain.tenants.limits import QuotaWord
from quarterjack.domain.times import MINUTE, SECOND
from quarterjack.errors import LimitExceeded, Throttled, Unavailable
from quarterjack.historian.follow import StreamFollower
from quarterjack.state.tenants.quota import Quota, QuotaCount
from quarterjack.testing import Crash
from quarterjack.testing.process import Hand

from tests.support.scenes.limited import impatient, limit
from tests.support.scenes.world import Faults, World, crash, fails

LARGE = "x" * 100_000


def follow(world: World) -> None:
    """Let the historian read all that the stream has."""
    follower = StreamFollower(world.memory.connect(), world.clock)
    while follower.poll().has_more:
        pass


def settle(world: World, seconds: float = 0) -> None:
    world.live(seconds)
    follow(world)


def unended(world: World) -> int:
    return sum(not run.is_terminal for run in world.memory.runs())


def quota(world: World, word: QuotaWord = QuotaWord.WAITING_RUNS) -> Quota:
    found = world.services.usage.quota("acme", word)
    assert found is not None
    return found


def throttled(owner: Scheduler, **how: Any) -> Throttled:
    with pytest.raises(Throttled) as refused:
        owner.submit("note", **how)
    return refused.value


# Runs that have not ended.


@pytest.mark.parametrize("followed", [True, False])
def test_so_many_runs_of_a_tenant_may_wait(followed: bool) -> None:
    """Also if the history does not know of them yet."""
    world = World()
    limit(world, waiting_runs=3)
    owner = impatient(world)
    owner.submit("note", delay=3_600)
    for _ in range(2):
        owner.submit("note")
    if followed:
        follow(world)
    world.wait(2)
    for process in (owner, impatient(world)):
        problem = throttled(process)
        assert (problem.tenant, problem.limit, problem.most, problem.seconds) == ("acme", "waiting_runs", 3, 2.0)
        assert (problem.per_second, problem.burst) == (None, None)
    assert "waiting_runs=3, and as many of its runs have not ended; nothing was done" in str(problem)
    assert unended(world) == len(world.memory.runs()) == 3
    Scheduler("beta", jobs=world.jobs, services=world.process(), clock=world.clock).submit("note")
    world.wait(problem.seconds)
    problem = throttled(owner)
    settle(world)
    assert unended(world) == 1
    world.wait(problem.seconds)
    owner.submit("note")
    owner.submit("note")
    throttled(owner)


def test_what_waits_is_counted_whoever_accepted_it_but_fires() -> None:
    world = World()
    owner = world.scheduler
    owner.create_schedule("s", "note", "* * * * *")
    owner.create_schedule("retrying", "bad", "* * * * *", retry=Retry(max_attempts=3, base=20_000.0))
    dead = owner.submit("bad", retry=Retry(max_attempts=1))
    settle(world, 150)
    owner.submit("note", delay=3_600)
    owner.trigger("s")
    owner.replay_run(dead.id)
    owner.backfill("s", world.now() - timedelta(hours=1), world.now(), current=True, concurrency=2, dry_run=False)
    follow(world)
    limit(world, waiting_runs=5)
    world.wait(6)
    throttled(impatient(world))
    limit(world, waiting_runs=6)
    world.wait(6)
    impatient(world).submit("note")
    assert quota(world).in_use == 6, "one-off, trigger, replay, two runs of the backfill, and this one"


ACTS: dict[str, Callable[[Scheduler, str], object]] = {
    "submit": lambda owner, dead: owner.submit("note"),
    "trigger": lambda owner, dead: owner.trigger("s"),
    "replay": lambda owner, dead: owner.replay_run(dead),
    "redrive": lambda owner, dead: owner.redrive(dead),
}


@pytest.mark.parametrize("name", ACTS)
def test_each_run_that_is_accepted_takes_a_place(name: str) -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "0 9 * * *")
    dead = world.scheduler.submit("bad", retry=Retry(max_attempts=1)).id
    settle(world, 1)
    limit(world, waiting_runs=1)
    owner = impatient(world)
    ACTS[name](owner, dead)
    throttled(owner)
    with pytest.raises(Throttled):
        ACTS["submit" if name == "redrive" else name](impatient(world), dead)


def test_what_is_there_needs_no_place() -> None:
    """A retry, a run moved to another time; a key that exists gives its place back."""
    world = World()
    retrying = world.scheduler.submit("bad", retry=Retry(max_attempts=3, base=20_000.0))
    world.live(1)
    limit(world, waiting_runs=2)
    world.wait(6)
    owner = impatient(world)
    first = owner.submit("note", idempotency_key="k", delay=60)
    for _ in range(3):
        assert owner.submit("note", idempotency_key="k", delay=60).id == first.id
    owner.reschedule(first.id, delay=120)
    owner.submit("note", delay=60)
    throttled(owner)
    assert len(world.memory.runs()) == 3, "the history does not know yet of the one that was there before"
    owner.retry_run(retrying.id)
    owner.cancel_run(first.id)


def test_runs_that_start_and_end_at_once_take_no_place_for_long() -> None:
    """They never are among the open ones: the ended ones say that they are not on their way any more."""
    world = World()
    limit(world, waiting_runs=10)
    owner, accepted = impatient(world), 0
    for _ in range(60):
        for _ in range(8):
            owner.submit("note")
            accepted += 1
        settle(world)
        world.wait(1)
    assert accepted == 480


def test_places_of_a_process_that_died_come_back() -> None:
    """Those that it had taken and not used: within two minutes."""
    world = World()
    limit(world, waiting_runs=20)
    dying = impatient(world)
    for _ in range(9):
        dying.submit("note")
    taken = quota(world).taken
    assert 9 < taken < 20
    settle(world)
    other = impatient(world)
    world.wait(10)
    accepted = 0
    while accepted < 20:
        try:
            other.submit("note", delay=3_600)
            accepted += 1
        except Throttled as problem:
            follow(world)
            world.wait(problem.seconds)
        assert world.clock() - world.started[0].at < 3 * MINUTE
    assert unended(world) == 20


def test_several_processes_at_once_never_have_more_than_that() -> None:
    """Eight that are asked for far more than ends, a historian that is behind by up to ten seconds, and some that die."""
    for seed in range(3):
        chance, world, most = random.Random(seed), World(), 24
        limit(world, waiting_runs=most)
        owners, open_runs, held, accepted, behind = [impatient(world) for _ in range(8)], list[str](), 0, 0, 0
        for second in range(90):
            for _ in range(12):
                with suppress(Throttled):
                    open_runs.append(chance.choice(owners).submit("note", delay=3_600).id)
                    accepted += 1
                world.wait(1 / 12)
                assert len(open_runs) <= most
            held += len(open_runs)
            if second % 30 == 20:
                owners[0] = impatient(world)
            for _ in range(min(3, len(open_runs))):
                world.scheduler.cancel_run(open_runs.pop(0))
            behind += 1
            if chance.random() < behind / 10:
                follow(world)
                behind = 0
        assert accepted > 90 * 3 * 0.8, "three a second end"
        assert held / 90 > most / 2, f"places stay empty: {held / 90}"


def test_who_finds_no_room_counts_ever_more_rarely_and_asks_nothing_in_between() -> None:
    world, faults = World(), Faults()
    limit(world, waiting_runs=1)
    owner = impatient(world, faults)
    owner.submit("note", delay=3_600)
    follow(world)
    pauses, begin = list[float](), len(faults.calls)
    for _ in range(8):
        problem = throttled(owner)
        pauses.append(problem.seconds)
        asked = len(faults.calls)
        world.wait(problem.seconds / 2)
        throttled(owner)
        assert len(faults.calls) == asked
        world.wait(problem.seconds / 2)
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]
    assert faults.verbs()[begin:].count("claim_count") == 7


def test_of_several_processes_that_are_refused_one_counts() -> None:
    world, faults = World(), Faults()
    limit(world, waiting_runs=1)
    world.owner(faults).submit("note", delay=3_600)
    follow(world)
    owners = [impatient(world, faults) for _ in range(5)]
    world.wait(2)
    for owner in owners:
        throttled(owner)
    assert faults.verbs().count("put_quota") == 2, "the first count, and this one"


def test_a_count_is_taken_anew_once_an_hour() -> None:
    """For what took no place: as in a process that did not know of the limit yet."""
    world, faults = World(), Faults()
    limit(world, waiting_runs=10)
    owner, other = impatient(world, faults), impatient(world)
    for process in (owner, other):
        process.submit("note", delay=30_000)
    services = world.process()
    for number in range(5):
        one = world.memory.runs()[0]
        services.ledger.submit(replace(one, ref=one_off_ref("acme", f"other-{number}"), created_at=world.clock()))
    follow(world)
    world.wait(3_500)
    owner.submit("note", delay=30_000)
    assert quota(world).in_use == 3
    world.wait(200)
    owner.submit("note", delay=30_000)
    assert quota(world).in_use == 9
    owner.submit("note", delay=30_000)
    throttled(other)  # which has seen three


def test_who_dies_while_it_counts_stops_the_tenant_for_a_second() -> None:
    world, faults = World(), Faults()
    limit(world, waiting_runs=2)
    owner = impatient(world)
    for _ in range(2):
        owner.submit("note")
    settle(world)
    world.wait(6)
    faults.at("put_quota", before=crash)
    with pytest.raises(Crash):
        impatient(world, faults).submit("note")
    assert throttled(owner).seconds == 1
    world.wait(1)
    owner.submit("note")


@pytest.mark.parametrize("verb", ["claim_count", "take_quota", "put_quota"])
def test_an_answer_that_is_lost_is_made_up_for_by_the_next_count(verb: str) -> None:
    world, faults = World(), Faults()
    limit(world, waiting_runs=4)
    faults.at(verb, after=fails)
    owner, begin, accepted = impatient(world, faults), world.clock(), 0
    while accepted < 4:
        try:
            owner.submit("note", delay=3_600)
            accepted += 1
        except Throttled as problem:
            follow(world)
            world.wait(problem.seconds)
        assert world.clock() - begin <= 3 * MINUTE
    follow(world)
    for _ in range(4):
        world.wait(throttled(owner).seconds)


def test_who_counts_does_not_overlook_what_is_taken_meanwhile() -> None:
    world, faults = World(), Faults()
    limit(world, waiting_runs=3)
    world.owner().submit("note", delay=3_600)
    follow(world)
    world.wait(3_700)
    other = impatient(world)
    faults.at("put_quota", before=lambda: other.submit("note", delay=3_600))
    impatient(world, faults).submit("note", delay=3_600)
    assert quota(world).in_use == 3
    throttled(other)


@pytest.mark.parametrize("verb", ["quota", "take_quota", "claim_count", "days"])
def test_a_count_that_cannot_be_taken_stops_nobody(verb: str, caplog: pytest.LogCaptureFixture) -> None:
    """Neither this process nor others, and only for as long as that."""
    world, faults = World(), Faults()
    limit(world, waiting_runs=1)
    faults.at(verb, before=fails, times=None)
    down = impatient(world, faults)
    with caplog.at_level(logging.WARNING):
        for _ in range(4):
            down.submit("note", delay=3_600)
    warned = [record for record in caplog.records if record.message == "limit.open"]
    assert len(warned) == 1, "once in five seconds"
    assert (vars(warned[0])["tenant"], vars(warned[0])["limit"]) == ("acme", "waiting_runs")
    world.wait(6)
    down.submit("note", delay=3_600)
    faults.rules.clear()
    follow(world)
    world.wait(6)
    with suppress(Throttled):
        down.submit("note", delay=3_600)  # what was accepted meanwhile is in the next count
    throttled(down)


def test_a_count_that_fails_lets_everybody_in() -> None:
    """Not one process for five seconds, and the others not before the next count."""
    world, faults = World(), Faults()
    limit(world, waiting_runs=1)
    impatient(world).submit("note", delay=3_600)
    world.wait(2)
    faults.at("days", before=fails, times=None)
    for _ in range(3):
        impatient(world, faults).submit("note", delay=3_600)


def test_without_a_history_nobody_is_stopped(caplog: pytest.LogCaptureFixture) -> None:
    world, faults = World(), Faults()
    limit(world, waiting_runs=1)
    settings = Settings(history=False)
    owner = Scheduler("acme", jobs=world.jobs, services=world.process(faults), clock=world.clock, settings=settings)
    for _ in range(3):
        owner.submit("note")
    assert "limit.open" in caplog.text
    assert "quota" not in faults.verbs()


def test_a_limit_that_was_raised_counts_within_five_seconds() -> None:
    world = World()
    limit(world, waiting_runs=1)
    owner = impatient(world)
    owner.submit("note", delay=3_600)
    while throttled(owner).seconds < 32:
        world.wait(throttled(owner).seconds)
    limit(world, waiting_runs=2)
    world.wait(5)
    owner.submit("note")


def test_a_caller_waits_for_a_place_as_long_as_its_patience_lasts() -> None:
    world = World()
    limit(world, waiting_runs=1)
    services = world.process()
    owner = Scheduler("acme", jobs=world.jobs, services=services, clock=world.clock, patience=4)
    owner.submit("note", delay=3_600)
    begin = world.clock()
    with pytest.raises(Throttled):
        owner.submit("note")
    assert world.clock() - begin == 3 * SECOND, "a second, and then two; four would be too many"


def test_a_count_costs_so_much_at_the_most() -> None:
    """The latest runs first, until there are more than may be, or for so many read units; and it puts off the next one by its cost."""
    world, faults = World(), Faults()
    for number in range(600):
        world.scheduler.submit("note", delay=number * 86_400 + 600)
    follow(world)
    for most, days in ((5, 10), (1_000, 505)):
        limit(world, waiting_runs=most)
        world.wait(3_700)
        before = len(faults.calls)
        with suppress(Throttled):
            impatient(world, faults).submit("note", delay=10**8)
        read = [operation for operation, detail in faults.calls[before:] if detail.place == "history"]
        assert days / 2 < len(read) <= days, f"{len(read)} requests for {most}"
    assert quota(world).in_use < 600
    assert quota(world).pause == 10_000


def test_a_busy_tenant_writes_once_in_five_seconds() -> None:
    world, faults = World(), Faults()
    limit(world, waiting_runs=100_000)
    owner = world.owner(faults)
    for _ in range(800):
        owner.submit("note", delay=4_000)
        world.wait(0.025)
    writes = [verb for verb in faults.verbs() if verb in ("take_quota", "claim_count", "put_quota")]
    assert len(writes) <= 20 / 5 * 2 + 10, f"{len(writes)} for 800 runs in 20 s"


# Bytes that are kept.


def test_a_tenant_keeps_so_many_bytes() -> None:
    world = World()
    limit(world, kept_bytes=250_000)
    owner = world.scheduler
    owner.create_schedule("s", "note", "0 9 * * *", payload=LARGE)
    owner.submit("note", LARGE)
    for act in (
        lambda: owner.submit("note", LARGE),
        lambda: owner.create_schedule("t", "note", "0 9 * * *", payload=LARGE),
        lambda: owner.trigger("s", payload=LARGE),
    ):
        with pytest.raises(LimitExceeded, match=r"kept_bytes=300,006: tenant 'acme' may have 250,000") as refused:
            act()
    problem = refused.value
    assert (problem.tenant, problem.limit, problem.value, problem.most) == ("acme", "kept_bytes", 300_006, 250_000)
    assert problem.remedy.startswith("of these 100,002 are new; send less than 64 KB")
    assert problem.command == "quarterjack tenants set acme --limit kept_bytes=300006"
    assert "quarterjack" not in str(problem)
    assert len(world.memory._payloads) == 2, "nothing was stored"
    assert [head.name for head in world.memory.heads()] == ["s"]
    owner.submit("note", "x" * 60_000)  # in its row
    Scheduler("beta", jobs=world.jobs, services=world.process(), clock=world.clock).submit("note", LARGE)


def test_a_replay_keeps_its_own_payload() -> None:
    world = World()
    first = world.scheduler.submit("note", LARGE)
    world.live(1)
    limit(world, kept_bytes=150_000)
    world.wait(6)
    with pytest.raises(LimitExceeded):
        world.scheduler.replay_run(first.id)


def test_results_count_and_are_never_refused() -> None:
    world = World()
    limit(world, kept_bytes=150_000)
    world.jobs.job("large")(lambda ctx, payload: LARGE)
    owner = world.owner()
    run = owner.submit("large")
    owner.submit("note", "y" * 70_000)
    world.live(1)
    assert owner.get_run(run.id).result == LARGE
    with pytest.raises(LimitExceeded, match="kept_bytes=270,006"):
        owner.submit("note", "z" * 100_000)


def test_nothing_is_taken_by_a_count_that_another_process_has_replaced() -> None:
    world = World()
    first, second, now = world.process().usage, world.process().usage, world.clock()
    assert first.take_bytes("acme", 10, 100, now, lambda quota: QuotaCount(in_use=0)) is None
    assert second.take_bytes("acme", 95, 100, now + 2_000, lambda quota: QuotaCount(in_use=80, seen=10)) == 175, (
        "80 and 95"
    )
    assert first.take_bytes("acme", 50, 100, now + 2_500, lambda quota: QuotaCount(in_use=80)) == 130, "80 and 50"
    assert quota(world, QuotaWord.KEPT_BYTES).in_use == 80


def test_what_was_removed_is_free_with_the_next_count() -> None:
    world = World()
    limit(world, kept_bytes=150_000)
    owner = world.scheduler
    owner.submit("note", LARGE)
    world.wait(2)
    with pytest.raises(LimitExceeded):
        owner.submit("note", LARGE)
    world.memory._payloads.clear()
    with pytest.raises(LimitExceeded):
        owner.submit("note", LARGE)
    world.wait(60)
    owner.submit("note", LARGE)
    world.memory._payloads.clear()
    assert quota(world, QuotaWord.KEPT_BYTES).in_use == 100_002


def test_what_many_processes_store_at_once_stays_within_the_limit() -> None:
    """Each counts while the objects of the ones before are on their way to the bucket."""
    world = World()
    limit(world, kept_bytes=1_000_000)
    refused = list[LimitExceeded]()

    def another(left: int) -> None:
        world.wait(2)  # a count is due
        try:
            world.owner(Faults().at("put", before=lambda: another(left - 1) if left else None)).submit("note", LARGE)
        except LimitExceeded as problem:
            refused.append(problem)

    for _ in range(3):
        another(25)
    assert sum(len(text) for text, _ in world.memory._payloads.values()) == 9 * 100_002
    assert refused
    assert {problem.value for problem in refused} == {1_000_020}


@pytest.mark.parametrize("seed", range(8))
def test_bytes_on_their_way_and_in_the_bucket_never_exceed_the_limit(seed: int) -> None:
    """Objects land up to ten seconds after their bytes were taken, and old ones go; clocks are some seconds apart."""
    world, chance = World(), random.Random(seed)
    processes = [(world.process().usage, chance.randrange(-4_000, 4_000)) for _ in range(5)]
    now, most = world.clock(), 1_000
    coming, bucket, granted = list[tuple[int, int]](), list[tuple[int, int]](), 0

    def counted(quota: Quota) -> QuotaCount:
        found = sum(size for _, size in bucket)
        seen = sum(size for at, size in bucket if at >= quota.since)
        return QuotaCount(in_use=found, seen=seen)

    for _ in range(1_500):
        now += chance.choice((1, 50, 400, 3_000))
        bucket += [(at, size) for at, size in coming if at <= now]
        coming = [(at, size) for at, size in coming if at > now]
        if chance.random() < 0.05:
            bucket = bucket[len(bucket) // 3 :]
        usage, skew = chance.choice(processes)
        size = chance.choice((30, 100, 250))
        if usage.take_bytes("acme", size, most, now + skew, counted) is None:
            granted += 1
            coming.append((now + chance.randrange(10_000), size))
        assert sum(size for _, size in (*coming, *bucket)) <= most
    assert granted > 60, "what went is free again"


def test_many_objects_are_counted_in_parts() -> None:
    """A call makes ten requests at the most; until all are counted, the count before holds, and what is taken."""
    world, faults = World(), Faults()
    for number in range(2_500):
        world.memory._payloads[f"payloads/acme/runs/acme%2F~x/{number:064x}-00000000"] = ("x" * 10, 0)
    world.memory._payloads[f"results/acme/{0:064x}"] = ("x" * 10, 0)
    limit(world, kept_bytes=10**6)
    owner = world.owner(faults)
    found = list[int]()
    for _ in range(4):
        asked = faults.verbs().count("kept")
        owner.submit("note", LARGE)
        assert faults.verbs().count("kept") - asked <= 10
        found.append(quota(world, QuotaWord.KEPT_BYTES).in_use)
        world.wait(2)
    assert found == [100_002, 200_004, 325_016, 425_018]
    assert quota(world, QuotaWord.KEPT_BYTES).cursor is None


def test_bytes_that_cannot_be_counted_stop_nobody(caplog: pytest.LogCaptureFixture) -> None:
    world, faults = World(), Faults()
    limit(world, kept_bytes=1)
    faults.at("kept", before=fails, times=None)
    world.owner(faults).submit("note", LARGE)
    assert "limit.open" in caplog.text
    faults.rules.clear()
    with pytest.raises(LimitExceeded):
        world.owner(faults).submit("note", LARGE)


def test_a_bucket_that_fails_is_not_hidden() -> None:
    world, faults = World(), Faults()
    limit(world, kept_bytes=10**6)
    faults.at("put", before=fails, times=None)
    with pytest.raises(Unavailable):
        world.owner(faults).submit("note", LARGE)


def test_a_child_that_its_rate_refuses_takes_no_place() -> None:
    world, refused = World(), list[str]()
    limit(world, waiting_runs=10, runs_per_second=0.01, runs_burst=3)

    @world.jobs.job("parent")
    def parent(ctx: Context, payload: object) -> None:
        for number in range(30):
            try:
                ctx.submit("note", step=f"c{number}")
            except Throttled as problem:
                refused.append(problem.limit)

    impatient(world).submit("parent")
    Hand(worker=world.worker()).work(most=1)
    assert refused == ["runs_per_second"] * 28, "none by the places"
    assert quota(world).taken <= 5
