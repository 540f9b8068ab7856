"""A freeze: nothing of a tenant starts until its end, nothing is lost, and nobody else notices."""

from __future__ import annotations

import contextlib
from datetime import timedelta
from typing import Any

import pytest
from quarterjack import RunState, Scheduler
from quarterjack.domain.schedule import freeze_key
from quarterjack.domain.times import MINUTE, SECOND
from quarterjack.errors import InvalidInput, Unavailable
from quarterjack.testing import Crash, Detail
from quarterjack.testing.process import Hand, work_off
from quarterjack.worker.admission.admit import FRESH
from quarterjack.worker.admission.tenant_state import RETURN
from quarterjack.worker.delivery.receive import receive

from tests.support.scenes.world import NOON, Faults, World, at, fails


def frozen(seconds: float = 3_600) -> World:
    world = World()
    world.scheduler.freeze(at(seconds), reason="the database is being moved")
    return world


def test_nothing_starts_before_its_end_and_everything_after() -> None:
    world = frozen(600)
    world.scheduler.create_schedule("s", "note", "rate(100 seconds)")
    world.scheduler.submit("note", idempotency_key="now")
    world.live(599)
    assert world.started == []
    world.live(20)
    assert sorted(start.run_id for start in world.started) == sorted(str(run.ref) for run in due_by(world, 600))
    assert {start.attempt for start in world.started} == {1}


def due_by(world: World, second: int) -> list[Any]:
    return [run for run in world.memory.runs() if run.due <= NOON + second * SECOND]


