"""Which queue a run goes to, and that it stays in it: from the schedule over retries to the dead-letter queue and back."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import timedelta

import pytest
from quarterjack import Registry, RunState, Scheduler
from quarterjack.domain.run import EntryKind
from quarterjack.domain.times import SECOND, from_ms
from quarterjack.errors import AlreadyExists, InvalidInput
from quarterjack.testing import Crash, Detail, Harness, Hook
from quarterjack.testing.process import bury_all

from tests.support.scenes.queues import QueueWorld
from tests.support.scenes.world import NOON, START, Faults, World, crash, fails


def queue_of(world: World, name: str = "s") -> str | None:
    """What the current revision of a schedule says."""
    return world.memory.revisions(f"acme/{name}")[-1].definition.options.queue


# The door.


def test_the_schedules_queue_goes_before_its_jobs(world: QueueWorld) -> None:
    create = world.scheduler.create_schedule
    for name, job, given in (("a", "note", {}), ("b", "report", {}), ("c", "report", {"queue": "mail"})):
        create(name, job, "* * * * *", **given)  # type: ignore[arg-type]
    create("d", "report", "* * * * *", queue="default")
    assert [queue_of(world, name) for name in "abcd"] == [None, "reports", "mail", None]


def test_an_undeclared_queue_is_refused_with_those_that_are_there_and_nothing_is_written(world: QueueWorld) -> None:
    world.memory.add_queue("elsewhere")
    faults = Faults()
    owner = world.owner(faults)
    for call in (
        lambda: owner.create_schedule("s", "note", "* * * * *", queue="report"),
        lambda: owner.submit("note", queue="report"),
    ):
        with pytest.raises(
            InvalidInput, match=r"'report': is not declared; known queues: default, elsewhere, mail, reports"
        ):
            call()
    assert set(faults.verbs()) == {"names"}


def test_a_name_that_no_queue_can_have_costs_no_call(world: QueueWorld) -> None:
    faults = Faults()
    with pytest.raises(InvalidInput, match="queue='A B'"):
        world.owner(faults).submit("note", queue="A B")
    assert not faults.calls


def test_declared_or_existing_is_enough(world: QueueWorld) -> None:
    """The next deployment creates what the jobs declare; who only schedules knows what exists."""
    world.jobs.queue("tomorrow")
    world.memory.add_queue("elsewhere")
    world.scheduler.create_schedule("s", "note", "* * * * *", queue="tomorrow")
    stranger = Scheduler("acme", jobs=Registry(), services=world.services, clock=world.clock)
    stranger.create_schedule("t", "unknown.job", "* * * * *", queue="elsewhere")
    assert (queue_of(world), queue_of(world, "t")) == ("tomorrow", "elsewhere")
    assert [queue.name for queue in world.scheduler.queues()] == ["default", "elsewhere", "mail", "reports"]


def test_an_update_keeps_what_the_owner_chose_and_follows_the_job_otherwise(world: QueueWorld) -> None:
    owner = world.scheduler
    owner.create_schedule("s", "note", "* * * * *")
    seen = []
    for change in (
        {"job": "report"},  # follows it
        {"expression": "0 * * * *"},
        {"job": "note"},  # and follows it back
        {"queue": "mail"},
        {"job": "report"},  # the owner has chosen
        {"queue": None},  # its job's again
        {"queue": "default"},
    ):
        owner.update_schedule("s", **change)
        seen.append(queue_of(world))
    assert seen == ["reports", "reports", None, "mail", "mail", "reports", None]
    with pytest.raises(InvalidInput, match="known queues"):
        owner.update_schedule("s", queue="nowhere")
    assert queue_of(world) is None


def test_what_the_schedule_does_not_say_its_queue_says(world: QueueWorld) -> None:
    world.jobs.queue("herd", spread=600, on_failure="job:tell", on_recovery="job:relax")
    for name in ("tell", "relax"):
        world.jobs.job(name)(lambda ctx, payload: None)
    owner = world.scheduler
    owner.create_schedule("s", "note", "* * * * *", queue="herd")
    owner.create_schedule("t", "note", "* * * * *", queue="herd", on_failure=None)
    said = world.memory.revisions("acme/s")[-1].definition
    assert (said.rule.window, said.options.on_failure, said.options.on_recovery) == (600, "job:tell", "job:relax")
    assert world.memory.revisions("acme/t")[-1].definition.options.on_failure is None


# The way of a run.


def test_each_worker_runs_what_is_in_its_queue(world: QueueWorld) -> None:
    world.scheduler.create_schedule("s", "report", "* * * * *")
    world.scheduler.create_schedule("t", "note", "* * * * *")
    one_off = world.scheduler.submit("note", queue="mail")
    world.tick()
    world.wait(61)
    for queue in ("mail", None, "reports"):
        world.serve(queue)
    assert world.ran == [
        ("mail", one_off.id),
        (None, str(world.run(60, "acme/t").ref)),
        ("reports", str(world.run(60).ref)),
    ]


def test_a_retry_stays_in_its_queue_near_and_far(world: QueueWorld) -> None:
    """Within SQS's reach as a delayed message, beyond it by way of the agenda."""
    world.failures = 2
    run = world.scheduler.submit("report")
    world.serve("reports")
    assert world.lengths() == {"reports": 1}
    world.wait(20)
    world.serve("reports")
    assert (world.lengths(), [entry.due for entry in world.entries(EntryKind.RUN)]) == ({}, [NOON + 1_220 * SECOND])
    world.wait(1_100)
    world.tick()
    assert world.lengths() == {"reports": 1}
    world.wait(120)
    world.serve("reports")
    assert world.ran == [("reports", run.id)] * 3
    assert world.scheduler.get_run(run.id).state is RunState.SUCCEEDED


