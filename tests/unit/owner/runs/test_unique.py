"""Unique keys: at most one run of a job has a key, at most one more follows it, whatever crashes or races."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from threading import Barrier
from typing import Any

import pytest
from quarterjack import Registry, RunState
from quarterjack.domain.names import parse_run_id
from quarterjack.domain.run import EntryKind
from quarterjack.domain.times import SECOND
from quarterjack.errors import Conflict, InvalidInput, KeyReused
from quarterjack.owner.runs.submit import ORPHAN_PATIENCE
from quarterjack.testing import Crash, Harness

from tests.support.scenes.world import NOON, Faults, World, at, crash

MOMENTS = ("before", "after")


def payloads(world: World) -> list[object]:
    return [start.payload for start in world.started]


def states(world: World) -> list[RunState]:
    return [run.state for run in world.memory.runs()]


# While the first has not ended.


def test_a_second_submission_gets_the_run_that_has_the_key_until_that_has_ended() -> None:
    world = World()
    first = world.scheduler.submit("note", 1, unique="k")
    assert first.unique == "k"
    assert world.scheduler.submit("note", 2, unique="k").id == first.id
    world.work()
    second = world.scheduler.submit("note", 3, unique="k")
    assert second.id != first.id
    world.work()
    assert payloads(world) == [1, 3]
    assert world.memory.entries() == []


def test_a_key_is_of_one_job_and_one_tenant() -> None:
    world = World()
    ids = {world.scheduler.submit(job, unique="k").id for job in ("note", "once")}
    ids.add(world.scheduler.with_tenant("beta").submit("note", unique="k").id)
    assert len(ids) == 3


def test_a_key_is_held_while_its_run_waits_for_a_retry() -> None:
    world = World()
    first = world.scheduler.submit("bad", unique="k")
    world.work()
    assert world.scheduler.get_run(first.id).state is RunState.RETRYING
    assert world.scheduler.submit("bad", unique="k").id == first.id


def test_refused_it_names_the_run() -> None:
    world = World()
    first = world.scheduler.submit("note", 1, unique="k", delay=60)
    with pytest.raises(Conflict, match=first.id) as refused:
        world.scheduler.submit("note", 2, unique="k", on_duplicate="refuse")
    assert "nothing was submitted" in str(refused.value)
    assert len(world.memory.runs()) == 1


def test_a_cancelled_run_gives_its_key_back() -> None:
    world = World()
    first = world.scheduler.submit("note", 1, unique="k", delay=60)
    world.scheduler.cancel_run(first.id)
    assert world.scheduler.submit("note", 2, unique="k", on_duplicate="refuse").id != first.id


# For a time.


def test_for_a_time_the_key_outlives_its_run() -> None:
    world = World()
    first = world.scheduler.submit("note", 1, unique="k", unique_for=timedelta(minutes=10))
    world.work()
    world.wait(599)
    assert world.scheduler.submit("note", 2, unique="k", unique_for=600).id == first.id
    with pytest.raises(Conflict, match=r"after 2026-05-04T12:10:00\+00:00"):
        world.scheduler.submit("note", 2, unique="k", unique_for=600, on_duplicate="refuse")
    world.wait(1)
    assert world.scheduler.submit("note", 3, unique="k", unique_for=600).id != first.id


# Replace.


@pytest.mark.parametrize("later", [2, "x" * 500, "y" * 70_000])
@pytest.mark.parametrize("earlier", [1, "a" * 500])
def test_replaced_it_runs_once_with_the_last_payload_at_the_last_time(earlier: object, later: object) -> None:
    world = World()
    first = world.scheduler.submit("note", earlier, unique="k", delay=30)
    world.wait(20)
    second = world.scheduler.submit("note", later, unique="k", delay=30, on_duplicate="replace")
    assert (second.id, second.due) == (first.id, at(50))
    world.live(120)
    assert [(start.payload, start.at) for start in world.started] == [(later, NOON + 50_000)]
    assert world.memory.entries() == []


def test_each_call_puts_off_the_run_so_that_a_burst_runs_once() -> None:
    world = World()
    for n in range(20):
        world.scheduler.submit("note", n, unique="k", delay=5, on_duplicate="replace")
        world.live(1)
    world.live(60)
    assert payloads(world) == [19]


def test_what_has_begun_is_not_replaced() -> None:
    world = World()
    first = world.scheduler.submit("bad", 1, unique="k")
    world.work()
    with pytest.raises(Conflict, match="now RETRYING, so it cannot be replaced") as refused:
        world.scheduler.submit("bad", 2, unique="k", on_duplicate="replace")
    assert first.id in str(refused.value)


# After.


def test_one_more_run_starts_after_the_first_with_the_last_payload() -> None:
    world = World()
    seen = list[Any]()

    def meanwhile(ctx: Any) -> None:
        if not seen:
            seen.extend(
                world.scheduler.submit("note", n, unique="k", on_duplicate="after") for n in (2, 3, "x" * 500, 4)
            )

    world.during = meanwhile
    first = world.scheduler.submit("note", 1, unique="k")
    world.work()
    assert {run.id for run in seen} == {seen[0].id} != {first.id}
    assert (seen[0].state, seen[0].awaits) == (RunState.PARKED, f"run:{first.id}")
    assert payloads(world) == [1, 4]
    world.live(180)
    assert states(world) == [RunState.SUCCEEDED] * 2
    assert world.memory.entries() == []


def test_a_chain_of_followers_runs_one_at_a_time() -> None:
    world, running = World(), list[int]()

    def meanwhile(ctx: Any) -> None:
        assert not running
        running.append(1)
        if len(world.started) < 5:
            world.scheduler.submit("note", len(world.started), unique="k", on_duplicate="after")
        running.pop()

    world.during = meanwhile
    world.scheduler.submit("note", 0, unique="k")
    world.work()
    assert payloads(world) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("end", ["cancel", "dead"])
def test_a_follower_starts_however_the_first_ends(end: str) -> None:
    world = World()
    job = "bad" if end == "dead" else "note"
    first = world.scheduler.submit(job, 1, unique="k", delay=5)
    follower = world.scheduler.submit(job, 2, unique="k", on_duplicate="after")
    if end == "cancel":
        world.scheduler.cancel_run(first.id)
        assert world.scheduler.get_run(follower.id).state is RunState.QUEUED
    world.live(900)
    assert world.started[-1].payload == 2
    assert world.scheduler.get_run(first.id).state is (RunState.DEAD if end == "dead" else RunState.CANCELLED)


def test_a_follower_that_is_cancelled_leaves_the_first_alone() -> None:
    world = World()
    world.scheduler.submit("note", 1, unique="k", delay=5)
    follower = world.scheduler.submit("note", 2, unique="k", on_duplicate="after")
    world.scheduler.cancel_run(follower.id)
    again = world.scheduler.submit("note", 3, unique="k", on_duplicate="after")
    assert again.id != follower.id
    world.live(60)
    assert payloads(world) == [1, 3]


def test_the_deadline_of_a_follower_holds() -> None:
    world = World()
    world.scheduler.submit("note", 1, unique="k", delay=600)
    follower = world.scheduler.submit("note", 2, unique="k", on_duplicate="after", deadline=60)
    world.live(300)
    assert world.scheduler.get_run(follower.id).state is RunState.EXPIRED
    assert payloads(world) == [], "while the first still waits"
    world.live(600)
    assert payloads(world) == [1]


# Crashes.


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("verb", ["put", "submit_unique", "send", "remove"])
def test_a_submission_that_crashes_and_is_repeated_is_one_run(verb: str, moment: str) -> None:
    world, faults = World(), Faults()
    world.scheduler.submit("note", 0, unique="k")
    world.work()
    with pytest.raises(Crash):
        world.owner(faults.at(verb, **{moment: crash})).submit("note", 1, unique="k")
    world.scheduler.submit("note", 1, unique="k")
    world.live(ORPHAN_PATIENCE // SECOND + 60)
    assert set(payloads(world)) == {0, 1}
    assert len(world.memory.runs()) in (2, 3), "a run that has ended before the second call gave its key back"
    assert all(state is RunState.SUCCEEDED for state in states(world))
    assert world.memory.entries() == []


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("verb", ["put", "submit_unique", "unpark", "send"])
def test_a_follower_whose_submitter_crashes_starts_or_was_never_put(verb: str, moment: str) -> None:
    world, faults = World(), Faults()
    done = list[str]()
    first = world.scheduler.submit("note", 1, unique="k")

    def ends(ctx: Any = None) -> None:  # the first run ends while its follower is put
        if not done:
            done.append("over")
            world.work()

    faults.at("submit_unique", before=ends).at(verb, **{moment: crash})
    with pytest.raises(Crash):
        world.owner(faults).submit("note", 2, unique="k", on_duplicate="after")
    world.live(ORPHAN_PATIENCE // SECOND + 60)
    assert world.scheduler.get_run(first.id).state is RunState.SUCCEEDED
    assert payloads(world) == (
        [1, 2] if (verb, moment) not in {("put", m) for m in MOMENTS} | {("submit_unique", "before")} else [1]
    )
    assert all(state is RunState.SUCCEEDED for state in states(world))
    assert world.memory.entries() == []


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("verb", ["settle", "unique_key", "unpark", "send", "delete"])
def test_a_worker_that_crashes_at_the_end_of_the_first_leaves_a_follower_that_starts(verb: str, moment: str) -> None:
    world, faults = World(), Faults()
    world.scheduler.submit("note", 1, unique="k")
    world.scheduler.submit("note", 2, unique="k", on_duplicate="after")
    with suppress(Crash):
        world.work(world.worker(faults.at(verb, **{moment: crash})))
    world.live(900)
    assert payloads(world)[-1] == 2
    assert all(state is RunState.SUCCEEDED for state in states(world))
    assert world.memory.entries() == []


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("verb", ["resubmit", "send", "remove"])
def test_a_replacement_that_crashes_runs_once_with_either_payload(verb: str, moment: str) -> None:
    world, faults = World(), Faults()
    world.scheduler.submit("note", 1, unique="k", delay=30)
    with pytest.raises(Crash):
        world.owner(faults.at(verb, **{moment: crash})).submit("note", 2, unique="k", delay=20, on_duplicate="replace")
    world.live(900)
    assert payloads(world) == ([1] if (verb, moment) == ("resubmit", "before") else [2])
    assert world.memory.entries() == []


# Races.


@pytest.mark.parametrize("round_", range(5))
def test_eight_threads_with_one_key_make_one_run(round_: int) -> None:
    world, barrier = World(), Barrier(8)
    owners = [world.owner() for _ in range(8)]

    def one(n: int) -> str:
        barrier.wait()
        return owners[n].submit("note", n, unique=f"k{round_}", delay=600).id

    with ThreadPoolExecutor(8) as pool:
        ids = set(pool.map(one, range(8)))
    assert len(ids) == len(world.memory.runs()) == 1
    assert len(world.entries(EntryKind.RUN)) == 1, "the entries of the others were removed"


def test_eight_threads_after_one_run_make_one_more() -> None:
    world, barrier = World(), Barrier(8)
    owners = [world.owner() for _ in range(8)]
    first = world.scheduler.submit("note", 0, unique="k", delay=60)

    def one(n: int) -> str:
        barrier.wait()
        return owners[n].submit("note", n, unique="k", on_duplicate="after").id

    with ThreadPoolExecutor(8) as pool:
        ids = set(pool.map(one, range(8)))
    assert len(ids) == 1
    assert {str(run.ref) for run in world.memory.runs()} == ids | {first.id}


# Beside idempotency keys.


def test_a_call_with_both_keys_is_repeated_by_its_idempotency_key() -> None:
    world = World()
    first = world.scheduler.submit("note", 1, unique="k", idempotency_key="a")
    world.work()
    second = world.scheduler.submit("note", 2, unique="k", idempotency_key="b", delay=60)
    assert second.id != first.id
    assert world.scheduler.submit("note", 1, unique="k", idempotency_key="a").id == first.id
    with pytest.raises(KeyReused):
        world.scheduler.submit("note", 9, unique="k", idempotency_key="a")


# What it costs.


def test_it_costs_a_read_and_one_transaction_in_place_of_a_write_and_a_read_at_the_end() -> None:
    world, faults = World(), Faults()
    owner, at_work = world.owner(faults), Faults()
    owner.submit("note")
    faults.calls.clear()
    owner.submit("note", unique="k")
    assert faults.verbs() == ["unique_key", "put", "submit_unique", "send", "remove"]
    faults.calls.clear()
    owner.submit("note", unique="k")
    assert faults.verbs() == ["unique_key", "read"], "a duplicate writes nothing"
    world.work(world.worker(at_work))
    assert at_work.verbs().count("unique_key") == 1, "of the two runs that ended, the one with a key"


# Bad input.


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"unique": "a b"}, "unique"),
        ({"unique": ""}, "unique"),
        ({"unique_for": 5}, "unique_for"),
        ({"on_duplicate": "return"}, "on_duplicate"),
        ({"unique": "k", "on_duplicate": "debounce"}, "on_duplicate"),
        ({"unique": "k", "unique_for": 0}, "unique_for"),
        ({"unique": "k", "unique_for": True}, "unique_for"),
        ({"unique": "k", "unique_for": timedelta(days=91)}, "unique_for"),
        ({"unique": "k", "unique_for": 5, "on_duplicate": "after"}, "on_duplicate"),
        ({"unique": "k", "idempotency_key": "i", "on_duplicate": "replace"}, "idempotency_key"),
    ],
)
def test_bad_input_is_refused_and_nothing_is_written(given: dict[str, Any], field: str) -> None:
    world = World()
    with pytest.raises(InvalidInput, match=f"^{field}="):
        world.scheduler.submit("note", **given)
    assert (world.memory.runs(), world.memory.entries()) == ([], [])


def test_in_the_harness_a_burst_of_submissions_runs_twice() -> None:
    jobs, done = Registry(), list[int]()

    @jobs.job("sync")
    def sync(ctx: Any, payload: int) -> None:
        done.append(payload)
        if payload == 0:
            for n in (1, 2, 3):
                harness.scheduler.submit("sync", n, unique="customer-7", on_duplicate="after")

    harness = Harness(jobs, at=at(0))
    harness.scheduler.submit("sync", 0, unique="customer-7")
    harness.advance(minutes=2)
    assert done == [0, 3]


def test_of_two_replacements_at_once_the_second_replaces_the_first() -> None:
    """Each has a revision and an agenda entry of its own, and the entry of the other goes."""
    world, faults, others = World(), Faults(), [2]
    run = world.scheduler.submit("note", 1, unique="k", delay=600)

    def other() -> None:
        if others:
            world.scheduler.submit("note", others.pop(), unique="k", delay=700, on_duplicate="replace")

    faults.at("resubmit", before=other)
    world.owner(faults).submit("note", 3, unique="k", delay=800, on_duplicate="replace")
    row = world.services.ledger.read(parse_run_id(run.id))
    assert row is not None
    assert (row.payload, row.revision, row.due) == ("3", 2, NOON + 800_000)
    assert [entry.due for entry in world.entries(EntryKind.RUN)] == [NOON + 800_000]
    world.live(900)
    assert [start.payload for start in world.started] == [3]


def test_a_follower_that_is_replaced_while_it_is_woken_starts_at_its_new_time() -> None:
    world, faults, others = World(), Faults(), [3]
    world.scheduler.submit("note", 1, unique="k")
    world.scheduler.submit("note", 2, unique="k", on_duplicate="after")

    def other() -> None:
        if others:
            world.scheduler.submit("note", others.pop(), unique="k", delay=3_600, on_duplicate="replace")

    world.work(world.worker(faults.at("unpark", before=other)))
    world.live(3_000)
    assert payloads(world) == [1]
    world.live(700)
    assert payloads(world) == [1, 3]
