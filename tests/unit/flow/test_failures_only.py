"""Failures: a success leaves the claim and nothing else; a failure is recorded, and from then on it is a run like any other."""

from __future__ import annotations

from typing import Any

import pytest
from minutehand import Context, RunState
from minutehand.domain.options import LedgerLevel
from minutehand.domain.times import SECOND
from minutehand.errors import Conflict, InvalidInput, Permanent, Unavailable
from minutehand.testing import Crash

from tests.unit.flow.world import NOON, OWNER, Faults, World, crash, fails

SENT, DEAD, SUCCEEDED = RunState.SENT, RunState.DEAD, RunState.SUCCEEDED
WRITES = ("UpdateItem", "PutItem", "BatchExecuteStatement", "TransactWriteItems", "BatchWriteItem")


def untracked(expression: str = "rate(60 seconds)", job: str = "note", **options: Any) -> World:
    world = World()
    world.scheduler.create_schedule("s", job, expression, ledger="failures", **options)
    return world


# Success.


@pytest.mark.parametrize("together", [False, True])
def test_a_success_writes_nothing(together: bool) -> None:
    world, faults = untracked(), Faults()
    world.wait(60)
    (outcome,) = world.work(world.worker(faults), together=together)
    assert (outcome.state, outcome.start_lag, outcome.gone) == (SUCCEEDED, 0, True)
    assert (world.began(), faults.count(*WRITES)) == ([60], 0)
    row = world.memory.row(world.run(60).ref) or {}
    assert (row["state"], row["ttl"], row["fence"]) == ("SENT", (NOON + 60_000 + world.retention) // SECOND, 0)


def test_the_job_is_told_what_it_always_is() -> None:
    world, seen = untracked(), list[Context]()
    world.during = seen.append
    world.live(60)
    assert (seen[0].run_id, seen[0].attempt, seen[0].schedule) == (f"{OWNER}#{NOON + 60_000:015d}", 1, "s")


def test_its_claim_expires_by_itself() -> None:
    world = untracked("0 13 * * *")
    world.live(3_700)
    assert world.states() == [(3_600, SENT)]
    world.scheduler.pause_schedule("s")
    world.wait(world.retention // 1_000 + 2)
    world.memory.expire()
    assert world.states() == []


def test_the_auditor_leaves_what_was_sent_alone() -> None:
    world = untracked()
    world.live(400)
    report = world.audit()
    assert (report.resent, report.unclaimed, report.overdue, report.failed) == (0, 0, 0, 0)


# Failure.


@pytest.mark.parametrize("together", [False, True])
def test_a_failure_is_recorded_and_followed_by_attempts(together: bool) -> None:
    world = untracked(job="bad")
    world.wait(60)
    world.work(together=together)
    run = world.run(60)
    assert (run.state, run.fence, run.attempt, run.started_at) == (RunState.RETRYING, 1, 1, NOON + 60_000)
    assert [(m.ledger, m.fence) for m in world.memory.messages() if m.due == run.due] == [(LedgerLevel.FULL, 1)]
    world.live(60)
    run = world.run(60)
    assert (run.state, run.attempt) == (DEAD, 3)
    assert len(world.services.ledger.attempts(run.ref)) == 3
    assert [dead.id for dead in world.scheduler.list_dead().items] == [str(run.ref)]


def test_a_permanent_failure_dies_at_once() -> None:
    world = untracked()
    world.during = _refuses
    world.live(60)
    assert (world.run(60).state, world.run(60).attempt) == (DEAD, 1)


def _refuses(ctx: Context) -> None:
    raise Permanent("never")


def test_a_failure_that_cannot_be_recorded_is_repeated_with_a_lease() -> None:
    world = untracked(job="bad")
    world.wait(60)
    world.work(world.worker(Faults().at("track", before=fails, times=None)))
    assert world.states()[0] == (60, SENT)
    world.wait(11)
    world.work()
    assert (world.run(60).state, world.run(60).attempt, len(world.started)) == (RunState.RETRYING, 1, 2)


@pytest.mark.parametrize("verb", ["track", "lease", "retry"])
def test_a_worker_that_dies_while_it_records_is_followed_by_another(verb: str) -> None:
    world = untracked(job="bad")
    world.wait(60)
    with pytest.raises(Crash):
        world.work(world.worker(Faults().at(verb, after=crash)))
    world.live(300)
    assert (world.run(60).state, world.run(60).attempt) == (DEAD, 3)


def test_a_worker_that_dies_in_the_job_is_followed_by_one_with_a_lease() -> None:
    world = untracked()

    def dies(ctx: Context) -> None:
        world.during = lambda ctx: None
        raise Crash

    world.during = dies
    world.wait(60)
    with pytest.raises(Crash):
        world.work()
    world.live(90)
    assert (world.run(60).state, world.run(60).attempt, world.run(60).fence) == (SUCCEEDED, 1, 1)


def test_of_two_deliveries_that_fail_one_is_followed_by_attempts() -> None:
    world = untracked(job="bad")
    world.wait(60)
    for stored in list(world.memory.work):
        world.memory.work.put(stored.body)
    world.work(together=True)
    assert [message.fence for message in world.memory.messages() if message.due == NOON + 60_000] == [1]
    world.live(60)
    assert (world.run(60).state, world.run(60).attempt) == (DEAD, 3)


def test_an_incident_ends_with_a_success() -> None:
    """While a schedule fails its successes are recorded: somebody waits for one."""
    world = untracked()
    world.during = _refuses
    world.live(60)
    assert world.scheduler.get_schedule("s").incident
    world.during = lambda ctx: None
    world.live(240)
    assert world.scheduler.get_schedule("s").incident is None
    assert (120, SUCCEEDED) in world.states()
    world.live(300)
    assert world.states()[-8][1] is SENT or SENT in {state for second, state in world.states() if second > 300}


# Changes.


def test_nothing_starts_of_what_was_read_as_closed() -> None:
    world = untracked("rate(20 seconds)")
    world.wait(19)
    world.scheduler.pause_schedule("s")
    world.live(120)
    assert world.started == []
    assert {state for second, state in world.states() if second < 139} == {RunState.CANCELLED}


def test_what_was_read_too_long_ago_is_read_again() -> None:
    """A worker that stalls between taking a message and its job."""
    world = untracked()
    world.wait(60)
    worker = world.worker()
    (task,) = worker.take(world.services.work.receive(most=10, wait=0, visibility=60))
    world.wait(6)
    world.scheduler.pause_schedule("s")
    worker.process(task)
    assert world.started == []
    assert world.states()[0] == (60, RunState.CANCELLED)


@pytest.mark.parametrize("how", ["leases of others", "a payload from the bucket"])
def test_what_has_become_old_before_its_start_is_read_again(how: str) -> None:
    """Its batch's other leases are throttled for ten seconds, or its payload comes slowly; its owner pauses meanwhile."""
    world = World()
    payload = "x" * 100_000 if how == "a payload from the bucket" else None
    world.scheduler.create_schedule("s", "note", "rate(20 seconds)", ledger="failures", payload=payload)
    world.scheduler.create_schedule("other", "note", "rate(20 seconds)")

    def meanwhile() -> None:
        world.wait(10)
        world.scheduler.pause_schedule("s")

    world.wait(20)
    slow = Faults().at("get" if payload else "lease", before=meanwhile)
    world.work(world.worker(slow), together=True)
    assert not slow.rules[0].times, "it was slow"
    assert {start.run_id.partition("#")[0] for start in world.started} == {"acme/other"}
    assert world.states()[0] == (20, RunState.CANCELLED)


def test_an_update_neither_swallows_nor_repeats_an_instant() -> None:
    world = untracked("rate(20 seconds)")
    world.wait(35)
    world.work()
    world.scheduler.update_schedule("s", payload={"n": 2})
    world.live(120)
    assert sorted(world.began()) == [20, 40, 60, 80, 100, 120, 140]


@pytest.mark.parametrize(
    "levels", [("full", "failures"), ("lean", "failures"), ("failures", "full"), ("failures", "lean")]
)
def test_from_one_level_to_another(levels: tuple[str, str]) -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "rate(20 seconds)", ledger=levels[0])
    world.live(50)
    world.scheduler.update_schedule("s", ledger=levels[1])
    world.live(100)
    assert sorted(world.began()) == [20, 40, 60, 80, 100, 120, 140]


def test_a_run_cannot_be_cancelled_by_itself() -> None:
    world = untracked()
    with pytest.raises(Conflict, match="failures only"):
        world.scheduler.cancel_run(f"{OWNER}#{NOON + 60_000:015d}")


def test_what_is_on_its_way_is_not_skipped_nor_one_after_it_instead() -> None:
    world = untracked()
    world.wait(30)
    with pytest.raises(Conflict, match="failures only"):
        world.scheduler.skip_next("s")
    assert {state for _, state in world.states()} == {SENT}
    sparse = untracked("0 13 * * *")
    sparse.scheduler.skip_next("s")
    sparse.live(3_700)
    assert sparse.started == []


def test_what_sqs_moved_aside_goes_back_to_work() -> None:
    """Received a thousand times while the ledger answered nobody."""
    world = untracked()
    world.wait(60)
    for delivery in world.services.work.receive(most=10, wait=0, visibility=60):
        world.memory.dead.put(delivery.body)
        world.services.work.delete(delivery.receipt)
    world.live(130)
    assert 60 in world.began()
    assert world.run(60).state is SUCCEEDED


def test_a_schedule_that_is_a_shadow_starts_nothing() -> None:
    world = untracked(shadow=True)
    world.live(60)
    assert (world.states()[0], world.started) == ((60, RunState.SHADOWED), [])


def test_a_passed_deadline_is_recorded() -> None:
    world = untracked(deadline=5.0)
    world.wait(70)
    world.work()
    assert world.states()[0] == (60, RunState.EXPIRED)


def test_a_fire_that_was_claimed_and_never_sent_is_sent() -> None:
    world = untracked("rate(240 seconds)")
    world.wait(100)
    with pytest.raises(Crash):
        world.tick(world.process(Faults().at("send", before=crash)))
    world.wait(140)
    world.tick()
    world.work()
    assert world.began() == [240]


# At the door, and behind it.


def test_what_needs_a_lease_is_refused() -> None:
    world = World()
    given: list[tuple[str, dict[str, Any]]] = [
        ("note", {"delivery": "exactly_once"}),
        ("once", {}),
        ("note", {"overlap": "skip"}),
        ("note", {"max_running": 2}),
        ("note", {"expect_success_within": 600.0}),
    ]
    for job, options in given:
        with pytest.raises(InvalidInput, match="ledger"):
            world.scheduler.create_schedule("s", job, "* * * * *", ledger="failures", **options)
        world.scheduler.upsert_schedule("t", job, "* * * * *", **options)
        with pytest.raises(InvalidInput, match="ledger"):
            world.scheduler.update_schedule("t", ledger="failures")
        world.scheduler.delete_schedule("t")


def test_a_job_that_became_exactly_once_is_leased_all_the_same() -> None:
    world = untracked()
    world.jobs = type(world.jobs)()
    world.jobs.job("note", delivery="exactly_once")(world.note)
    world.live(60)
    assert (world.run(60).state, world.run(60).fence) == (SUCCEEDED, 1)


def test_steps_are_refused() -> None:
    world = untracked()
    problems: list[Exception] = []

    def steps(ctx: Context) -> None:
        try:
            ctx.step("paid", lambda: 1)
        except InvalidInput as problem:
            problems.append(problem)
            raise Permanent("as it says") from problem

    world.during = steps
    world.live(60)
    assert "records no step" in str(problems[0])
    assert world.run(60).state is DEAD


def test_a_run_whose_row_cannot_be_read_keeps_its_message() -> None:
    world = untracked(job="bad")
    world.wait(60)
    lost = Faults().at("lease", before=_unavailable, times=None)
    (outcome,) = world.work(world.worker(lost))
    assert (outcome.gone, outcome.action) == (False, "kept")


def _unavailable() -> None:
    raise Unavailable("injected")
