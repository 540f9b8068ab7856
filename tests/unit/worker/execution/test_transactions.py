"""``ctx.transaction``: a job's own items are written once a run, whoever crashes, stalls or hears nothing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from quarterjack import Context, Retry, Run, RunState
from quarterjack.domain.names import parse_run_id
from quarterjack.errors import InvalidInput, ItemRefused, LeaseLost, RunCancelled, Unavailable
from quarterjack.state.lease import lease
from quarterjack.testing import Crash
from quarterjack.worker.execution.transaction import LARGEST

from tests.support.job_tables import DictClient, put
from tests.support.scenes.world import Faults, World, crash, fails

SOON = Retry(max_attempts=4, base=1.0, jitter=0.0, backoff="fixed")  # a word, as users write it


def a_world() -> tuple[World, DictClient]:
    world = World()
    world.memory.dynamodb = DictClient()
    return world, world.memory.dynamodb


def ended(world: World, run: Run, seconds: float = 30) -> Run:
    world.live(seconds)
    return world.scheduler.get_run(run.id)


def test_it_is_written_with_its_step_and_never_again() -> None:
    world, table = a_world()
    seen: list[Any] = []

    @world.jobs.job("book", retry=SOON)
    def book(ctx: Context, payload: Any) -> None:
        seen.append((ctx.attempt, ctx.fence, ctx.transaction([put(f"attempt {ctx.attempt}")], result=(ctx.attempt,))))
        if ctx.attempt < 3:
            raise ConnectionError

    run = ended(world, world.scheduler.submit("book"))
    assert (run.state, run.steps) == (RunState.SUCCEEDED, {"transaction": [1]})
    assert table.written == ["attempt 1"]
    assert seen == [(1, 1, [1]), (2, 2, [1]), (3, 3, [1])]


def test_several_have_names_of_their_own() -> None:
    world, table = a_world()
    problems: list[str] = []

    @world.jobs.job("book", retry=SOON)
    def book(ctx: Context, payload: Any) -> None:
        ctx.transaction([put("a")], step="first")
        ctx.transaction([put("b")], step="second")
        ctx.step("third", lambda: 3)
        for step in ("first", "second", "third"):
            with pytest.raises(InvalidInput, match="was recorded by this attempt already; give every step") as caught:
                ctx.transaction([put("c")], step=step)
            problems.append(str(caught.value))
        if ctx.attempt == 1:
            raise ConnectionError

    assert ended(world, world.scheduler.submit("book")).state is RunState.SUCCEEDED
    assert table.written == ["a", "b"]
    assert len(problems) == 6


@pytest.mark.parametrize("awaits", [False, True])
def test_a_step_with_the_name_of_a_transaction_does_not_run(awaits: bool) -> None:
    """Its result could not be recorded, which would look like a lost lease."""
    world, table = a_world()
    ran: list[int] = []

    def plain() -> None:
        ran.append(1)

    async def awaited() -> None:
        ran.append(2)

    @world.jobs.job("book")
    def book(ctx: Context, payload: Any) -> None:
        ctx.transaction([put("a")], step="same")
        with pytest.raises(InvalidInput, match="was recorded by this attempt already; give every step"):
            asyncio.run(ctx.step("same", awaited)) if awaits else ctx.step("same", plain)

    assert ended(world, world.scheduler.submit("book")).state is RunState.SUCCEEDED
    assert (table.written, ran) == (["a"], [])


def test_a_transaction_with_the_name_of_an_earlier_attempts_step_is_refused() -> None:
    """The step's record would say that the items are written."""
    world, table = a_world()

    @world.jobs.job("book", retry=SOON)
    def book(ctx: Context, payload: Any) -> None:
        ctx.step("same", lambda: 1)
        if ctx.attempt == 1:
            raise ConnectionError
        ctx.transaction([put("a")], step="same")

    run = ended(world, world.scheduler.submit("book"))
    assert (run.state, run.error_type, table.written) == (RunState.DEAD, "InvalidInput", [])


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_worker_that_dies_at_it_leaves_it_written_once(moment: str) -> None:
    world, table = a_world()
    results: list[Any] = []

    @world.jobs.job("book", retry=SOON)
    def book(ctx: Context, payload: Any) -> None:
        results.append(ctx.transaction([put("a", new=True)], result=ctx.attempt))

    run = world.scheduler.submit("book")
    with pytest.raises(Crash):
        world.work(world.worker(Faults().at("commit", **{moment: crash})))
    assert ended(world, run, 120).state is RunState.SUCCEEDED
    assert table.written == ["a"]
    assert results == [2 if moment == "before" else 1]


@pytest.mark.parametrize("times", [1, None])
def test_one_whose_response_was_lost_is_found(times: int | None) -> None:
    """The request is repeated; and where that fails too, the job tries again."""
    world, table = a_world()
    results: list[Any] = []
    faults = Faults().at("commit", after=fails, times=times)

    @world.jobs.job("book", retry=SOON)
    def book(ctx: Context, payload: Any) -> None:
        try:
            results.append(ctx.transaction([put("a", new=True)], result="once"))
        except Unavailable:
            faults.rules.clear()
            results.append(ctx.transaction([put("b", new=True)], result="again"))

    run = world.scheduler.submit("book")
    world.work(world.worker(faults))
    assert world.scheduler.get_run(run.id).state is RunState.SUCCEEDED
    assert (table.written, results) == (["a"], ["once"])