def test_a_one_off_far_ahead_and_a_hastened_retry_go_where_they_belong(world: QueueWorld) -> None:
    world.failures = 1
    run = world.scheduler.submit("note", queue="mail", delay=3600)
    assert world.lengths() == {}
    world.wait(3600 - 120)
    world.tick()
    assert world.lengths() == {"mail": 1}
    world.wait(120)
    world.serve("mail")
    late = world.scheduler.submit("report")
    world.serve("reports")
    world.scheduler.retry_run(late.id)
    assert world.lengths() == {"reports": 2}, "the delayed one and the hastened one"
    assert world.scheduler.get_run(run.id).state is RunState.SUCCEEDED


def test_a_ticker_that_died_between_claim_and_send_leaves_it_to_the_next_and_to_the_same_queue(
    world: QueueWorld,
) -> None:
    world.scheduler.create_schedule("s", "report", "* * * * *")
    dying = Faults().at("send", before=crash)
    world.wait(120)
    with pytest.raises(Crash):
        world.tick(world.process(dying))
    claimed = world.fires()
    assert len(claimed) > len(world.memory.messages("reports"))
    world.tick()
    assert [(message.not_before - NOON) // SECOND for message in world.memory.messages("reports")] == claimed
    assert list(world.lengths()) == ["reports"]


def test_the_undertaker_and_the_auditor_send_back_to_its_queue(world: QueueWorld) -> None:
    run = world.scheduler.submit("report")
    (message,) = world.memory.messages("reports")
    world.memory.queues["reports"].take(1)
    world.memory.dead.put(replace(message, returned=0).encode())
    bury_all(world.services, world.clock)
    assert world.lengths() == {"reports": 2}
    world.memory.remove_queue("reports")
    world.memory.add_queue("reports")
    world.wait(3 * 3600)
    assert world.audit(segments=1).overdue == 1
    assert world.lengths() == {"reports": 1}
    world.serve("reports")
    assert world.scheduler.get_run(run.id).state is RunState.SUCCEEDED


def test_a_replay_goes_to_the_queue_of_what_it_repeats(world: QueueWorld) -> None:
    first = world.scheduler.submit("note", queue="mail")
    world.serve("mail")
    world.scheduler.create_schedule("s", "note", "* * * * *", queue="reports")
    world.tick()
    world.wait(61)
    world.serve("reports")
    world.scheduler.update_schedule("s", queue="default")
    again = [world.scheduler.replay_run(run_id).id for run_id in (first.id, str(world.run(60).ref))]
    where = {str(message.run): name for name in world.memory.queues for message in world.memory.messages(name)}
    assert [where[run_id] for run_id in again] == ["mail", "reports"]


def test_an_idempotency_key_stands_for_one_queue(world: QueueWorld) -> None:
    world.scheduler.submit("note", queue="mail", idempotency_key="k")
    world.scheduler.submit("note", queue="mail", idempotency_key="k")
    with pytest.raises(AlreadyExists, match="another queue"):
        world.scheduler.submit("note", idempotency_key="k")


def test_any_worker_runs_what_was_moved_to_it_by_hand_and_its_retry_goes_home(world: QueueWorld) -> None:
    world.failures = 1
    world.scheduler.submit("report")
    (message,) = world.memory.messages("reports")
    world.memory.queues["reports"].take(1)
    world.memory.work.put(message.encode())
    world.serve(None)
    assert world.ran[0][0] is None
    assert world.lengths() == {"reports": 2}


# A queue that is gone.


def test_a_queue_that_is_gone_stops_no_other_and_loses_nothing(world: QueueWorld) -> None:
    world.memory.remove_queue("reports")
    owner = world.scheduler
    owner.create_schedule("s", "report", "* * * * *")
    owner.create_schedule("t", "note", "* * * * *")
    waiting = owner.submit("report")
    for _ in range(5):
        world.tick()
        world.serve(None)
        world.wait(60)
    assert [second for second, state in world.states("acme/t") if state is RunState.SUCCEEDED] == [60, 120, 180, 240]
    assert {state for _, state in world.states()} == {RunState.QUEUED}, "they wait"
    world.memory.add_queue("reports")
    world.tick()
    world.serve("reports")
    assert [second for second, state in world.states() if state is RunState.SUCCEEDED] == [60, 120, 180, 240, 300]
    assert owner.get_run(waiting.id).state is RunState.SUCCEEDED
    assert len(world.ran) == len(set(world.ran)), "once each"


def test_what_was_in_a_queue_that_went_is_sent_again_by_the_auditor(world: QueueWorld) -> None:
    world.scheduler.create_schedule("s", "report", "at(2026-05-04T12:01:00)")
    world.memory.remove_queue("reports")
    world.wait(3600)
    world.audit(segments=1)
    world.memory.add_queue("reports")
    assert world.audit(segments=1).overdue == 0, "not long enough"
    world.wait(7200)
    assert world.audit(segments=1).overdue == 1
    world.serve("reports")
    assert world.states() == [(60, RunState.SUCCEEDED)]


def test_what_waits_for_a_queue_that_is_gone_can_be_taken_back(world: QueueWorld) -> None:
    world.memory.remove_queue("reports")
    world.scheduler.create_schedule("s", "report", "* * * * *")
    world.wait(60)
    world.tick()
    world.scheduler.pause_schedule("s")
    world.wait(60)
    world.tick()
    world.memory.add_queue("reports")
    world.tick()
    assert {state for _, state in world.states()} == {RunState.CANCELLED}
    assert (world.lengths(), world.entries(EntryKind.CHAIN)) == ({}, [])


def test_a_retry_whose_queue_is_gone_comes_back_to_the_worker_that_has_it(world: QueueWorld) -> None:
    world.failures = 1
    run = world.scheduler.submit("report")
    (message,) = world.memory.messages("reports")
    world.memory.remove_queue("reports")
    world.memory.work.put(message.encode())
    (outcome,) = world.serve(None)
    assert (outcome.state, outcome.gone) == (RunState.RETRYING, False)
    world.wait(600)
    world.serve(None)
    assert world.scheduler.get_run(run.id).state is RunState.SUCCEEDED


def test_a_throttled_queue_leaves_its_own_and_no_others(world: QueueWorld) -> None:
    class Throttled(Hook):
        def before_call(self, operation: str, detail: Detail) -> Collection[int]:
            if (detail.place, detail.verb) == ("work-reports", "send"):
                fails()
            return ()

    owner = world.owner(Throttled())
    owner.create_schedule("s", "report", "* * * * *")
    owner.create_schedule("t", "note", "* * * * *")
    assert list(world.lengths()) == [None]
    report = world.tick(world.process(Throttled()))
    assert (report.handled.agenda.left, report.handled.agenda.failed) == (1, 0)
    world.tick()
    assert {(message.not_before - NOON) // SECOND for message in world.memory.messages("reports")} == set(world.fires())


# For users' tests.


def test_the_harness_has_the_queues_that_the_jobs_declare() -> None:
    jobs = Registry()
    jobs.queue("reports")
    seen: list[int] = []

    @jobs.job("report", queue="reports")
    def report(ctx: object, payload: object) -> None:
        seen.append(len(harness.memory.queues["reports"]))

    harness = Harness(jobs, at=START)
    harness.scheduler.create_schedule("s", "report", "0 * * * *")
    ended = harness.advance(hours=2)
    assert [run.state for run in ended] == [RunState.SUCCEEDED] * 2
    assert seen == [1, 1], "it came by its queue"
    with pytest.raises(InvalidInput, match="known queues: default, reports"):
        harness.scheduler.submit("report", queue="other")


@pytest.fixture
def world() -> QueueWorld:
    return QueueWorld()


def test_what_its_owner_starts_by_hand_goes_there_too(world: QueueWorld) -> None:
    """A trigger, a backfill, and what a backfill starts when one of its runs has ended."""
    world.scheduler.create_schedule("s", "note", "0 0 1 1 *", queue="mail")
    world.scheduler.trigger("s")
    world.scheduler.update_schedule("s", expression="* * * * *")
    world.scheduler.pause_schedule("s")
    world.scheduler.trigger("s")
    world.scheduler.resume_schedule("s")
    world.scheduler.update_schedule("s", expression="0 0 1 1 *")
    end = from_ms(NOON)
    world.scheduler.backfill(
        "s", end - timedelta(days=3 * 366), end, current=True, concurrency=1, dry_run=False, allow_repeat=True
    )
    assert set(world.lengths()) == {"mail"}
    assert world.serve(None) == world.serve("reports") == []
    world.serve("mail")
    assert len(world.ran) == 1 + 3, "the first trigger was taken back by the pause"
