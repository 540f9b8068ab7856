"""A suspended tenant: nothing starts, nothing is lost, nobody else notices. One that is erased: nothing of it is touched."""

from __future__ import annotations

from dataclasses import replace

import pytest
from quarterjack import RunState, Scheduler
from quarterjack.domain.tenants.profile import TenantProfile, TenantState
from quarterjack.domain.times import SECOND
from quarterjack.stores.tables import REVISIONS, RUNS, TENANTS
from quarterjack.testing import Detail
from quarterjack.testing.process import Hand, work_off
from quarterjack.worker.admission.tenant_state import RETURN, UNREAD
from quarterjack.worker.delivery.receive import receive
from quarterjack.worker.stages import Action

from tests.support.scenes.world import Faults, World


def put(world: World, state: TenantState, tenant: str = "acme") -> None:
    tenants = world.memory.connect().tenants
    present = tenants.profile(tenant) or TenantProfile(tenant=tenant)
    assert tenants.put(replace(present, state=state, suspension_reason="unpaid"), expected=present.version)


def suspended() -> World:
    world = World()
    put(world, TenantState.SUSPENDED)
    return world


def test_nothing_starts_until_it_is_resumed_and_then_everything() -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "rate(100 seconds)")
    world.scheduler.submit("note", idempotency_key="now", delay=10)
    put(world, TenantState.SUSPENDED)
    world.live(1_000)
    assert world.started == []
    put(world, TenantState.ACTIVE)
    world.live(RETURN // SECOND + 10)
    due = [run for run in world.memory.runs() if run.due <= world.clock() - SECOND]
    assert sorted(start.run_id for start in world.started) == sorted(str(run.ref) for run in due)
    assert len(due) >= 11
    assert {start.attempt for start in world.started} == {1}


def test_no_run_starts_later_than_five_seconds_after() -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "rate(1 second)")
    worker = world.worker()
    world.live(30, worker=worker)
    put(world, TenantState.SUSPENDED)
    at = world.clock()
    world.live(60, worker=worker)
    assert max(start.at for start in world.started) <= at + 5 * SECOND


def test_other_tenants_go_on() -> None:
    world = World()
    other = Scheduler("globex", jobs=world.jobs, services=world.process(), clock=world.clock)
    mine, theirs = world.scheduler.submit("note"), other.submit("note")
    put(world, TenantState.SUSPENDED)
    world.live(60)
    assert [start.run_id for start in world.started] == [theirs.id]
    assert world.scheduler.get_run(mine.id).state is RunState.QUEUED


def test_it_costs_two_requests_to_the_queue_in_five_minutes_and_no_write() -> None:
    world, faults = World(), Faults()
    world.scheduler.submit("note")
    put(world, TenantState.SUSPENDED)
    world.live(20 * 60, worker=world.worker(faults))
    assert (faults.verbs().count("send"), faults.verbs().count("erase")) == (4, 4)
    assert not faults.count("UpdateItem", "PutItem", "BatchExecuteStatement", "TransactWriteItems")


def test_the_auditor_leaves_it_alone() -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "rate(10 minutes)")
    put(world, TenantState.SUSPENDED)
    for _ in range(3):
        world.live(3_600)
        report = world.audit(segments=1)
        assert (report.resent, report.overdue) == (0, 0)


@pytest.mark.parametrize("state", [TenantState.ERASING, TenantState.ERASED])
def test_messages_of_an_erased_tenant_are_dropped_without_a_write(state: TenantState) -> None:
    world, faults = World(), Faults()
    world.scheduler.create_schedule("s", "note", "rate(10 seconds)", overlap="skip")
    world.scheduler.submit("note")
    world.live(1, worker=world.worker(Faults().at("lease", before=lambda: None)))
    world.started.clear()
    put(world, state)
    for table in (RUNS, REVISIONS):  # its rows may be gone
        for of, key, _ in list(world.memory._tables[table]):
            world.memory._tables[table].delete(of, key)
    world.wait(240)  # beyond the look-ahead: all messages can be received
    hand = Hand(worker=world.worker(faults))
    dropped = [outcome.why for _ in range(3) for outcome in hand.work()]
    assert set(dropped) == {"tenant_erased"}
    assert world.started == []
    assert len(world.memory.messages()) == 0
    assert len(list(world.memory.dead)) == 0
    assert not faults.count("UpdateItem", "PutItem", "BatchExecuteStatement", "TransactWriteItems")
    assert not world.memory.runs()


def test_what_is_not_known_of_a_tenant_is_not_in_its_favour() -> None:
    world = World()
    world.scheduler.submit("note")
    world.memory._tables[TENANTS].put("acme", "#profile", {"tenant": "acme", "item": "#profile", "state": "HAPPY"})
    outcomes = Hand(worker=world.worker()).work()
    assert [(outcome.why, outcome.action) for outcome in outcomes] == [("tenant_unread", Action.KEPT)]
    assert world.started == []
    world.memory._tables[TENANTS].delete("acme", "#profile")
    world.wait(UNREAD // SECOND + 6)
    Hand(worker=world.worker()).work()
    assert len(world.started) == 1


class Unanswered(Faults):
    """The profile of a tenant is never answered."""

    def before_call(self, operation: str, detail: Detail) -> set[int]:
        super().before_call(operation, detail)
        return {place for place, item in enumerate(detail.items) if item == ("acme", "#profile")}


def test_a_profile_that_is_not_answered_keeps_its_tenants_messages_alone() -> None:
    world = World()
    other = Scheduler("globex", jobs=world.jobs, services=world.process(), clock=world.clock)
    world.scheduler.submit("note")
    theirs = other.submit("note")
    outcomes = Hand(worker=world.worker(Unanswered())).work()
    assert [start.run_id for start in world.started] == [theirs.id]
    assert [outcome.why for outcome in outcomes if outcome.action is Action.KEPT] == ["tenant_unread"]


def test_a_profile_does_not_lapse_while_a_run_waits_for_its_instant() -> None:
    world = World()
    world.scheduler.submit("once", delay=5.9, start="exact")
    worker = world.worker(faults := Faults())
    world.wait(2.1)
    worker.services.tenants.governance("acme", world.clock())
    world.wait(1.9)  # so young that a batch does not read it again; its message is 1.9 s early
    Hand(worker=worker).work()
    assert faults.profile_reads == 1
    assert len(world.started) == 1


def test_a_profile_is_read_anew_for_a_run_whose_process_stalled() -> None:
    world = World()
    world.scheduler.submit("once")
    worker = world.worker(faults := Faults())
    received = receive(worker, worker.services.work.receive(most=1, wait=0, visibility=60))
    world.wait(4.1)
    put(world, TenantState.SUSPENDED)
    (outcome,) = work_off(worker, received)
    assert outcome.why == "tenant_suspended"
    assert faults.profile_reads == 1
    assert world.started == []


def test_profiles_cost_a_busy_worker_two_keys_in_two_seconds_and_no_request() -> None:
    """600 runs in 60 s, ten a batch: as many requests as batches have stages, and 60 keys more than their revisions and freezes."""
    world, faults = World(), Faults()
    hand = Hand(worker=world.worker(faults), together=True)
    for _ in range(60):
        for _ in range(10):
            world.scheduler.submit("note")
        hand.work()
        world.wait(1)
    assert len(world.started) == 600
    assert faults.count("BatchGetItem") == 120  # rows; revisions, freezes and profiles
    profiles = [item for _, detail in faults.calls for item in detail.items if "#profile" in str(item)]
    assert len(profiles) == 60
    assert faults.profile_reads == 0