def test_a_stale_worker_writes_nothing() -> None:
    world, table = a_world()
    world.jobs.job("book", retry=SOON)(lambda ctx, payload: None)
    caught: list[Exception] = []

    @world.jobs.job("stalls", retry=SOON)
    def stalls(ctx: Context, payload: Any) -> None:
        ref = parse_run_id(ctx.run_id)
        if ctx.attempt == 1:
            taken = lease(revision=0, now=world.clock() + 71_000, token="t", worker="o", max_attempts=3, steal=True)
            assert world.services.ledger.move(ref, taken).applied
        try:
            ctx.transaction([put("stale")])
        except LeaseLost as problem:
            caught.append(problem)
            raise

    world.scheduler.submit("stalls")
    world.work()
    assert table.written == []
    assert "this worker lost it, so its transaction 'transaction' was not recorded; stop" in str(caught[0])


def test_a_cancelled_run_writes_nothing_more() -> None:
    world, table = a_world()
    worker = world.worker()

    @world.jobs.job("book", retry=SOON)
    def book(ctx: Context, payload: Any) -> None:
        world.scheduler.cancel_run(ctx.run_id)
        worker.heartbeat.beat(world.clock())
        with pytest.raises(RunCancelled):
            ctx.transaction([put("a")])
        raise RunCancelled

    run = world.scheduler.submit("book")
    world.work(worker)
    assert (world.scheduler.get_run(run.id).state, table.written) == (RunState.CANCELLED, [])


def test_the_item_that_is_refused_is_named_and_the_job_decides() -> None:
    world, table = a_world()
    caught: list[ItemRefused] = []

    @world.jobs.job("book", retry=SOON)
    def book(ctx: Context, payload: Any) -> str:
        try:
            ctx.transaction([put("x"), put("seat 7", new=True)])
        except ItemRefused as problem:
            caught.append(problem)
            return str(ctx.transaction([put("waiting list")], result="waits"))
        return "booked"

    table.stored["seat 7"] = {}
    run = ended(world, world.scheduler.submit("book"))
    (problem,) = caught
    assert (problem.index, problem.action, problem.table) == (1, "Put", "orders")
    assert str(problem).startswith("items[1]: the condition of this Put in table 'orders' does not hold")
    assert (run.result, table.written) == ("waits", ["waiting list"])


def test_threads_at_one_transaction_write_once() -> None:
    world, table = a_world()
    outcomes: list[str] = []

    @world.jobs.job("book", retry=SOON)
    def book(ctx: Context, payload: Any) -> None:
        def at() -> None:
            try:
                outcomes.append(ctx.transaction([put("a")], result="written"))
            except InvalidInput:
                outcomes.append("refused")

        threads = [threading.Thread(target=at) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    world.scheduler.submit("book")
    world.work()
    assert sorted(outcomes) == ["refused"] * 3 + ["written"]
    assert table.written == ["a"]


WRONG: dict[str, tuple[Any, str]] = {
    "no list": ({"Put": {}}, "items=.* is not a list of items; pass boto3's form"),
    "none": ([], "is not a list of items"),
    "too many": ([put(str(n)) for n in range(99)], "is more than 98; pass at most 98 a transaction"),
    "too large": ([put(str(n), text="x" * 350_000) for n in range(13)], f"bytes; keep them within {LARGEST:,}"),
    "an item of two": ([put("a") | {"Delete": {}}], r"items\[0\]=.* is not one of Put, Update, Delete, ConditionCheck"),
    "a read": ([{"Get": {}}], "is not one of Put"),
    "no table": ([put("a"), {"Put": {"Item": {}}}], r"items\[1\].Put=.* names no table"),
    "no key": ([{"Update": {"TableName": "t"}}], r"items\[0\].Update=.* has no Key"),
    "plain values": (
        [{"Put": {"TableName": "t", "Item": {"id": "a"}}}],
        r"items\[0\].Put.Item\['id'\]='a': does not say its type; write \{'S': 'text'\}",
    ),
    "plain values of an expression": (
        [
            {
                "Update": {
                    "TableName": "t",
                    "Key": {"id": {"S": "a"}},
                    "UpdateExpression": "SET n = :n",
                    "ExpressionAttributeValues": {":n": 1},
                }
            }
        ],
        r"ExpressionAttributeValues\[':n'\]=1: does not say its type",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_no_transaction_is_refused_before_it_is_sent(what: str) -> None:
    world, table = a_world()
    items, problem = WRONG[what]
    caught = _refusal(world, lambda ctx: ctx.transaction(items))
    with pytest.raises(InvalidInput, match=problem):
        raise caught
    assert table.written == []


def test_wrong_names_and_results_are_refused() -> None:
    world, _ = a_world()
    for call, problem in (
        (lambda ctx: ctx.transaction([put("a")], step=""), "step="),
        (lambda ctx: ctx.transaction([put("a")], result=object()), "result=.*is not JSON"),
    ):
        with pytest.raises(InvalidInput, match=problem):
            raise _refusal(world, call)


def test_an_installation_in_memory_says_what_it_needs() -> None:
    caught = _refusal(World(), lambda ctx: ctx.transaction([put("a")]))
    assert "pass Harness(dynamodb=client), a client of boto3" in str(caught)


def _refusal(world: World, call: Callable[[Context], Any]) -> Exception:
    caught: list[Exception] = []

    def wrong(ctx: Context, payload: Any) -> None:
        try:
            call(ctx)
        except InvalidInput as problem:
            caught.append(problem)

    world.jobs.job(f"wrong-{len(world.started)}-{id(call)}", retry=SOON)(wrong)
    world.scheduler.submit(f"wrong-{len(world.started)}-{id(call)}")
    world.work()
    (problem,) = caught
    return problem
