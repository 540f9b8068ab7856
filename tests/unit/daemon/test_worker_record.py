"""The record of a worker: who it is, what it has at hand, how often it is written, and what its silence means."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any, cast

import pytest
from quarterjack import Context, Registry
from quarterjack.daemon import worker_record
from quarterjack.daemon.worker_record import RecordKeeper, catalogue_of, function_identity, process_identity
from quarterjack.domain.job_catalogue import OWNER
from quarterjack.domain.message import GARBAGE
from quarterjack.domain.names import RunRef
from quarterjack.domain.times import DAY, HOUR, MINUTE, SECOND
from quarterjack.owner.app_versions import register
from quarterjack.owner.catalogue import read_catalogue
from quarterjack.owner.workers import read_workers, running_runs, with_states
from quarterjack.state.worker_record import (
    KEY,
    MOST_RUNS,
    NEWS,
    PERIOD,
    RESTING,
    WATCH,
    GivenBack,
    JobNames,
    RunAtHand,
    WorkerIdentity,
    WorkerKind,
    WorkerRow,
    WorkerState,
    fitting,
    owner_of,
    owners,
    parse_record,
    record_body,
)
from quarterjack.stores.records import Record
from quarterjack.testing import Crash
from quarterjack.worker.admission.admit import UNKNOWN_DELAY
from quarterjack.worker.context import WorkerContext
from quarterjack.worker.delivery.receive import receive
from quarterjack.worker.delivery.visibility import HIDDEN, Heartbeat
from quarterjack.worker.pipeline import run_batch
from quarterjack.worker.versions import OwnVersion

from tests.support.scenes.world import NOON, Faults, World, crash, fails

STREAM = "2026/11/22/[$LATEST]0123456789abcdef0123456789abcdef"


@dataclass
class Letter:
    """A payload."""

    to: str


class AtOnce:
    """In place of threads: a write is done when it was asked for."""

    def start(self, name: str, body: Any) -> None:
        del name
        body()


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(worker_record, "ThreadCache", AtOnce)
    return World()


def keeper_of(world: World, worker: WorkerContext, kind: WorkerKind = WorkerKind.PROCESS) -> RecordKeeper:
    """The keeper of a worker's record, begun."""
    jobs, services = worker.jobs, worker.services
    if kind is WorkerKind.PROCESS:
        identify = partial(process_identity, worker.name, jobs, app_version=str, queue="default", concurrency=10)
    else:
        identify = partial(function_identity, "fn", STREAM, jobs, app_version=str, queue="default")
    keeper = RecordKeeper(services, kind, identify, world.clock)
    keeper.begin(worker.heartbeat, name=worker.name)
    return keeper


def rows(world: World) -> list[WorkerRow]:
    return list(read_workers(world.services, world.clock()))


def states(world: World) -> list[WorkerState]:
    found = rows(world)
    return with_states(found, world.services, world.clock())


def wait(world: World, ms: int) -> None:
    world.clock.advance(timedelta(milliseconds=ms))


# What it says.


def test_a_process_says_who_it_is_as_soon_as_it_begins(world: World) -> None:
    keeper_of(world, world.worker(name="w1"))
    (row,) = rows(world)
    identity = row.identity
    assert (identity.name, identity.kind, identity.queue) == ("w1", WorkerKind.PROCESS, "default")
    assert (identity.concurrency, identity.started_at, row.seen_at) == (10, NOON, NOON)
    assert identity.jobs.names == ("bad", "note", "once")
    assert identity.version
    assert states(world) == [WorkerState.IDLE]


