"""What each act costs, with its entry: write units (rows below 1 KB, a transaction's twice) and requests."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from quarterjack import Scheduler
from quarterjack.domain.history.dead_run import DeadRunRow
from quarterjack.domain.names import one_off_ref
from quarterjack.domain.times import DAY
from quarterjack.owner.backfill.records import write_backfill
from quarterjack.state.backfill import BackfillOrder, BackfillState, StoredBackfill

from tests.support.scenes.world import NOON, Faults, World, at
from tests.support.units import counted

AGENDA = 2  # the run's entry, put and removed
FAR = "0 0 1 1 *"  # nothing is due within the look-ahead


@pytest.mark.parametrize(
    ("act", "units"),
    [
        (lambda owner: owner.create_schedule("new", "note", FAR), 6),
        (lambda owner: owner.update_schedule("s", expression="0 1 1 1 *"), 8),
        (lambda owner: owner.update_schedule("s", description="d"), 2),
        (lambda owner: owner.pause_schedule("s"), 4),
        (lambda owner: owner.resume_schedule("paused"), 6),
        (lambda owner: owner.delete_schedule("s"), 4),
        (lambda owner: owner.bulk("retag", prefix="s", tags={"a": "b"}), 2),
    ],
    ids=["create", "update", "describe", "pause", "resume", "delete", "retag"],
)
def test_an_acts_line_costs_four_units_and_no_request(act: Callable[[Scheduler], object], units: int) -> None:
    world, faults = a_world(), Faults()
    owner = world.owner(faults)
    owner.update_schedule("s", tags={"x": "y"})  # the first entry of a process names its tenant
    faults.calls.clear()
    entries = len(world.memory.audit_entries())
    with counted() as found:
        act(owner)
    assert found.pop("audit") == 4
    assert sum(found.values()) == units
    assert len(world.memory.audit_entries()) == entries + 1
    assert "audit" not in {detail.place for _, detail in faults.calls}


@pytest.mark.parametrize(
    ("act", "units", "reads"),
    [
        (lambda owner: owner.skip_next("s"), 2, 0),
        (lambda owner: owner.trigger("s"), 2 + AGENDA, 0),
        (lambda owner: owner.replay_run("acme/~ended#once"), 2 + AGENDA, 0),
        (lambda owner: owner.cancel_run("acme/~waits#once"), 2, 1),
        (lambda owner: owner.retry_run("acme/~retries#once"), 2, 1),
        (lambda owner: owner.reschedule("acme/~waits#once", delay=9_000), 2 + 2 * AGENDA, 1),
        (lambda owner: owner.pause_backfill("s", "b"), 2 + 1, 0),  # and its entry in the list of all backfills
        (lambda owner: owner.resume_backfill("s", "paused"), 2 + 2 + 1, 0),  # its entry; and it is over at once
        (lambda owner: owner.cancel_backfill("s", "b"), 2 + 1, 0),
        (lambda owner: owner.freeze(at(60)), 2, 1),
    ],
    ids=["skip", "trigger", "replay", "cancel", "retry", "reschedule", "pause", "resume", "cancel backfill", "freeze"],
)
def test_an_act_on_a_run_becomes_a_transaction(act: Callable[[Scheduler], object], units: int, reads: int) -> None:
    """``units`` beside the entry's four; ``reads``: of what a transaction does not return."""
    world, faults = a_world(), Faults()
    owner = world.owner(faults)
    owner.update_schedule("s", tags={"x": "y"})
    faults.calls.clear()
    with counted() as found:
        act(owner)
    assert found.pop("audit") == 4
    assert sum(found.values()) == units
    assert sum(detail.verb in ("moved", "revisions") for _, detail in faults.calls) >= reads


def test_a_purge_costs_two_units_a_run_and_four_for_98() -> None:
    world = a_world()
    for number in range(100):
        dead = DeadRunRow(
            run=one_off_ref("acme", f"d{number}"), job="x", ended_at=NOON - number, fence=1, attempts=1, reason="r"
        )
        world.process().dead_index.put(dead, expires=NOON + DAY)
    with counted() as found:
        assert world.scheduler.purge(job="x") == 100
    assert found == {"runs": 200, "audit": 8}


@pytest.mark.parametrize(
    "act",
    [
        lambda owner: owner.cancel_run("acme/~ended#once"),
        lambda owner: owner.reschedule("acme/~waits#once", at=owner.get_run("acme/~waits#once").due),
        lambda owner: owner.pause_backfill("s", "paused"),
        lambda owner: owner.purge(job="nothing"),
        lambda owner: owner.update_schedule("s", description=""),
        lambda owner: owner.upsert_schedule("s", "note", FAR),
        lambda owner: owner.pause_schedule("paused"),
        lambda owner: owner.resume_schedule("s"),
        lambda owner: owner.thaw(),
        lambda owner: owner.bulk("retag", prefix="s", tags={"a": None}),
    ],
    ids=["cancel", "reschedule", "pause backfill", "purge", "update", "upsert", "pause", "resume", "thaw", "retag"],
)
def test_what_changes_nothing_writes_nothing(act: Callable[[Scheduler], object]) -> None:
    world = a_world()
    entries = world.memory.audit_entries()
    with counted() as found:
        act(world.owner())
    assert (found, world.memory.audit_entries()) == ({}, entries)


def a_world() -> World:
    world = World()
    world.scheduler.create_schedule("s", "note", FAR)
    world.scheduler.create_schedule("paused", "note", FAR)
    world.scheduler.pause_schedule("paused")
    for key, job, delay in (("ended", "note", 0), ("retries", "bad", 0), ("waits", "note", 3_600)):
        world.scheduler.submit(job, idempotency_key=key, delay=delay)
    world.work()
    world.work()
    for identity, state in (("b", BackfillState.RUNNING), ("paused", BackfillState.PAUSED)):
        write_backfill(a_backfill(identity, state), world.process())
    return world


def a_backfill(identity: str, state: BackfillState) -> StoredBackfill:
    """One without a fire, so that nothing but its state is written."""
    return StoredBackfill(
        tenant="acme",
        name="s",
        id=identity,
        born=NOON,
        state=state,
        start=NOON - DAY,
        end=NOON,
        order=BackfillOrder.OLDEST,
        concurrency=1,
        total=1,
        spans=(),
        first=None,
        last=None,
        created_at=NOON,
    )


def test_a_submission_costs_what_it_did() -> None:
    world = a_world()
    with counted() as found:
        world.owner().submit("note", {"a": 1}, run_at=at(3_600))
    assert found == {"runs": 1, "agenda": 1}
