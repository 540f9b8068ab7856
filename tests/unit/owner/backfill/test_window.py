"""One record and many movers: the window never exceeds its bound, no end is lost or counted twice, and a stop in between is a stop."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from quarterjack.domain.message import Message
from quarterjack.domain.run import EntryKind, RunState
from quarterjack.domain.times import SECOND
from quarterjack.errors import InvalidInput
from quarterjack.fires.claim import fire_message
from quarterjack.owner.backfill import advance, control, plan
from quarterjack.owner.backfill.advance import move_on
from quarterjack.owner.backfill.records import read_backfill, write_backfill
from quarterjack.sdk.backfills import Backfill
from quarterjack.state.backfill import BackfillState, StoredBackfill
from quarterjack.testing import Crash

from tests.support.scenes.backfills import At, Scene, whole
from tests.support.scenes.world import NOON, OWNER, Faults, at, crash, fails

WINDOW = 3


def ended(concurrency: int = WINDOW) -> tuple[Scene, Backfill, list[Message]]:
    """The first runs of a backfill have ended, and nobody could count them: what their workers know of them."""
    scene = Scene().idle()
    started = scene.scheduler.backfill("s", at(0), at(1_200), **whole(concurrency=concurrency))
    scene.work(scene.worker(Faults().at("write_record", before=fails, times=None)))
    runs = [run for run in scene.memory.runs() if run.state is RunState.SUCCEEDED]
    assert len(runs) == concurrency
    return scene, started, [fire_message(run, scene.memory.revisions(OWNER)[-1]) for run in runs]


def stored(scene: Scene, backfill: Backfill) -> StoredBackfill:
    found = read_backfill(OWNER, str(backfill.id), scene.services)
    assert found is not None
    return found


def moves(scene: Scene, ended: Message, hook: Faults | None = None) -> None:
    move_on(ended, RunState.SUCCEEDED, None, scene.process(hook), scene.clock)


def calls(concurrency: int = WINDOW) -> int:
    """Calls of one mover that meets nobody."""
    (scene, _, ends), faults = ended(concurrency), Faults()
    moves(scene, ends[0], faults)
    return len(faults.calls)


def test_a_mover_that_loses_a_race_counts_all_that_have_ended_in_one_write() -> None:
    scene, started, ends = ended(5)
    before = stored(scene, started)
    moves(scene, ends[0], Faults().at("write_record", before=lambda: moves(scene, ends[1])))
    after = stored(scene, started)
    assert (after.done, after.version - before.version) == (5, 2)
    assert after.window == tuple(NOON + second * SECOND for second in range(360, 660, 60))
    for each in ends:
        moves(scene, each)
    assert stored(scene, started) == after, "counted once"


def test_a_mover_whose_run_another_counted_writes_nothing() -> None:
    scene, started, ends = ended(2)
    moves(scene, ends[1], Faults().at("write_record", before=lambda: moves(scene, ends[0])))
    version, faults = stored(scene, started).version, Faults()
    moves(scene, ends[0], faults)
    assert (stored(scene, started).version, faults.count("PutItem")) == (version, 0)


@pytest.mark.parametrize("before", [True, False])
def test_two_movers_at_any_call_of_each_other_do_no_harm(*, before: bool) -> None:
    for number in range(1, calls() + 1):
        scene, started, ends = ended()

        def meets(scene: Scene = scene, ends: list[Message] = ends) -> None:
            moves(scene, ends[1])

        moves(scene, ends[0], At(number, meets, before=before))
        now = stored(scene, started)
        assert len(now.window) == WINDOW, f"call {number}"
        assert {run.due for run in scene.of(started) if not run.is_terminal} <= set(now.window), f"call {number}"
        over = scene.until_over(started)
        assert (over.state, over.done, over.skipped) == (BackfillState.DONE, 19, 0), f"call {number}"
        assert set(scene.starts().values()) == {1}, f"call {number}"


STOPS = ["pause_backfill", "cancel_backfill", "pause_schedule"]


@pytest.mark.parametrize("stop", STOPS)
def test_an_owner_who_stops_it_at_any_call_of_two_movers_has_stopped_it(stop: str) -> None:
    for first in range(1, calls() + 1):
        for second in range(1, calls() + 1):
            scene, started, ends = ended()
            where, began = f"calls {first} and {second}", len(scene.started)

            def stops(scene: Scene = scene, started: Backfill = started) -> None:
                getattr(scene.scheduler, stop)("s", *([] if stop == "pause_schedule" else [started.id]))

            def meets(
                scene: Scene = scene,
                ends: list[Message] = ends,
                second: int = second,
                stops: Callable[[], None] = stops,
            ) -> None:
                moves(scene, ends[1], At(second, stops, before=True))

            moves(scene, ends[0], At(first, meets, before=True))
            scene.live(120)
            if stops_called(scene, stop, started):
                assert len(scene.started) == began, where
            _goes_on_and_adds_up(scene, started, stop, where)


def stops_called(scene: Scene, stop: str, started: Backfill) -> bool:
    """Whether the second mover made so many calls that the owner's turn came."""
    if stop == "pause_schedule":
        return scene.scheduler.get_schedule("s").state == "PAUSED"
    return scene.now_is(started).state in (BackfillState.PAUSED, BackfillState.CANCELLED)