def test_a_beat_says_which_runs_are_at_hand_with_their_progress(world: World) -> None:
    worker = world.worker(name="w1")
    keeper, seen = keeper_of(world, worker), []

    def during(ctx: Context) -> None:
        ctx.progress(0.25, "reading")
        wait(world, PERIOD)
        keeper.beat()
        seen.extend(rows(world))
        assert states(world) == [WorkerState.BUSY]
        assert [str(run.ref) for run in running_runs("acme", world.services, world.clock()).runs] == [ctx.run_id]
        assert running_runs("other", world.services, world.clock()).runs == []
        assert len(running_runs(None, world.services, world.clock()).runs) == 1

    world.during = during
    run = world.scheduler.submit("note")
    world.work(worker)
    (row,) = seen
    (at_hand,) = row.runs
    assert (str(at_hand.ref), at_hand.job, at_hand.fence) == (run.id, "note", 1)
    assert (at_hand.started_at, at_hand.progress, at_hand.stage) == (NOON, 0.25, "reading")
    wait(world, 1)
    assert running_runs("acme", world.services, world.clock()).runs == [], (
        "the record names it still; its row has ended"
    )


def test_a_worker_that_leaves_in_order_says_so(world: World) -> None:
    keeper = keeper_of(world, world.worker())
    wait(world, SECOND)
    keeper.end()
    (row,) = rows(world)
    assert (row.stopped_at, states(world)) == (NOON + SECOND, [WorkerState.STOPPED])
    wait(world, HOUR)
    assert states(world) == [WorkerState.STOPPED], "not vanished: it had said goodbye"


def test_a_killed_worker_is_shown_as_vanished_for_a_day_and_its_run_says_so(world: World) -> None:
    worker = world.worker(name="killed")
    keeper = keeper_of(world, worker)

    def during(ctx: Context) -> None:
        wait(world, PERIOD)
        worker.heartbeat.beat(world.clock())
        keeper.beat()
        crash()

    world.during = during
    run = world.scheduler.submit("note")
    with pytest.raises(Crash):
        world.work(worker)
    wait(world, MINUTE)
    assert states(world) == [WorkerState.BUSY], "a minute is not over yet"
    wait(world, 11 * SECOND)
    assert states(world) == [WorkerState.VANISHED]
    (found,) = running_runs("acme", world.services, world.clock()).runs
    view = world.scheduler.get_run(run.id)
    assert (str(found.ref), view.worker, view.worker_vanished) == (run.id, "killed", True)
    wait(world, DAY - 2 * MINUTE)
    assert states(world) == [WorkerState.VANISHED]
    wait(world, 2 * MINUTE)
    assert rows(world) == [], "before DynamoDB has removed it"


# How often it is written.


def writes(faults: Faults) -> int:
    return faults.verbs().count("write_record")


def deliver(world: World, worker: WorkerContext, keeper: RecordKeeper) -> None:
    """A worker takes what is visible, and its keeper counts what is done, as the shell has it."""
    deliveries = world.services.work.receive(most=10, wait=0, visibility=HIDDEN)
    for received in receive(worker, deliveries):
        run_batch(replace(worker, report=keeper.count), [received])


def test_a_process_writes_once_in_twenty_seconds_whatever_it_handles(world: World) -> None:
    faults = Faults()
    worker = world.worker(faults)
    keeper = keeper_of(world, worker)
    before = NOON
    for number in range(1_000):
        world.scheduler.submit("note", idempotency_key=f"k{number}")
        deliver(world, worker, keeper)
        wait(world, 237)
        if world.clock() - before >= PERIOD:
            before = world.clock()
            keeper.beat()
        keeper.beat()  # more often than it may be written
    keeper.end()
    elapsed = world.clock() - NOON
    assert len(world.started) == 1_000
    assert writes(faults) <= 1 + elapsed // PERIOD + 1, "at the start, every 20 s, and the goodbye"
    (row,) = rows(world)
    assert row.handled == 1_000


def test_a_run_that_goes_on_is_found_before_it_is_eight_seconds_old(world: World) -> None:
    """Whenever it began between two beats, by looks every two seconds."""
    worker, seen = world.worker(name="w1"), list[int]()
    keeper = keeper_of(world, worker)

    def during(ctx: Context) -> None:
        began = world.clock()
        while not running_runs("acme", world.services, world.clock()).runs:
            wait(world, WATCH)
            keeper.watch()
        seen.append(world.clock() - began)

    world.during = during
    for number in range(5):
        wait(world, number * 900)
        world.scheduler.submit("note", idempotency_key=f"k{number}")
        world.work(worker)
    assert len(seen) == 5
    assert max(seen) < 8 * SECOND


