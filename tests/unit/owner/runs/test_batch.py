"""Batches: thousands of runs in few requests, each once, and one run when the last of them has ended, whatever crashes."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
from quarterjack import Context, Retry, RunState, Submission, Tenants
from quarterjack.domain.names import parse_run_id
from quarterjack.errors import Conflict, InvalidInput, KeyReused, Throttled, Unavailable
from quarterjack.stores.waits import chunk_of
from quarterjack.testing import Crash

from tests.support.scenes.world import NOON, Faults, World, at, crash, fails

MOMENTS = ("before", "after")


@dataclass
class Order:
    id: str


def notes(count: int, **policies: Any) -> list[Submission]:
    return [Submission("note", n, **policies) for n in range(1, count + 1)]


def counts(world: World) -> list[dict[str, Any]]:
    """Payloads of the starts of the run after the batch."""
    return [start.payload for start in world.started if isinstance(start.payload, dict) and "batch" in start.payload]


def worked(world: World) -> Counter[object]:
    return Counter(start.payload for start in world.started if not isinstance(start.payload, dict))


# Many runs.


def test_each_item_is_a_run_with_its_payload_time_and_policies() -> None:
    world = World()
    items = [
        Submission("note", 1),
        Submission("note", 2, delay=600),
        Submission("note", "x" * 500, priority="high"),
        Submission("note", "y" * 70_000, run_at=at(30)),
        Submission("bad", 5, retry=Retry(max_attempts=1), idempotency_key="mine"),
    ]
    batch = world.scheduler.submit_all(items, idempotency_key="b")
    assert [item.run_id for item in batch.items][:2] == ["acme/~b:00001#once", "acme/~b:00002#once"]
    assert batch.items[4].run_id == "acme/~mine#once"
    assert batch.refused == []
    world.live(900)
    assert {(start.payload, start.at - NOON) for start in world.started} == {
        (1, 0),
        (2, 600_000),
        ("x" * 500, 0),
        ("y" * 70_000, 30_000),
        (5, 0),
    }
    assert world.memory.entries() == []


def test_items_are_refused_one_by_one() -> None:
    world = World()
    world.scheduler.submit("note", "other", idempotency_key="taken")
    items = [
        Submission("note", 1),
        Submission("unknown", 2),
        Submission("note", {"x": float("nan")}),
        Submission("note", 4, delay=-1),
        Submission("note", 5, idempotency_key="taken"),
        Submission("note", 6, idempotency_key="six"),
        Submission("note", 6, idempotency_key="six"),
        Submission("note", 8),
    ]
    batch = world.scheduler.submit_all(items)
    assert [item.number for item in batch.refused] == [2, 3, 4, 5, 7]
    assert [type(item.error) for item in batch.refused] == [InvalidInput] * 3 + [KeyReused, InvalidInput]
    assert "is that of item 6" in str(batch.refused[-1].error)
    world.live(60)
    assert worked(world) == {"other": 1, 1: 1, 6: 1, 8: 1}


def test_a_tenant_held_to_a_rate_gets_what_its_rate_lets_in_within_the_patience_of_the_call() -> None:
    world = World()
    tenants = Tenants(services=world.services, clock=world.clock)
    tenants.create("acme", limits={"runs_per_second": 5})
    owner = world.owner()
    batch = owner.submit_all(notes(200), idempotency_key="b", on_end="once")
    assert {type(item.error) for item in batch.refused} == {Throttled}
    assert 0 < len(batch.refused) < 200
    world.live(60)
    assert worked(world) == {item.number: 1 for item in batch.items if item.error is None}
    assert counts(world) == [], "it waits for the others, too"


def test_the_same_call_repeated_gets_a_batch_through_that_is_larger_than_the_rate_lets_in() -> None:
    world = World()
    Tenants(services=world.services, clock=world.clock).create("acme", limits={"runs_per_second": 5})
    owner, left = world.owner(), [200]
    while left[-1] and len(left) < 10:
        left.append(len(owner.submit_all(notes(200), idempotency_key="b", on_end="once").refused))
    assert left[-1] == 0, left
    assert left == sorted(left, reverse=True)
    world.live(120)
    assert worked(world) == dict.fromkeys(range(1, 201), 1)
    assert [each["succeeded"] for each in counts(world)] == [200]


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"items": []}, "items"),
        ({"items": [Submission("note")] * 10_001}, "items"),
        ({"items": [Submission("note"), "note"]}, r"items\[2\]"),
        ({"items": [Submission("note")], "idempotency_key": "a b"}, "idempotency_key"),
        ({"items": [Submission("note")], "idempotency_key": "k" * 191}, "idempotency_key"),
        ({"items": [Submission("note")], "on_end": "unknown"}, "on_end"),
    ],
)
def test_a_call_that_is_wrong_as_a_whole_writes_nothing(given: dict[str, Any], field: str) -> None:
    world = World()
    with pytest.raises(InvalidInput, match=f"^{field}="):
        world.scheduler.submit_all(**given)
    assert (world.memory.runs(), world.memory.entries()) == ([], [])


def test_a_job_that_does_not_take_the_counts_is_refused_as_on_end() -> None:
    world = World()

    @world.jobs.job("typed")
    def typed(ctx: Context, payload: Order) -> None: ...

    for on_end in ("typed", typed):
        with pytest.raises(InvalidInput) as refused:
            world.scheduler.submit_all(notes(1), on_end=on_end)
        assert (refused.value.field, refused.value.value) == ("on_end", "typed")
        assert "payload.id=<missing>" in refused.value.problem
        assert refused.value.remedy == "name a job that takes batch, cancelled, failed, items, refused, succeeded"
    assert (world.memory.runs(), world.memory.entries()) == ([], [])


@pytest.mark.parametrize("count", [1_000, pytest.param(10_000, marks=pytest.mark.check)])
def test_they_take_a_fifth_of_the_requests_of_single_submits_at_most(count: int) -> None:
    world, faults, single = World(), Faults(), Faults()
    owner = world.owner(single)
    owner.submit("note")
    single.calls.clear()
    owner.submit("note")
    batch = world.owner(faults).submit_all(notes(count))
    requests = Counter(verb for verb in faults.verbs())
    assert len(world.memory.runs()) == count + 2
    assert not batch.refused
    calls = count * len(single.calls)
    # A call of the memory installation stands for requests of 25 rows, or of 10 messages.
    spent = (
        3 * count / 25
        + count / 10
        + requests.total()
        - sum(requests[verb] for verb in ("put", "claim", "send", "remove"))
    )
    assert spent < calls / 5


# The run when all have ended.


def test_one_run_starts_when_the_last_has_ended_with_counts() -> None:
    world = World()
    items = [
        *notes(250),
        Submission("bad", "x", retry=Retry(max_attempts=1)),
        Submission("unknown", 1),
        Submission("note", "late", delay=300),
    ]
    batch = world.scheduler.submit_all(items, idempotency_key="b", on_end="once")
    assert batch.on_end == "acme/~b#once"
    world.live(200)
    waiting = world.scheduler.get_run(batch.on_end)
    assert (waiting.state, waiting.awaits, waiting.parent) == (RunState.PARKED, "batch:253", None)
    assert counts(world) == []
    world.scheduler.cancel_run(str(batch.items[252].run_id))
    world.live(60)
    wanted = {"batch": "b", "items": 253, "succeeded": 250, "failed": 1, "cancelled": 1, "refused": 1}
    assert counts(world) == [wanted]
    assert world.scheduler.get_run(batch.on_end).payload == wanted
    world.live(7200)
    assert len(counts(world)) == 1
    assert world.memory.entries() == []


def test_a_batch_of_refused_items_alone_is_over_at_once() -> None:
    world = World()
    world.scheduler.submit_all([Submission("unknown")] * 3, on_end="note")
    world.work()
    assert [payload["refused"] for payload in counts(world)] == [3]


def test_an_item_with_a_key_of_its_own_is_refused_with_on_end() -> None:
    world = World()
    batch = world.scheduler.submit_all([Submission("note", 1, idempotency_key="k")], on_end="note")
    assert "follows from the batch's" in str(batch.refused[0].error)


def test_cancelled_it_lets_no_further_item_start() -> None:
    world = World()
    batch = world.scheduler.submit_all(notes(5, delay=30), on_end="once")
    world.scheduler.cancel_run(str(batch.on_end))
    world.live(120)
    assert world.started == []
    assert {run.state for run in world.memory.runs()} == {RunState.CANCELLED}


def test_the_end_of_an_item_reads_the_marks_of_the_others_only_once_its_hundred_is_complete() -> None:
    world, faults = World(), Faults()
    world.scheduler.submit_all(notes(300), on_end="once")
    world.work(world.worker(faults))
    assert faults.verbs().count("mark_ended") == 300
    assert faults.verbs().count("ended") == 3
    assert [*chunk_of(1, 300)] == [*range(1, 101)]
    assert [*chunk_of(250, 251)] == [*range(201, 252)]


def test_another_batch_with_the_key_is_refused() -> None:
    world = World()
    world.scheduler.submit_all(notes(3), idempotency_key="b", on_end="once")
    for items, on_end in ((notes(4), "once"), (notes(3), "note")):
        with pytest.raises(KeyReused, match="use another key"):
            world.scheduler.submit_all(items, idempotency_key="b", on_end=on_end)
    changed = world.scheduler.submit_all([*notes(2), Submission("note", "other")], idempotency_key="b", on_end="once")
    assert [item.number for item in changed.refused] == [3]
    of_no_batch = world.scheduler.submit_all(notes(3), idempotency_key="b")
    assert [type(item.error) for item in of_no_batch.refused] == [KeyReused] * 3


# Crashes.


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize(
    ("verb", "skip"),
    [
        ("put", 0),
        ("put", 1),
        ("submit", 0),
        ("submit", 1),
        ("claim", 0),
        ("send", 0),
        ("remove", 0),
        ("mark_items", 0),
        ("unpark", 0),
    ],
)
def test_killed_and_repeated_each_item_runs_once_and_so_does_the_run_after(verb: str, skip: int, moment: str) -> None:
    world, faults = World(), Faults()
    items = [*notes(3), Submission("note", "x" * 500), Submission("unknown")]
    call = {"idempotency_key": "b", "on_end": "once"}
    faults.at(verb, skip=skip, **{moment: crash}).at("mark_items", before=lambda: world.work() and None)
    with suppress(Crash):
        world.owner(faults).submit_all(items, **call)
    world.live(60)
    world.scheduler.submit_all(items, **call)
    world.live(1800)
    assert worked(world) == {1: 1, 2: 1, 3: 1, "x" * 500: 1}
    assert [payload["succeeded"] for payload in counts(world)] == [4]
    assert world.memory.entries() == []


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("verb", ["settle", "mark_ended", "ended", "unpark", "send", "delete"])
def test_a_worker_that_crashes_at_the_last_end_leaves_a_batch_that_ends(verb: str, moment: str) -> None:
    world, faults = World(), Faults()
    world.scheduler.submit_all(notes(1), idempotency_key="b", on_end="note")
    with suppress(Crash):
        world.work(world.worker(faults.at(verb, **{moment: crash})))
    world.live(1800)
    assert {payload["succeeded"] for payload in counts(world)} == {1}
    assert {run.state for run in world.memory.runs()} == {RunState.SUCCEEDED}
    assert world.memory.entries() == []


def test_the_timer_finds_items_whose_ends_nobody_marked() -> None:
    world, faults = World(), Faults()
    batch = world.scheduler.submit_all(notes(250), idempotency_key="b", on_end="once")
    world.work()
    assert len(counts(world)) == 1
    lost = World()
    lost.scheduler.submit_all(notes(150), idempotency_key="b", on_end="once")
    worker = lost.worker(faults.at("mark_ended", before=fails, times=None))
    with suppress(Crash):
        lost.work(worker)
    lost.memory.work.purge()
    lost.live(7200)
    assert [payload["succeeded"] for payload in counts(lost)] == [150]
    assert parse_run_id(batch.on_end).tenant == "acme"


def test_an_unanswered_claim_is_told_and_a_repeated_call_puts_it() -> None:
    world, faults = World(), Faults()
    faults.at("claim", throttle=range(3), times=None)
    batch = world.owner(faults).submit_all(notes(3), idempotency_key="b", on_end="once")
    assert [type(item.error) for item in batch.refused] == [Unavailable] * 3
    world.live(60)
    assert counts(world) == []
    world.scheduler.submit_all(notes(3), idempotency_key="b", on_end="once")
    world.live(60)
    assert [payload["succeeded"] for payload in counts(world)] == [3]


def test_an_item_whose_agenda_entry_is_not_accepted_has_no_run_until_the_call_is_repeated() -> None:
    world, faults = World(), Faults()
    faults.at("put", skip=1, throttle=[1]).at("put", skip=2, throttle=[0], times=None)  # the timer comes first
    batch = world.owner(faults).submit_all(notes(3), idempotency_key="b", on_end="once")
    assert [(item.number, type(item.error)) for item in batch.refused] == [(2, Unavailable)]
    world.live(60)
    assert worked(world) == {1: 1, 3: 1}
    assert counts(world) == []
    assert world.scheduler.submit_all(notes(3), idempotency_key="b", on_end="once").refused == []
    world.live(60)
    assert [payload["succeeded"] for payload in counts(world)] == [3]


def test_a_batch_that_was_cancelled_is_not_begun_again() -> None:
    world = World()
    batch = world.scheduler.submit_all(notes(2, delay=30), idempotency_key="b", on_end="once")
    world.scheduler.cancel_run(str(batch.on_end))
    world.scheduler.submit_all(notes(2, delay=30), idempotency_key="b", on_end="once")
    world.live(120)
    assert world.started == []
    with pytest.raises(Conflict):
        world.scheduler.retry_run(str(batch.on_end))