def _goes_on_and_adds_up(scene: Scene, started: Backfill, stop: str, where: str) -> None:
    now = scene.now_is(started)
    if now.state is BackfillState.CANCELLED:
        assert (now.done, now.under_way, now.skipped) == (WINDOW, 0, 0), where
        return
    if now.state is BackfillState.PAUSED:
        scene.scheduler.resume_backfill("s", str(started.id))
    if scene.scheduler.get_schedule("s").state == "PAUSED":
        scene.scheduler.resume_schedule("s")
    over = scene.until_over(started)
    assert (over.state, over.done, over.skipped) == (BackfillState.DONE, 19, 0), f"{where}, {stop}"
    assert set(scene.starts().values()) == {1}, where


# Counts.


@pytest.mark.parametrize("dies", [False, True])
def test_a_run_that_was_running_when_its_backfill_was_cancelled_is_counted_when_it_ends(*, dies: bool) -> None:
    scene = Scene().idle()
    started = scene.scheduler.backfill("s", at(0), at(1_200), **whole(concurrency=2))
    seen: list[tuple[int, int]] = []

    def cancels(_ctx: object) -> None:
        now = scene.scheduler.cancel_backfill("s", str(started.id))
        seen.append((now.under_way, now.done))
        scene.wait(1)
        scene.tick()  # which leaves its entry: the run has not ended

    scene.during = cancels
    worker = scene.worker(Faults().at("write_record", before=fails, times=None) if dies else None)
    scene.work(worker)
    assert seen == [(1, 0)]
    scene.live(61)
    now = scene.now_is(started)
    assert (now.state, now.done, now.under_way) == (BackfillState.CANCELLED, 1, 0)
    scene.live(60)
    assert scene.entries(EntryKind.BACKFILL) == []


def test_a_run_that_ends_while_its_backfill_is_paused_is_counted_then() -> None:
    scene = Scene().idle()
    started = scene.scheduler.backfill("s", at(0), at(1_200), **whole(concurrency=2))

    def pauses(_ctx: object) -> None:
        scene.scheduler.pause_backfill("s", str(started.id))

    scene.during = pauses
    scene.work()
    now = scene.now_is(started)
    assert (now.state, now.done, now.under_way) == (BackfillState.PAUSED, 1, 1)


@pytest.mark.parametrize("order", ["oldest", "newest"])
def test_fires_that_fall_out_of_the_ledgers_sight_are_counted_in_several_writes(
    monkeypatch: pytest.MonkeyPatch, order: str
) -> None:
    monkeypatch.setattr(advance, "_STEPS", 4)
    scene = Scene(retention=25 * 60 * SECOND).idle()
    started = scene.scheduler.backfill("s", at(60), at(1_200), **whole(concurrency=1, order=order))
    scene.scheduler.pause_backfill("s", str(started.id))
    scene.wait(900)
    scene.scheduler.resume_backfill("s", str(started.id))
    over = scene.until_over(started)
    assert (over.state, over.done + over.skipped) == (BackfillState.DONE, 19)
    assert over.skipped >= 10


def test_a_fire_without_a_run_that_fell_out_of_the_ledgers_sight_is_skipped() -> None:
    scene = Scene(retention=25 * 60 * SECOND)
    scene.scheduler.create_schedule("s", "note", "0 0 1 1 *")
    scene.wait(600)
    never = scene.owner(Faults().at("claim", before=fails, times=None))
    scene.scheduler.update_schedule("s", expression="* * * * *")
    started = never.backfill("s", at(0), at(200), **whole(current=True))
    scene.scheduler.pause_schedule("s")
    scene.wait(25 * 60)
    scene.scheduler.resume_schedule("s")
    over = scene.until_over(started)
    assert (over.state, over.done, over.skipped) == (BackfillState.DONE, 0, 4)


# Stops.


def test_a_cancellation_ends_a_run_between_two_attempts_at_once() -> None:
    scene = Scene().idle("bad")
    started = scene.scheduler.backfill("s", at(0), at(61), **whole())
    scene.work()
    assert scene.run(60).state is RunState.RETRYING
    now = scene.scheduler.cancel_backfill("s", str(started.id))
    assert (scene.run(60).state, now.under_way, now.failed) == (RunState.CANCELLED, 0, 1)


@pytest.mark.parametrize("stop", ["pause_backfill", "cancel_backfill"])
def test_the_ticker_takes_back_what_an_owner_left_who_died_after_the_state(stop: str) -> None:
    scene = Scene().idle()
    started = scene.scheduler.backfill("s", at(0), at(1_200), **whole(concurrency=2))
    with pytest.raises(Crash):
        getattr(scene.owner(Faults().at("write_record", after=crash)), stop)("s", started.id)
    assert scene.run(60).state is RunState.QUEUED
    scene.tick()
    assert [scene.run(second).state for second in (60, 120)] == [RunState.CANCELLED] * 2


# Bounds.


def test_a_tick_gives_a_backfill_no_more_than_its_budget() -> None:
    scene, started, _ = ended()
    tries = 0

    def another_is_faster() -> None:
        nonlocal tries
        tries += 1
        scene.wait(0.6)
        assert write_backfill(stored(scene, started), scene.services)

    scene.tick(scene.process(Faults().at("write_record", before=another_is_faster, times=None)))
    assert tries == -(-control.BUDGET // 600)
    assert [entry.failures for entry in scene.entries(EntryKind.BACKFILL)] == [0]
    assert scene.until_over(started).done == 19


def test_an_interval_of_too_many_definitions_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene().past()
    monkeypatch.setattr(plan, "_MAX_SPANS", 2)
    with pytest.raises(
        InvalidInput, match=r"lies 3 changes of the schedule ago.*at most 2 changes, or pass current=True"
    ):
        scene.scheduler.backfill("s", at(0), scene.now())
    assert scene.scheduler.backfill("s", at(0), scene.now(), current=True).total > 0
