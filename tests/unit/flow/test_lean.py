"""Lean: nothing is written at the tick; the first lease puts the row, and what takes a fire back puts it too."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from minutehand import RunState
from minutehand.domain.formats.message import decode
from minutehand.domain.options import LedgerLevel
from minutehand.errors import InvalidInput, NotFound
from minutehand.state.ledger_levels import LATE, STALL
from minutehand.testing import Crash

from tests.unit.flow.world import NOON, OWNER, Faults, World, at, crash, fails

Q, R, S, C, X = (
    RunState.QUEUED,
    RunState.RUNNING,
    RunState.SUCCEEDED,
    RunState.CANCELLED,
    RunState.SUPERSEDED,
)


def lean(expression: str = "rate(60 seconds)", job: str = "note", **options: Any) -> World:
    """A world with one lean schedule."""
    world = World()
    world.scheduler.create_schedule("s", job, expression, ledger="lean", **options)
    return world


# What is written.


def test_a_tick_writes_no_rows_and_the_lease_puts_them() -> None:
    world, faults = lean(), Faults()
    world.wait(60)
    world.tick(world.process(faults))
    assert (faults.count("BatchExecuteStatement"), world.states()) == (0, [])
    assert world.sent() == [60 * number for number in range(1, len(world.sent()) + 1)]
    assert len(world.sent()) > 3, "a step was taken"
    (outcome,) = world.work(together=True)
    assert (outcome.state, outcome.start_lag) == (S, 0)
    run = world.run(60)
    assert (run.state, run.fence, run.attempt, run.revision, run.missed) == (S, 1, 1, 1, False)
    assert world.began() == [60]


@pytest.mark.parametrize("together", [False, True])
def test_a_lean_row_ends_as_a_full_one_does(together: bool) -> None:
    rows = []
    for ledger in ("full", "lean"):
        world = World()
        world.scheduler.create_schedule("s", "note", "rate(60 seconds)", ledger=ledger)
        world.wait(30)
        world.tick()
        world.wait(30)
        world.work(together=together)
        rows.append({k: v for k, v in (world.memory.row(world.run(60).ref) or {}).items() if k != "created_at"})
    assert rows[0] == rows[1]


def test_its_message_is_one_that_an_older_worker_leaves_alone() -> None:
    world = lean()
    world.wait(30)
    world.tick()
    message = next(iter(world.memory.messages()))
    assert (message.ledger, '"v":2' in message.encode()) == (LedgerLevel.LEAN, True)
    assert decode(message.encode()) == message


def test_a_retry_is_ordered_as_of_any_other_run() -> None:
    world = lean(job="bad")
    world.wait(60)
    world.tick()
    world.work(together=True)
    assert [(m.ledger, m.fence) for m in world.memory.messages() if m.due == NOON + 60_000] == [(LedgerLevel.FULL, 1)]
    world.live(120)
    assert world.run(60).state is RunState.DEAD


# Duplicates and races.


def test_a_duplicate_meets_the_row() -> None:
    world = lean()
    world.wait(60)
    world.tick()
    for stored in list(world.memory.work):
        world.memory.work.put(stored.body)
    world.work(together=True)
    world.live(60)
    assert world.began() == [60, 120]


def test_a_lease_whose_answer_was_lost_is_known_by_its_token() -> None:
    world = lean()
    world.wait(60)
    world.tick()
    lost = Faults().at("lease", after=_unanswered)
    world.work(world.worker(lost))
    assert (world.began(), world.run(60).state) == ([60], S)


def _unanswered() -> None:
    from minutehand.errors import Unavailable

    raise Unavailable("the answer is lost")


def test_a_worker_that_dies_after_its_lease_is_followed_by_another() -> None:
    world = lean()
    world.wait(60)
    world.tick()
    with pytest.raises(Crash):
        world.work(world.worker(Faults().at("lease", after=crash)))
    world.live(120)
    assert (world.run(60).state, world.run(60).attempt) == (S, 2)


# Late.


def test_what_is_late_is_claimed_before_its_lease() -> None:
    world = lean()
    world.wait(60)
    world.tick()
    world.wait(LATE // 1000 + 1)
    faults = Faults()
    world.work(world.worker(faults))
    assert faults.verbs().index("claim") < faults.verbs().index("revisions", faults.verbs().index("claim"))
    assert (world.began(), world.run(60).missed) == ([60], False)


def test_a_missed_fire_is_claimed_at_the_tick() -> None:
    world = lean("rate(300 seconds)")
    world.wait(361)
    world.tick()
    assert [(run.due - NOON) // 1000 for run in world.memory.runs() if run.missed] == [300]
    world.work()
    assert world.began() == [300]


def test_a_late_run_in_a_gap_is_taken_out_of_it() -> None:
    world = lean("rate(240 seconds)", catch_up="none")
    world.wait(200)
    sent = Faults().at("put", before=crash, times=None)  # the chain's next entry
    with pytest.raises(Crash):
        world.tick(world.process(sent))
    world.wait(150)
    world.tick()
    assert world.states() == [(240, RunState.SKIPPED)]
    assert [run.skipped for run in world.memory.runs()] == [1]
    world.work()
    assert world.began() == [240]
    assert sorted((run.state, run.skipped) for run in world.memory.runs()) == [(RunState.SKIPPED, 0), (S, None)]


def test_a_run_older_than_the_retention_is_passed_over() -> None:
    """Its row may have expired: nobody knows whether it was run."""
    world = World(retention=86_400_000)
    world.scheduler.create_schedule("s", "note", "0 13 * * *", ledger="lean")
    world.wait(3_570)
    world.tick()
    world.wait(2 * 86_400)
    world.work()
    assert world.states() == [(3_600, RunState.SKIPPED)]
    assert world.started == []


# Changes.


def late_lease(world: World, act: Any) -> Faults:
    """A worker that has read the revision, and stalls before its lease while an owner acts."""
    return Faults().at("lease", before=act)


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("act", ["pause", "delete"])
def test_nothing_starts_after_a_pause_returned(act: str, together: bool) -> None:
    world = lean("rate(20 seconds)")
    world.wait(45)
    world.tick()
    stop = partial(getattr(world.scheduler, f"{act}_schedule"), "s")
    world.work(world.worker(late_lease(world, stop)), together=together)
    assert world.started == []
    assert {state for _, state in world.states()} == {C}
    world.live(300)
    assert world.started == []


def test_a_pause_takes_back_what_an_earlier_revision_sent() -> None:
    world = lean("rate(20 seconds)")
    world.wait(35)
    world.tick()
    world.scheduler.update_schedule("s", payload={"n": 2})
    world.work(world.worker(late_lease(world, lambda: world.scheduler.pause_schedule("s"))))
    assert world.started == []
    assert (20, C) in world.states()


def test_an_update_neither_swallows_nor_repeats_an_instant() -> None:
    world = lean("rate(20 seconds)")
    world.wait(35)
    world.tick()
    world.scheduler.update_schedule("s", payload={"n": 2})
    world.live(120)
    assert sorted(world.began()) == [20, 40, 60, 80, 100, 120, 140]
    assert [s.payload for s in sorted(world.started, key=lambda s: s.run_id)] == [None, *[{"n": 2}] * 6]


def test_a_stalled_worker_does_not_start_what_an_update_has_replaced() -> None:
    world = lean("rate(20 seconds)")
    world.wait(40)
    world.tick()
    act = late_lease(world, lambda: world.scheduler.update_schedule("s", expression="rate(7 seconds)", payload=1))
    world.memory.work.put(next(m.encode() for m in world.memory.messages() if m.due == NOON + 60_000))
    world.work(world.worker(act))
    world.live(60)
    fires = world.began()
    assert len(fires) == len(set(fires))
    assert 60 not in fires or world.run(60).revision == 2


def test_a_schedule_that_was_paused_goes_on_at_the_same_instants() -> None:
    """Their rows were put as CANCELLED by the pause; the new revision takes them over."""
    world = lean("rate(60 seconds)")
    world.wait(35)
    world.tick()
    world.scheduler.pause_schedule("s")
    assert [second for second, state in world.states() if state is C] == [60, 120, 180]
    world.wait(10)
    world.scheduler.update_schedule("s", expression="* * * * *")
    world.scheduler.resume_schedule("s")
    world.live(150)
    assert world.began() == [60, 120, 180]


def test_from_full_to_lean_and_back() -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "rate(20 seconds)")
    world.wait(15)
    world.tick()
    world.scheduler.update_schedule("s", ledger="lean")
    world.live(50)
    world.scheduler.update_schedule("s", ledger="full")
    world.live(60)
    assert sorted(world.began()) == [20, 40, 60, 80, 100, 120]
    assert world.scheduler.describe_schedule("s").definition.options == {}


def test_a_change_leaves_instants_alone_that_were_never_due() -> None:
    """A worker has no message long before its time, so what it read before a change is of no fire long after it."""
    world = lean("rate(20 seconds)")
    world.live(35)
    world.scheduler.update_schedule("s", expression="0 * * * *")
    world.live(1_200)
    world.scheduler.pause_schedule("s")
    assert C not in {state for _, state in world.states()}
    world.live(1_200)
    world.scheduler.pause_schedule("s")
    assert max(world.fires()) <= 35 + 180


def test_a_pause_leaves_a_gap_what_it_is() -> None:
    """It began longer ago than the pause looks back, and says already what became of its fires."""
    world = lean(catch_up="none")
    world.live(30)
    world.wait(3 * 3_600)
    world.tick()
    world.work()
    missed = sum(run.skipped or 0 for run in world.memory.runs())
    world.scheduler.pause_schedule("s")
    assert len([second for second, state in world.states() if state is C]) <= 3
    alone = [run for run in world.memory.runs() if run.state is RunState.SKIPPED and run.skipped is None]
    assert sum(run.skipped or 0 for run in world.memory.runs()) + len(alone) == missed > 100


# Single runs.


def test_a_run_that_waits_is_shown_and_can_be_cancelled() -> None:
    world = lean()
    world.wait(30)
    world.tick()
    run_id = f"{OWNER}#{NOON + 60_000:015d}"
    assert world.scheduler.get_run(run_id).state is Q
    assert world.scheduler.cancel_run(run_id).state is C
    world.live(120)
    assert world.began() == [120]
    world.scheduler.update_schedule("s", payload=1)
    assert world.scheduler.get_run(run_id).state is C
    with pytest.raises(NotFound):
        world.scheduler.get_run(f"{OWNER}#{NOON + 60_001:015d}")
    with pytest.raises(NotFound):
        world.scheduler.get_run(f"{OWNER}#{NOON + 86_400_000:015d}")


def test_cancelling_many_takes_those_without_a_row_too() -> None:
    world = lean()
    world.wait(30)
    world.tick()
    assert world.scheduler.cancel_runs("s", between=(at(0), at(125))) == 2
    world.live(180)
    assert world.began() == [180]


def test_skipping_the_next_one() -> None:
    world = lean()
    world.wait(30)
    world.tick()
    world.scheduler.skip_next("s")
    world.live(120)
    assert world.began() == [120]


def test_a_deadline_that_has_passed_is_recorded() -> None:
    world = lean(deadline=5.0)
    world.wait(60)
    world.tick()
    world.wait(20)
    world.work()
    assert world.states() == [(60, RunState.EXPIRED)]


def test_at_most_once_is_watched() -> None:
    world = lean(job="once")
    world.wait(60)
    world.tick()
    with pytest.raises(Crash):
        world.work(world.worker(Faults().at("lease", after=crash)))
    world.live(200)
    assert world.run(60).state is RunState.LOST


def test_shadow_starts_nothing() -> None:
    world = lean(shadow=True)
    world.live(60)
    assert (world.states(), world.started) == ([(60, RunState.SHADOWED)], [])


# Backfills.


@pytest.mark.parametrize(("late", "given"), [(5, ["live"]), (STALL // 1000 + 100, ["filled"])])
def test_what_a_backfill_has_claimed_is_left_to_it(late: int, given: list[str]) -> None:
    """It claims no fire that may be on its way; after an hour in a queue it does, and what it claimed has its payload and no deadline."""
    world = lean(payload="live", deadline=90.0)
    world.wait(60)
    world.tick()
    world.wait(late)
    world.scheduler.backfill("s", at(0), at(61), payload="filled", dry_run=False)
    world.live(300)
    assert [start.payload for start in world.started if "060000" in start.run_id] == given
    assert world.run(60).state is S


# The auditor.


def test_a_lost_message_is_sent_again_and_nothing_else_is_reported() -> None:
    world = lean("rate(150 seconds)")
    world.wait(150)
    for delivery in world.services.work.receive(most=10, wait=0, visibility=60):
        world.services.work.delete(delivery.receipt)
    world.wait(331)
    report = world.audit()
    assert (report.resent, report.unclaimed, report.failed) == (1, 0, 0)
    world.work()
    assert world.began() == [150]
    assert world.audit().resent == 0


def test_what_lies_in_a_long_gap_is_not_sent_again() -> None:
    """The gap began before the time that the auditor recomputes, and runs by hand lie between."""
    world = lean(catch_up="none")
    world.live(30)
    for _ in range(8):
        world.wait(700)
        world.scheduler.trigger("s")
    world.work()
    world.wait(7_200)
    world.tick()
    world.live(360)
    started = len(world.started)
    assert world.audit().resent == 0
    world.work()
    assert len(world.started) == started


def test_what_the_ticker_has_not_come_to_is_left_to_it() -> None:
    world = lean("rate(200 seconds)")
    world.wait(1_000)
    report = world.audit()
    assert (report.resent, report.unclaimed) == (0, 0)


# At the door.


@pytest.mark.parametrize("options", [{"overlap": "skip"}, {"max_running": 2}])
def test_what_needs_a_row_is_refused(options: dict[str, Any]) -> None:
    world = World()
    with pytest.raises(InvalidInput, match="ledger"):
        world.scheduler.create_schedule("s", "note", "* * * * *", ledger="lean", **options)
    with pytest.raises(InvalidInput, match="full, lean"):
        world.scheduler.create_schedule("s", "note", "* * * * *", ledger="leaner")
    world.scheduler.create_schedule("s", "note", "* * * * *", **options)
    with pytest.raises(InvalidInput, match="ledger"):
        world.scheduler.update_schedule("s", ledger="lean")
    assert timedelta(0) == world.now() - at(0)


def test_a_backfill_leaves_what_is_on_its_way_alone() -> None:
    """It would claim it, and take it back when it is cancelled."""
    world = lean("rate(20 seconds)")
    world.wait(45)
    backfill = world.scheduler.backfill("s", at(0), at(45), dry_run=False)
    assert world.states() == []
    world.scheduler.cancel_backfill("s", str(backfill.id))
    world.live(60)
    assert sorted(world.began()) == [20, 40, 60, 80, 100]


def test_the_chain_waits_for_its_messages() -> None:
    world = lean()
    before = world.chain()
    world.wait(60)
    world.tick(world.process(Faults().at("send", before=fails, times=None)))
    assert world.chain() == before
    world.tick()
    world.live(240)
    assert world.began() == [60, 120, 180, 240, 300]