def test_looks_for_news_write_nothing_while_runs_are_short_and_one_record_in_five_seconds_at_the_most(
    world: World,
) -> None:
    faults = Faults()
    worker = world.worker(faults)
    keeper = keeper_of(world, worker)
    world.during = lambda ctx: keeper.watch()
    for number in range(20):
        world.scheduler.submit("note", idempotency_key=f"short{number}")
        world.work(worker)
        keeper.watch()
    assert writes(faults) == 1, "at the start"

    def long(ctx: Context) -> None:
        for _ in range(3):
            wait(world, WATCH)
            keeper.watch()

    world.during, before = long, world.clock()
    for number in range(20):
        world.scheduler.submit("note", idempotency_key=f"long{number}")
        world.work(worker)
    assert writes(faults) <= 1 + (world.clock() - before) // NEWS


def test_a_run_has_the_same_requests_with_and_without_a_record(world: World) -> None:
    def requests(keeps: bool) -> list[str]:
        faults = Faults()
        worker = world.worker(faults)
        keeper = keeper_of(world, worker) if keeps else None
        world.scheduler.submit("note")
        world.work(worker)
        if keeper is not None:
            keeper.end()
        return [verb for verb in faults.verbs() if verb != "write_record"]

    assert requests(keeps=True) == requests(keeps=False)


def test_an_idle_environment_writes_nothing_and_a_busy_one_once_in_five_minutes(world: World) -> None:
    faults = Faults()
    keeper, worker = None, world.worker(faults, name="request-1")
    for _ in range(30):  # a batch every ten seconds
        world.scheduler.submit("note")
        keeper = keeper or keeper_of(world, worker, WorkerKind.FUNCTION)
        keeper.begin(worker.heartbeat, name="request-1")
        world.work(worker)
        keeper.end()
        wait(world, 10 * SECOND)
    assert writes(faults) == 1, "five minutes"
    wait(world, 54 * MINUTE)  # frozen
    assert writes(faults) == 1
    (row,) = rows(world)
    assert (row.identity.name, row.identity.host, row.invocation) == (STREAM, "fn", "request-1")
    assert states(world) == [WorkerState.IDLE], "it may be frozen, or gone"
    wait(world, 6 * MINUTE)
    assert rows(world) == []


def test_a_process_says_how_many_messages_it_gave_back_because_it_does_not_know_their_jobs(world: World) -> None:
    worker = world.worker(name="w1", jobs=Registry())
    keeper = keeper_of(world, worker)
    (row,) = rows(world)
    assert row.unknown == GivenBack()
    world.scheduler.submit("note")
    deliver(world, worker, keeper)
    wait(world, UNKNOWN_DELAY)
    deliver(world, worker, keeper)
    keeper.beat()
    (row,) = rows(world)
    assert row.unknown == GivenBack(count=2, names=("note",), last_at=NOON + UNKNOWN_DELAY)
    deliver(world, world.worker(name="w2"), keeper_of(world, world.worker(name="w2")))
    assert {each.identity.name: each.unknown.count for each in rows(world)} == {"w1": 2, "w2": 0}


