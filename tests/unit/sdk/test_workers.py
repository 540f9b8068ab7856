"""What runs now, as the SDK shows it: workers, running runs, queues; of one tenant, or of all."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from quarterjack import Context, Scheduler, Settings
from quarterjack.domain.names import RunRef
from quarterjack.domain.times import DAY, HOUR, MINUTE, SECOND
from quarterjack.errors import InvalidInput, Misconfigured
from quarterjack.fires.backpressure import KEY as HOLDS
from quarterjack.fires.backpressure import OWNER
from quarterjack.state.backpressure import HoldLog, QueueHolds
from quarterjack.state.worker_record import (
    KEY,
    GivenBack,
    JobNames,
    RunAtHand,
    WorkerIdentity,
    WorkerKind,
    WorkerRow,
    WorkerState,
    owner_of,
    record_body,
)
from quarterjack.stores.records import Record

from tests.support.scenes.world import NOON, START, Faults, World, at, fails


@pytest.fixture
def world() -> World:
    return World()


def tell(
    world: World,
    name: str = "w",
    *,
    runs: Any = (),
    seen: int = NOON,
    stopped: bool = False,
    unknown: GivenBack | None = None,
    **identity: Any,
) -> None:
    """A worker says this of itself."""
    given: dict[str, Any] = {"kind": WorkerKind.PROCESS, "host": "h", "version": "1", "started_at": NOON - MINUTE}
    given |= {"queue": "default", "jobs": JobNames.of(["note"])} | identity
    row = WorkerRow(
        identity=WorkerIdentity(name=name, **given),
        seen_at=seen,
        at_hand=len(runs),
        runs=tuple(runs),
        unknown=unknown or GivenBack(),
        stopped_at=seen if stopped else None,
    )
    record = Record(owner=owner_of(name), key=KEY + name, version=1, body=record_body(row), expires=row.expires)
    assert world.services.records.write(record)


def at_hand(run: str, started: int = NOON) -> RunAtHand:
    owner, _, key = run.partition("#")
    return RunAtHand(ref=RunRef(owner, key), job="note", fence=1, started_at=started)


def names(world: World, **conditions: Any) -> list[str]:
    return [worker.name for worker in world.scheduler.workers(**conditions).items]


# Workers.


def test_a_worker_says_which_messages_it_gave_back(world: World) -> None:
    tell(world, unknown=GivenBack(count=7, names=("shop.mail", "shop.bill"), last_at=NOON - 5 * SECOND))
    (worker,) = world.scheduler.workers().items
    assert (worker.given_back, worker.given_back_at) == (7, at(-5))
    assert worker.unknown_jobs == ("shop.mail", "shop.bill")


def test_a_worker_is_shown_with_all_it_says(world: World) -> None:
    tell(world, runs=[at_hand("acme/a#1")], app_version="2.1", concurrency=4)
    (worker,) = world.scheduler.workers().items
    assert (worker.name, worker.kind, worker.state, worker.host) == ("w", "process", WorkerState.BUSY, "h")
    assert (worker.queue, worker.concurrency, worker.jobs, worker.more_jobs) == ("default", 4, ("note",), 0)
    assert (worker.version, worker.app_version) == ("1", "2.1")
    assert (worker.started_at, worker.last_seen_at) == (at(-60), START)
    assert (worker.given_back, worker.given_back_at, worker.unknown_jobs) == (0, None, ())
    assert [(run.id, run.job, run.started_at) for run in worker.runs] == [("acme/a#1", "note", START)]


def test_a_tenant_sees_its_own_runs_and_an_operator_all(world: World) -> None:
    tell(world, runs=[at_hand("acme/a#1"), at_hand("other/secret#1")])
    (worker,) = world.scheduler.workers().items
    assert "secret" not in str(worker)
    assert [run.id for run in worker.runs] == ["acme/a#1"]
    (worker,) = world.scheduler.workers(all_tenants=True).items
    assert [run.id for run in worker.runs] == ["acme/a#1", "other/secret#1"]


def test_workers_are_found_by_queue_and_job_and_those_that_left_only_when_asked_for(world: World) -> None:
    tell(world, "a")
    tell(world, "b", queue="mail", jobs=JobNames.of(["send"]))
    tell(world, "c", stopped=True)
    tell(world, "d", jobs=JobNames(count=9))
    assert names(world) == ["a", "b", "d"]
    assert names(world, queue="mail") == ["b"]
    assert names(world, job="note") == ["a", "d"], "d may know it"
    assert names(world, stopped=True) == ["a", "b", "c", "d"]


def test_workers_come_in_pages_each_once(world: World) -> None:
    for number in range(50):
        tell(world, f"w{number:02d}")
    found, cursor = list[str](), None
    while True:
        page = world.scheduler.workers(limit=7, cursor=cursor)
        found += [worker.name for worker in page.items]
        cursor = page.cursor
        if cursor is None:
            break
        assert len(page.items) == 7
    assert sorted(found) == [f"w{number:02d}" for number in range(50)]


def test_one_that_fell_silent_has_vanished_for_a_day(world: World) -> None:
    tell(world, seen=NOON - MINUTE - 1)
    assert [worker.state for worker in world.scheduler.workers().items] == [WorkerState.VANISHED]
    world.clock.advance(timedelta(milliseconds=DAY))
    assert names(world) == []


def test_a_queue_that_does_not_exist_is_refused(world: World) -> None:
    assert names(world, queue="default") == []
    with pytest.raises(InvalidInput, match=r"queue='mial': is not a queue of this installation; queues\(\) lists them"):
        names(world, queue="mial")


# Running runs.


def test_what_runs_is_listed_as_the_ledger_has_it(world: World) -> None:
    seen = list[Any]()

    def during(ctx: Context) -> None:
        tell(world, runs=[at_hand(ctx.run_id), at_hand(f"other/x#{NOON:015d}"), at_hand("acme/~gone#once")])
        seen.extend((world.scheduler.list_running(), world.scheduler.list_running(all_tenants=True)))
        seen.append(Scheduler("other", services=world.services, clock=world.clock).list_running())

    world.during = during
    run = world.scheduler.submit("note")
    world.work(world.worker(name="w"))
    own, everybody, others = seen
    assert [(each.id, each.worker) for each in own.items] == [(run.id, "w")]
    assert [each.id for each in everybody.items] == [run.id]
    assert list(others.items) == []
    assert list(world.scheduler.list_running().items) == [], "it has ended since"


def test_list_runs_asks_the_workers_for_what_is_running(world: World) -> None:
    world.scheduler.create_schedule("daily", "note", "rate(1 minute)", tags={"team": "a"})
    found = dict[str, list[str | None]]()

    def listed(**conditions: Any) -> list[str | None]:
        page = world.scheduler.list_runs(state="RUNNING", **conditions)
        return [run.schedule for run in page.items]

    def during(ctx: Context) -> None:
        tell(world, runs=[at_hand(ctx.run_id)])
        found["all"] = listed()
        found["of all tenants"] = listed(all_tenants=True)
        found["by prefix"] = listed(prefix="da")
        found["by another prefix"] = listed(prefix="x")
        found["by job"] = listed(job="other")
        found["by kind"] = listed(kind="one-off")
        found["of one schedule"] = listed(name="daily")

    world.during = during
    world.live(60)
    assert found.pop("all") == found.pop("of all tenants") == found.pop("by prefix") == ["daily"]
    assert found.pop("of one schedule") == ["daily"], "from the ledger"
    assert not any(found.values())


def test_without_the_history_nobody_is_told_that_nothing_runs(world: World) -> None:
    owner = Scheduler("acme", settings=Settings(history=False), services=world.services, clock=world.clock)
    calls: list[Callable[[], object]] = [
        owner.workers,
        owner.list_running,
        lambda: owner.list_runs(state="RUNNING"),
    ]
    for call in calls:
        with pytest.raises(Misconfigured, match="QUARTERJACK_HISTORY=off"):
            call()
    assert owner.queues()


def test_nothing_is_listed_twice_or_where_nobody_says_anything(world: World) -> None:
    assert list(world.scheduler.list_running().items) == []
    assert list(world.scheduler.workers().items) == []

    def during(ctx: Context) -> None:
        tell(world, "vanished", runs=[at_hand(ctx.run_id, NOON - HOUR)], seen=NOON - HOUR)
        tell(world, "w", runs=[at_hand(ctx.run_id)])
        tell(world, "x", runs=[at_hand(f"acme/other#{n:015d}", NOON - n) for n in range(1, 4)])
        seen.append([run.id for run in world.scheduler.list_running().items])
        found, page = list[str](), world.scheduler.list_running(limit=1)
        while page.cursor is not None:
            found += [run.id for run in page.items]
            page = world.scheduler.list_running(limit=1, cursor=page.cursor)
        seen.append(found + [run.id for run in page.items])

    seen = list[list[str]]()
    world.during = during
    run = world.scheduler.submit("note")
    world.work()
    assert seen == [[run.id], [run.id]]


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda owner: owner.workers(queue="No Queue"), "queue"),
        (lambda owner: owner.workers(job="no job"), "job"),
        (lambda owner: owner.workers(limit=0), "limit"),
        (lambda owner: owner.workers(stopped=1), "stopped"),
        (lambda owner: owner.workers(all_tenants="yes"), "all_tenants"),
        (lambda owner: owner.workers(cursor="x~y"), "cursor"),
        (lambda owner: owner.list_running(all_tenants=1), "all_tenants"),
        (lambda owner: owner.list_running(limit=-1), "limit"),
        (lambda owner: owner.list_running(cursor=7), "cursor"),
    ],
)
def test_what_is_no_condition_is_refused(world: World, call: Callable[[Scheduler], object], field: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        call(world.scheduler)
    assert refusal.value.field == field


# Queues.


def crowded(world: World) -> World:
    world.memory.add_queue("mail", stripes=2)
    world.jobs.queue("mail", stripes=2)
    return world


def test_queues_are_shown_with_what_waits_in_each_sqs_queue(world: World) -> None:
    crowded(world)
    for number in range(12):
        world.scheduler.submit("note", {"n": number}, queue="mail")
    world.scheduler.submit("note", delay=60)
    default, mail = world.scheduler.queues()
    assert (default.name, default.waiting, default.delayed, default.depth) == ("default", 0, 1, 0)
    assert default.oldest_age == timedelta(0), "nothing waits"
    assert (mail.name, mail.waiting, mail.in_flight, mail.depth) == ("mail", 12, 0, 12)
    assert [each.number for each in mail.sqs_queues] == [0, 1]
    assert sum(each.waiting or 0 for each in mail.sqs_queues) == 12
    assert mail.oldest_age is None, "one-offs alone: the sample shows none, so nobody knows"
    assert not mail.held
    world.memory.connect(queue="mail").work.receive(most=5, wait=0, visibility=30)
    assert world.scheduler.queues()[1].in_flight


def test_the_age_of_what_waits_is_that_of_the_oldest_run_that_schedules_show(world: World) -> None:
    world.scheduler.create_schedule("s", "note", "* * * * *")
    for _ in range(7):
        world.tick()
        world.clock.advance(timedelta(minutes=1))
    (default,) = world.scheduler.queues()
    oldest = min(run.due for run in world.memory.runs() if run.due <= world.clock())
    assert default.waiting
    assert default.oldest_age == timedelta(milliseconds=world.clock() - oldest)


def test_a_queue_that_is_held_back_says_why_and_since(world: World) -> None:
    holds = QueueHolds().begun(NOON - MINUTE, "depth", 60_000, None)
    body = HoldLog(queues={None: holds}).body()
    world.services.records.write(Record(owner=OWNER, key=HOLDS, version=1, body=body))
    (default,) = world.scheduler.queues()
    assert (default.held, default.held_why, default.held_since) == (True, "depth", at(-60))


def test_an_sqs_queue_that_does_not_answer_is_unknown_and_hides_no_other(world: World) -> None:
    crowded(world)
    owner = world.owner(Faults().at("depth", before=fails, times=2, skip=1))
    default, mail = owner.queues()
    assert default.waiting == 0
    assert [each.waiting for each in mail.sqs_queues] == [None, 0]
    assert (mail.waiting, mail.depth, mail.oldest_age) == (None, None, None)


def test_who_may_not_read_what_concerns_all_tenants_still_sees_the_queues(world: World) -> None:
    def denied() -> None:
        raise Misconfigured("AccessDenied")

    (default,) = world.owner(Faults().at("record", before=denied)).queues()
    assert (default.waiting, default.held) == (0, None)


def test_it_costs_a_request_for_each_stripe_and_no_look_at_the_agenda_where_nothing_waits(world: World) -> None:
    crowded(world)
    faults = Faults()
    world.owner(faults).queues()
    assert faults.verbs() == ["survey", "depth", "depth", "depth", "record"]