def test_a_thaw_takes_effect_within_five_minutes() -> None:
    world = frozen(86_400)
    world.scheduler.submit("note")
    world.live(3_600)
    world.scheduler.thaw()
    assert world.scheduler.frozen() is None
    thawed = world.clock()
    world.live(RETURN // SECOND + 2)
    assert thawed < world.started[0].at <= thawed + RETURN + SECOND


def test_it_can_be_asked_for_and_replaced() -> None:
    world = World()
    assert world.scheduler.frozen() is None
    world.scheduler.freeze(at(100))
    world.scheduler.freeze(at(50))
    assert world.scheduler.frozen() == at(50)
    world.wait(50)
    assert world.scheduler.frozen() is None


def test_other_tenants_go_on() -> None:
    world = frozen()
    other = Scheduler("globex", jobs=world.jobs, services=world.process(), clock=world.clock)
    mine, theirs = world.scheduler.submit("note"), other.submit("note")
    world.live(60)
    assert [start.run_id for start in world.started] == [theirs.id]
    assert world.scheduler.get_run(mine.id).state is RunState.QUEUED


def test_a_retry_waits_as_well_and_what_runs_goes_on() -> None:
    world = World()
    run = world.scheduler.submit("bad")
    world.during = lambda ctx: world.scheduler.freeze(at(600))
    world.live(500)
    assert [start.attempt for start in world.started] == [1]
    assert world.scheduler.get_run(run.id).state is RunState.RETRYING
    world.during = lambda ctx: None
    world.live(200)
    assert [start.attempt for start in world.started] == [1, 2, 3]


def test_a_run_past_its_deadline_expires_in_the_middle_of_it() -> None:
    world = frozen()
    run = world.scheduler.submit("note", deadline=120.0)
    world.live(RETURN // SECOND + 5)
    assert world.scheduler.get_run(run.id).state is RunState.EXPIRED


def test_a_pause_takes_back_what_is_frozen() -> None:
    world = frozen(600)
    world.scheduler.create_schedule("s", "note", "rate(100 seconds)")
    world.live(300)
    world.scheduler.pause_schedule("s")
    world.live(600)
    assert world.started == []


def test_a_frozen_run_takes_nobodys_place() -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "rate(10 seconds)", overlap="skip")
    world.scheduler.freeze(at(60))
    world.live(59)
    assert all(run.state is RunState.QUEUED for run in world.memory.runs())


def test_the_auditor_leaves_it_alone() -> None:
    """It would send for each run once an hour, and each of these messages would go round."""
    world = frozen(86_400)
    world.scheduler.create_schedule("s", "note", "rate(10 minutes)")
    world.scheduler.submit("note")
    for _ in range(5):
        world.live(3_600)
        report = world.audit(segments=1)
        assert (report.resent, report.overdue) == (0, 0)
    assert len(world.memory.messages()) == len({message.run for message in world.memory.messages()})
    world.scheduler.thaw()
    world.live(RETURN // SECOND + 60)
    assert len({start.run_id for start in world.started}) == len(world.started) >= 31


# When ``freeze`` has returned.


def test_a_batch_that_was_read_before_is_believed_for_five_seconds() -> None:
    for seconds, starts in ((FRESH // SECOND, 1), (FRESH // SECOND + 1, 0)):
        world = World()
        world.scheduler.submit("note")
        worker = world.worker()
        deliveries = worker.services.work.receive(most=1, wait=0, visibility=60)
        received = receive(worker, deliveries)
        world.scheduler.freeze(at(600))
        world.wait(seconds)
        work_off(worker, received)
        assert len(world.started) == starts


class Meanwhile(Faults):
    """The owner freezes before call number ``number``."""

    def __init__(self, world: World, number: int) -> None:
        super().__init__()
        self.world, self.number = world, number

    def before_call(self, operation: str, detail: Detail) -> Any:
        if len(self.calls) == self.number:
            self.world.scheduler.freeze(at(600))
        return super().before_call(operation, detail)


def test_whenever_it_comes_the_run_starts_once() -> None:
    for number in range(6):
        world = World()
        world.scheduler.submit("note")
        Hand(worker=world.worker(Meanwhile(world, number))).work()
        assert len(world.started) <= 1
        world.live(700)
        assert [start.attempt for start in world.started] == [1]


# What fails.


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("number", range(5))
def test_a_worker_that_dies_of_a_frozen_run_loses_nothing(number: int, after: bool) -> None:
    class Dies(Faults):
        def before_call(self, operation: str, detail: Detail) -> Any:
            super().before_call(operation, detail)
            if not after and len(self.calls) == number + 1:
                raise Crash
            return ()

        def after_call(self, operation: str, detail: Detail) -> None:
            if after and len(self.calls) == number + 1:
                raise Crash

    world = frozen(100)
    world.scheduler.submit("note")
    with contextlib.suppress(Crash):
        Hand(worker=world.worker(Dies())).work()
    world.live(99)
    assert world.started == []
    world.live(200)
    assert [start.attempt for start in world.started] == [1]


def test_a_freeze_that_cannot_be_read_holds_back() -> None:
    world = World()
    world.scheduler.submit("note")
    unread = Faults().at("revisions", throttle=(0,), times=None)
    (outcome,) = Hand(worker=world.worker(unread)).work()
    assert (outcome.action, outcome.why) == ("kept", "freeze_unread")
    world.memory.put_revision(*freeze_key("acme"), ValueError("of a later release"))
    world.live(60)
    assert world.started == []
    with pytest.raises(ValueError, match="later release"):
        world.scheduler.frozen()
    world.scheduler.thaw()
    world.live(60)
    assert len(world.started) == 1


def test_an_owner_who_gets_no_answer_is_told() -> None:
    world = World()
    owner = world.owner(Faults().at("freeze", before=fails, times=None))
    with pytest.raises(Unavailable):
        owner.freeze(at(60))


@pytest.mark.parametrize(
    "until", [at(0), at(-60), at(401 * 86_400), at(60).replace(tzinfo=None), "tomorrow", timedelta(hours=1), None]
)
def test_a_moment_that_is_none_is_refused(until: Any) -> None:
    world = World()
    with pytest.raises(InvalidInput, match="until"):
        world.scheduler.freeze(until)
    with pytest.raises(InvalidInput, match="reason"):
        world.scheduler.freeze(at(60), reason="x" * 100_000)
    assert world.scheduler.frozen() is None


# What it costs.


def test_without_a_freeze_a_batch_makes_the_calls_that_it_made_before() -> None:
    """The freeze is one more key in the batch that reads revisions, the profiles of tenant and installation two, the versions one."""
    world, faults = World(), Faults()
    for number in range(4):
        world.scheduler.create_schedule(f"s{number}", "note", "rate(60 seconds)")
    world.wait(60)
    Hand(worker=world.worker(faults)).work()
    reads = [detail for _, detail in faults.calls if detail.verb == "revisions"]
    assert [len(detail.items) for detail in reads] == [4 + 1 + 2 + 1]


def test_a_frozen_run_costs_two_requests_to_its_queue_in_five_minutes() -> None:
    world, faults = frozen(), Faults()
    world.scheduler.submit("note")
    world.live(20 * MINUTE // SECOND, worker=world.worker(faults))
    assert (faults.verbs().count("send"), faults.verbs().count("erase")) == (4, 4)