def test_an_environment_tells_of_unknown_jobs_at_once_and_not_more_often_than_in_twenty_seconds(world: World) -> None:
    faults = Faults()
    worker = world.worker(faults, name="request-1", jobs=Registry())
    keeper = keeper_of(world, worker, WorkerKind.FUNCTION)
    keeper.end()
    assert writes(faults) == 1
    for number in range(12):
        world.scheduler.submit("note", idempotency_key=f"k{number}")
        deliver(world, worker, keeper)
        keeper.end()
        wait(world, PERIOD // 4)
    assert 2 <= writes(faults) <= 4, "60 s"


def test_a_worker_says_which_versions_runs_wait_for_that_have_no_worker(world: World) -> None:
    world.jobs.job("pinned", version="assigned")(world.note)
    register("1.1", 1.0, world.services, world.clock())
    other = OwnVersion(name=lambda: "1.0", some=True)
    worker = replace(world.worker(name="w1"), own_version=other)
    keeper = keeper_of(world, worker)
    world.scheduler.submit("pinned")
    deliver(world, worker, keeper)
    wait(world, MINUTE)
    deliver(world, worker, keeper)
    keeper.beat()
    (row,) = rows(world)
    assert (row.unserved, row.unknown) == (GivenBack(count=2, names=("1.1",), last_at=NOON + MINUTE), GivenBack())
    assert parse_record(json.loads(json.dumps(record_body(row)))) == row


def test_the_names_of_unknown_jobs_are_few_and_the_newest() -> None:
    known = GivenBack().plus([f"job-{number}" for number in range(9)], NOON).plus(["job-6", "new"], NOON + 1)
    assert known == GivenBack(count=11, names=("job-5", "job-7", "job-8", "job-6", "new"), last_at=NOON + 1)
    row = replace(a_row(), unknown=known)
    assert parse_record(json.loads(json.dumps(record_body(row)))).unknown == known


def test_an_environment_at_a_long_run_writes_every_twenty_seconds_and_clears_it_at_the_end(world: World) -> None:
    faults = Faults()
    worker = world.worker(faults, name="request-1")
    keeper = keeper_of(world, worker, WorkerKind.FUNCTION)
    assert writes(faults) == 0

    def during(ctx: Context) -> None:
        for _ in range(3):
            wait(world, PERIOD)
            worker.heartbeat.beat(world.clock())
            keeper.beat()
            assert states(world) == [WorkerState.BUSY]
        wait(world, PERIOD)

    world.during = during
    world.scheduler.submit("note")
    world.work(worker)
    keeper.end()
    assert writes(faults) == 4
    assert states(world) == [WorkerState.IDLE]


@pytest.mark.parametrize("kills", [False, True])
def test_an_environment_that_was_killed_at_a_run_has_vanished_and_one_that_went_to_sleep_has_not(
    world: World, kills: bool
) -> None:
    worker = world.worker(name="request-1")
    keeper = keeper_of(world, worker, WorkerKind.FUNCTION)

    def during(ctx: Context) -> None:
        wait(world, PERIOD)
        worker.heartbeat.beat(world.clock())
        keeper.beat()
        if kills:
            crash()

    world.during = during
    world.scheduler.submit("note")
    with pytest.raises(Crash) if kills else nullcontext():
        world.work(worker)
        keeper.end()  # too soon after the last write: its record names the run
    wait(world, 72 * SECOND)
    assert states(world) == [WorkerState.VANISHED if kills else WorkerState.IDLE]


def test_a_run_that_another_worker_has_taken_over_and_left_behind_is_not_the_first_ones(world: World) -> None:
    """The first environment went on to its end after it had lost the lease, and sleeps."""
    first, second = (world.worker(name=name) for name in ("request-1", "request-2"))
    keeper = keeper_of(world, first, WorkerKind.FUNCTION)

    def during(ctx: Context) -> None:
        wait(world, PERIOD)
        first.heartbeat.beat(world.clock())
        keeper.beat()
        crash()

    world.during = during
    world.scheduler.submit("note")
    with pytest.raises(Crash):
        world.work(first)
    wait(world, 72 * SECOND)
    world.during = lambda ctx: crash()
    with pytest.raises(Crash):
        world.work(second)
    wait(world, 72 * SECOND)
    (run,) = world.memory.runs()
    assert (run.fence, run.worker) == (2, "request-2")
    assert states(world) == [WorkerState.IDLE]


# What goes wrong.


def test_a_record_that_cannot_be_written_stops_nothing_and_is_written_later(world: World) -> None:
    faults = Faults().at("write_record", before=fails, times=2)
    keeper = keeper_of(world, world.worker(faults))
    assert rows(world) == []
    wait(world, PERIOD)
    keeper.beat()
    assert len(rows(world)) == 1


def test_a_record_whose_answer_was_lost_is_written_on(world: World) -> None:
    faults = Faults().at("write_record", after=fails, times=2)
    keeper = keeper_of(world, world.worker(faults))
    for _ in range(2):
        wait(world, PERIOD)
        keeper.beat()
    (row,) = rows(world)
    assert row.seen_at == NOON + 2 * PERIOD


def test_a_record_that_cannot_be_read_hides_no_other(world: World) -> None:
    keeper_of(world, world.worker())
    for name in ("a", "b", "c"):
        world.services.records.write(
            Record(owner=owner_of(name), key=KEY + name, version=1, body={"kind": name}, expires=NOON + DAY)
        )
    assert len(rows(world)) == 1


# The jobs that it publishes.


def publishing(world: World, faults: Faults, kind: WorkerKind, *, keeps_record: bool = True) -> RecordKeeper:
    worker = world.worker(faults)
    identify = partial(process_identity, "w", worker.jobs, app_version=str, queue="default", concurrency=1)
    catalogue = catalogue_of(worker.services, worker.jobs)
    keeper = RecordKeeper(worker.services, kind, identify if keeps_record else None, world.clock, catalogue)
    keeper.begin(worker.heartbeat, name="w")
    return keeper


@pytest.mark.parametrize("keeps_record", [True, False])
def test_a_process_publishes_its_jobs_when_it_starts_and_once_an_hour(world: World, keeps_record: bool) -> None:
    faults = Faults()
    keeper = publishing(world, faults, WorkerKind.PROCESS, keeps_record=keeps_record)
    assert list(read_catalogue(world.services, world.clock()).entries) == ["bad", "note", "once"]
    for _ in range(3 * HOUR // PERIOD):
        wait(world, PERIOD)
        keeper.beat()
    keeper.end()
    assert [row.version for row in world.services.records.listed(OWNER, "~jobs~")] == [4], (
        "at the start, and after each of three hours"
    )
    written = sum(verb == "write_record" for verb in faults.verbs())
    assert written == 4 + (3 * HOUR // PERIOD + 2 if keeps_record else 0)


def test_an_environment_publishes_after_its_first_batch_and_an_idle_one_nothing(world: World) -> None:
    faults = Faults()
    keeper = publishing(world, faults, WorkerKind.FUNCTION)
    assert not read_catalogue(world.services, world.clock())
    keeper.end()
    assert read_catalogue(world.services, world.clock()).knows("note")
    calls = len(faults.calls)
    wait(world, 24 * HOUR)  # frozen
    assert len(faults.calls) == calls
    for _ in range(100):
        keeper.begin(Heartbeat(world.services), name="request-2")
        wait(world, SECOND)
        keeper.end()
    assert faults.verbs().count("write_record") == 2 + 2, "its record and its jobs, twice"


def test_what_cannot_be_published_stops_neither_record_nor_worker(world: World) -> None:
    faults = Faults().at("record", before=fails, times=None)
    keeper = publishing(world, faults, WorkerKind.PROCESS)
    assert len(rows(world)) == 1
    assert not read_catalogue(world.services, world.clock())
    faults.rules.clear()
    wait(world, 5 * MINUTE)
    keeper.beat()
    assert read_catalogue(world.services, world.clock()).knows("note")


def test_the_schema_of_a_typed_payload_is_published(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    @world.jobs.job("typed")
    def typed(ctx: Context, payload: Letter) -> None: ...

    publishing(world, Faults(), WorkerKind.PROCESS)
    schema = read_catalogue(world.services, world.clock()).entries["typed"].job.payload_schema
    assert schema is not None
    assert schema["required"] == ["to"]

    def fails_of(job: Any) -> None:
        raise TypeError("odd")

    monkeypatch.setattr(worker_record, "payload_schema", fails_of)
    wait(world, DAY)
    publishing(world, Faults(), WorkerKind.PROCESS)
    assert read_catalogue(world.services, world.clock()).entries["typed"].job.payload_schema is None


def test_jobs_that_cannot_be_listed_are_not_published(world: World) -> None:
    assert catalogue_of(world.services, cast("Any", object())) is None


# Its bounds.


def a_row(runs: int = 0, jobs: Registry | None = None, name: str = "w", **changes: Any) -> WorkerRow:
    at_hand = [
        RunAtHand(ref=RunRef(f"acme/{'s' * 100}{n}", f"{NOON:015d}"), job="j" * 100, fence=1, started_at=NOON - n)
        for n in range(runs)
    ]
    identity = WorkerIdentity(name=name, kind=WorkerKind.PROCESS, host="h", version="1", started_at=NOON)
    return WorkerRow(identity=identity, seen_at=NOON, at_hand=runs, runs=fitting(at_hand), **changes)


def test_a_record_lists_few_runs_the_oldest_first_and_counts_all() -> None:
    row = a_row(1_000)
    assert row.at_hand == 1_000
    assert 0 < len(row.runs) <= MOST_RUNS
    assert [run.started_at for run in row.runs] == [NOON - n for n in range(999, 999 - len(row.runs), -1)]
    assert len(str(record_body(row))) < 12_000


def test_a_record_is_read_as_it_was_written() -> None:
    row = a_row(3, invocation="i", stopped_at=NOON)
    row = replace(row, identity=replace(row.identity, jobs=JobNames.of(["a", "b"]), queue="mail"))
    assert parse_record(json.loads(json.dumps(record_body(row) | {"later": 1}))) == row
    for broken in ({}, {"kind": "other"}, record_body(row) | {"jobs": 1}, record_body(row) | {"runs": [{}]}):
        with pytest.raises(GARBAGE):
            parse_record(broken)


def test_a_worker_with_many_jobs_says_of_each_whether_it_knows_it() -> None:
    few = JobNames.of(f"job.{n}" for n in range(5))
    assert (few.knows("job.3"), few.knows("job.9")) == (True, False)
    many = JobNames.of(f"job.with.a.long.name.{n:03d}" for n in range(300))
    assert len(many.names) < 100
    assert all(many.knows(f"job.with.a.long.name.{n:03d}") for n in range(300))
    assert many.knows("other") is False
    most = JobNames.of(f"job.with.a.long.name.{n:04d}" for n in range(5_000))
    assert (most.count, most.knows("other")) == (5_000, None), "of those beyond there is only a number"
    assert len(str(vars(most))) < 6_000


def test_ten_thousand_workers_are_spread_over_the_partitions() -> None:
    chance = random.Random(1)
    names = [f"worker@host-{n}:{chance.randrange(65_536)}:{chance.randrange(16**6):06x}" for n in range(10_000)]
    counts = [sum(owner_of(name) == owner for name in names) for owner in owners()]
    assert sum(counts) == 10_000
    units = 12 * max(counts) / (PERIOD / SECOND)  # of a write, for a record of the greatest size
    assert units < 500, "a partition takes 1,000 a second"


# A page of what runs.


def test_running_runs_come_in_pages_and_each_once(world: World) -> None:
    worker = world.worker(name="w1")
    keeper, found = keeper_of(world, worker), list[list[str]]()

    def pages() -> Iterator[list[str]]:
        after = None
        while True:
            page = running_runs("acme", world.services, world.clock(), limit=2, after=after)
            yield [str(run.ref) for run in page.runs]
            if page.cursor is None:
                return
            after = page.cursor

    def during(ctx: Context) -> None:
        wait(world, PERIOD)
        keeper.beat()
        if ctx.run_id == last.id:
            found.extend(pages())

    world.during = during
    ids = [world.scheduler.submit("note").id for _ in range(4)]
    last = world.scheduler.submit("note")
    world.work(worker, together=True)
    assert [len(page) for page in found] == [2, 2, 1]
    assert sorted(run for page in found for run in page) == sorted([*ids, last.id])


def test_what_did_not_fit_is_said(world: World) -> None:
    row = a_row(1_000, name="big")
    world.services.records.write(
        Record(owner=owner_of("big"), key=KEY + "big", version=1, body=record_body(row), expires=row.expires)
    )
    page = running_runs(None, world.services, world.clock())
    assert (page.runs, page.unlisted) == ([], 1_000 - len(row.runs))
    assert RESTING > PERIOD
