"""Stripes in worker processes and functions, and how their number is said."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import boto3
import pytest
from quarterjack import Context, Registry, RunState, Scheduler
from quarterjack.aws import BatchBackoff
from quarterjack.daemon.roles import worker_process
from quarterjack.daemon.worker_process import WorkerProcess
from quarterjack.domain.message import Message, decode
from quarterjack.domain.names import fire_ref
from quarterjack.domain.queue import Queue
from quarterjack.errors import InvalidInput, Misconfigured, QuarterjackError
from quarterjack.local.installation import create_queues
from quarterjack.ports.queues import OutgoingMessage
from quarterjack.ports.services import Services
from quarterjack.services import connect, system_clock
from quarterjack.settings import Settings, from_environment
from quarterjack.sqs.queues import SqsWorkQueue
from quarterjack.sqs.stripes import Stripe, Stripes, all_queues, stripe_called, striped
from quarterjack.testing import Harness, Memory

from functions.worker.batch import work_off

PATIENCE = 20.0  # seconds


@contextmanager
def working(services: Services, jobs: Registry, concurrency: int) -> Iterator[None]:
    stop, process = threading.Event(), WorkerProcess(services, jobs, concurrency=concurrency)
    running = threading.Thread(target=partial(process.run, stop=stop, grace=PATIENCE))
    running.start()
    try:
        yield
    finally:
        stop.set()
        running.join(PATIENCE)
        assert not running.is_alive()


@pytest.mark.parametrize("concurrency", [1, 2, 3, 10])
def test_a_process_takes_from_all_stripes_whatever_its_concurrency(concurrency: int) -> None:
    jobs, all_done, lock = Registry(), threading.Event(), threading.Lock()
    started: list[str] = []
    at_once = most = 0

    @jobs.job("note")
    def note(ctx: Context, payload: object) -> None:
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
            started.append(ctx.run_id)
        if len(started) == 30:
            all_done.set()
        with lock:
            at_once -= 1

    memory = Memory(system_clock, stripes={None: 3}, idle=lambda seconds: threading.Event().wait(min(seconds, 0.02)))
    scheduler = Scheduler(jobs=jobs, services=memory.connect())
    expected = [scheduler.submit("note", idempotency_key=f"run-{n}").id for n in range(30)]
    assert all(len(stripe) > 3 for stripe in memory.stripes.values())
    with working(memory.connect(), jobs, concurrency):
        assert all_done.wait(PATIENCE)
    assert sorted(started) == sorted(expected)
    assert most <= concurrency
    assert {run.state for run in memory.runs()} == {RunState.SUCCEEDED}
    assert not any(len(stripe) for stripe in memory.stripes.values())


def test_a_process_works_while_its_other_stripes_are_empty_and_give_no_sign() -> None:
    """An idle poller holds its part of the slots and no more."""
    jobs, started = Registry(), threading.Semaphore(0)
    jobs.job("note")(lambda ctx, payload: started.release())
    empty = threading.Event()
    memory = Memory(system_clock, stripes={None: 3}, idle=empty.wait)
    sender = Scheduler(jobs=jobs, services=memory.connect(stripes={}))  # knows of the first stripe only
    with working(memory.connect(), jobs, 3):
        for _ in range(8):
            sender.submit("note")
        assert all(started.acquire(timeout=PATIENCE) for _ in range(8))
        empty.set()


def test_a_function_settles_what_it_was_handed_from_any_stripe() -> None:
    jobs, started = Registry(), list[str]()
    jobs.job("note")(lambda ctx, payload: started.append(ctx.run_id))
    memory = Memory(system_clock, stripes={None: 3})
    scheduler = Scheduler(jobs=jobs, services=memory.connect())
    expected = {scheduler.submit("note").id for _ in range(12)}
    for stripe, queue in memory.stripes.items():
        records = [
            {
                "messageId": each.id,
                "receiptHandle": each.receipt,
                "body": each.body,
                "eventSourceARN": f"arn:aws:sqs:eu-west-1:123456789012:quarterjack-{stripe.suffix}",
            }
            for each in queue.take(10, 60)
        ]
        outcomes, _ = work_off(
            records,
            memory.connect(),
            lambda: jobs,
            name="function",
            around=lambda message: _nothing(),
            remaining=lambda: None,
        )
        assert all(outcomes[record["messageId"]][1].gone for record in records)
    assert set(started) == expected
    assert not any(len(queue) for queue in memory.stripes.values())


@contextmanager
def _nothing() -> Iterator[None]:
    yield


@pytest.mark.cloud
def test_a_worker_that_is_told_of_no_stripes_serves_them_all(local_settings: Settings) -> None:
    jobs, done, started = Registry(), threading.Event(), list[str]()

    @jobs.job("note")
    def note(ctx: Context, payload: object) -> None:
        started.append(ctx.run_id)
        if len(started) == 12:
            done.set()

    told = replace(local_settings, stripes="default=3")
    create_queues(boto3.client("sqs", endpoint_url=told.endpoint, region_name=told.region), told, [])
    sender = Scheduler(jobs=jobs, settings=told)
    expected = {sender.submit("note").id for _ in range(12)}
    stop = threading.Event()
    worker = threading.Thread(
        target=worker_process(local_settings, jobs, concurrency=5).run, kwargs={"stop": stop, "grace": 10}
    )
    worker.start()
    try:
        assert done.wait(2 * PATIENCE)
    finally:
        stop.set()
        worker.join(PATIENCE)
    assert set(started) == expected


def test_the_harness_serves_them_all() -> None:
    jobs = Registry()
    jobs.queue("reports", stripes=4)
    jobs.job("note", queue="reports")(lambda ctx, payload: None)
    harness = Harness(jobs, at=datetime(2026, 5, 4, 8, tzinfo=UTC))
    harness.scheduler.create_schedule("s", "note", "* * * * *")
    harness.advance(timedelta(hours=1))
    runs = [run for run in harness.runs() if run.due <= harness.clock.now()]
    assert (len(runs), {run.state for run in runs}) == (60, {RunState.SUCCEEDED})


# How it is said.


def test_names_and_numbers() -> None:
    assert [each.suffix for each in (Stripe(None), Stripe("a-1", 0), Stripe(None, 3), Stripe("a-1", 12))] == [
        *("work", "work-a-1", "work_3", "work-a-1_12")
    ]
    for name in ("arn:aws:sqs:eu-west-1:1:m-work", "m-work-7", "m-work_3", "m-work-7_12", ""):
        assert stripe_called(name) == Stripe(None, {"m-work_3": 3, "m-work-7_12": 12}.get(name, 0))
    declared = [Queue(name="a", stripes=2), Queue(name="b")]
    assert [queue.suffix for queue in all_queues(declared, stripes=3)] == [
        *("dead", "work", "work_1", "work_2", "work-a", "work-a_1", "work-b")
    ]


def test_the_variable_says_what_is_not_one() -> None:
    assert from_environment({"QUARTERJACK_STRIPES": "default=3"}).stripes == "default=3"
    assert Stripes(numbers={None: 4, "a": 1, "reports": 2}).texts == ("default=4,reports=2", None)
    assert striped("default=4, reports=2") == {None: 4, "reports": 2}
    assert (striped(None), striped(""), Stripes(numbers={None: 1}).texts[0]) == ({}, {}, None)


@pytest.mark.parametrize("text", ["4", "default", "default=four", "A=2", "a=0", "a=101", "a=2,,b=3"])
def test_a_variable_that_is_wrong_is_refused_when_services_are_made(text: str) -> None:
    with pytest.raises(Misconfigured, match="QUARTERJACK_STRIPES"):
        connect(Settings(stripes=text, region="eu-west-1"))


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"stripes": 0}, "stripes"),
        ({"stripes": 101}, "stripes"),
        ({"stripes": True}, "stripes"),
        ({"stripes": 4, "concurrency": 10}, "concurrency"),  # no multiple
        ({"stripes": 4, "concurrency": 4}, "concurrency"),  # one for each: Lambda's least is two
        ({"pollers": 1}, "pollers"),
        ({"pollers": 201}, "pollers"),
        ({"pollers": 100, "most_pollers": 99}, "most_pollers"),
        ({"pollers": 100, "most_pollers": 2_001}, "most_pollers"),
        ({"most_pollers": 10}, "most_pollers"),  # than what?
        ({"pollers": 100, "concurrency": 10}, "pollers"),  # Lambda holds to one of them
    ],
)
def test_a_queue_that_cannot_be_is_refused(given: dict[str, int], field: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        Registry().queue("reports", **given)  # type: ignore[arg-type]
    assert (refusal.value.field, bool(refusal.value.remedy)) == (field, True)
    assert isinstance(refusal.value, QuarterjackError)


@pytest.mark.parametrize(
    ("concurrency", "stripes", "batch", "functions"),
    [(12, 1, 6, 2), (24, 2, 6, 2), (40, 4, 5, 2), (6, 3, 1, 2), (8, 1, 4, 2)],
)
def test_the_functions_of_all_stripes_run_exactly_as_many(
    concurrency: int, stripes: int, batch: int, functions: int
) -> None:
    queue = Queue(name="a", concurrency=concurrency, stripes=stripes)
    assert queue.functions == (batch, functions)
    assert batch * functions * stripes == concurrency


def test_what_is_throttled_is_sent_again_beside_what_makes_a_detour() -> None:
    """This process knows of a stripe that is not there, and the first one is busy."""

    class Busy:
        asked = 0

        def rounds(self, backoff: BatchBackoff) -> Iterator[int]:
            return backoff.rounds_with_waits()

        def call(self, operation: str, **arguments: Any) -> dict[str, Any]:
            if operation == "get_queue_url":
                if arguments["QueueName"].endswith("_1"):
                    raise Misconfigured("there is no such queue")
                return {"QueueUrl": arguments["QueueName"]}
            self.asked += 1
            ids = [entry["Id"] for entry in arguments["Entries"]]
            if self.asked <= 3:
                return {"Failed": [{"Id": each, "Code": "RequestThrottled"} for each in ids]}
            return {"Successful": [{"Id": each} for each in ids]}

        call_once = call

    client: Any = Busy()
    work = SqsWorkQueue(client, "p-work", backoff=BatchBackoff(wait=lambda _: None), stripes=Stripes(numbers={None: 2}))
    due = 10**12
    messages = [Message(run=fire_ref("acme/s", due + n), revision=1, not_before=due) for n in range(8)]
    assert list(work.send([OutgoingMessage(message, 0) for message in messages])) == [True] * 8


def test_a_message_is_sent_with_its_own_delay() -> None:
    class Sent:
        def __init__(self) -> None:
            self.entries = list[dict[str, Any]]()

        def rounds(self, backoff: BatchBackoff) -> Iterator[int]:
            return backoff.rounds_with_waits()

        def call(self, operation: str, **arguments: Any) -> dict[str, Any]:
            if operation == "get_queue_url":
                return {"QueueUrl": arguments["QueueName"]}
            self.entries += arguments["Entries"]
            return {"Successful": [{"Id": entry["Id"]} for entry in arguments["Entries"]]}

        call_once = call

    client: Any = Sent()
    work = SqsWorkQueue(client, "p-work", backoff=BatchBackoff(wait=lambda _: None))
    due = 10**12
    messages = [
        OutgoingMessage(Message(run=fire_ref("acme/s", due + n), revision=1, not_before=due), delay)
        for n, delay in enumerate((0, 7, 900))
    ]
    assert all(work.send(messages))
    assert {decode(entry["MessageBody"]).run.key: entry["DelaySeconds"] for entry in client.entries} == {
        each.message.run.key: each.delay for each in messages
    }
