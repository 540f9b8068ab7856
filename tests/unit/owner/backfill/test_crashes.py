"""Whoever dies, stalls or is throttled, at whichever call: every fire runs once, the backfill ends, and never too much is under way."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from quarterjack.domain.run import EntryKind
from quarterjack.domain.times import MINUTE
from quarterjack.errors import QuarterjackError
from quarterjack.owner.runs.submit import ORPHAN_PATIENCE
from quarterjack.sdk.backfills import Backfill
from quarterjack.state.backfill import BackfillState
from quarterjack.testing import Crash

from tests.support.parts import in_parts
from tests.support.scenes.backfills import At, Onlooker, Scene, whole
from tests.support.scenes.world import Faults, at, crash, fails

DUE = list(range(60, 360, 60))
CONCURRENCY = 2


def begun(scene: Scene, hook: Faults | None = None) -> Backfill:
    return scene.owner(hook).backfill("s", at(0), at(360), **whole(concurrency=CONCURRENCY))


def started(scene: Scene, hook: Faults) -> None:
    """The owner starts it."""
    begun(scene, hook)


def worked(scene: Scene, hook: Faults) -> None:
    """A worker executes two of its runs and moves it on after each."""
    begun(scene)
    scene.work(scene.worker(hook))


def ticked(scene: Scene, hook: Faults) -> None:
    """A ticker finds the window as a crashed worker left it: both runs have ended."""
    begun(scene)
    scene.work(scene.worker(Faults().at("write_record", before=fails, times=None)))
    scene.wait(60)
    scene.tick(scene.process(hook))


def resumed(scene: Scene, hook: Faults) -> None:
    """The owner resumes it after a pause."""
    identity = begun(scene).id
    assert identity is not None
    scene.scheduler.pause_backfill("s", identity)
    scene.wait(60)
    scene.owner(hook).resume_backfill("s", identity)


Act = Callable[[Scene, Faults], None]
ACTS: list[Act] = [started, worked, ticked, resumed]
PARTS = 3  # `make test` takes one call in three, `make check` all


def calls(act: Act) -> int:
    faults = Faults()
    act(Scene().idle(), faults)
    return len(faults.calls)


@in_parts(PARTS)
@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("act", ACTS)
def test_dying_at_any_call_loses_nothing_and_repeats_nothing(act: Act, part: int, *, before: bool) -> None:
    for number in range(1 + part, calls(act) + 1, PARTS):
        scene = Scene().idle()
        with pytest.raises(Crash):
            act(scene, At(number, crash, before=before))
        _everything_comes_to_rest(scene, f"{act.__name__}, call {number}")


@in_parts(PARTS)
@pytest.mark.parametrize("act", ACTS)
def test_a_call_that_fails_or_whose_answer_is_lost_loses_nothing(act: Act, part: int) -> None:
    for before in (True, False):
        for number in range(1 + part, calls(act) + 1, PARTS):
            scene = Scene().idle()
            try:
                act(scene, At(number, fails, before=before))
            except QuarterjackError:
                assert act in (started, resumed)
            _everything_comes_to_rest(scene, f"{act.__name__}, call {number}")


@in_parts(PARTS)
@pytest.mark.parametrize("act", ACTS)
def test_two_tickers_at_any_call_of_anybody_do_no_harm(act: Act, part: int) -> None:
    for number in range(1 + part, calls(act) + 1, PARTS):
        scene = Scene().idle()

        def ticks(scene: Scene = scene) -> None:
            scene.wait(31)
            scene.tick(holder="one")
            scene.tick(holder="two")

        act(scene, At(number, ticks, before=True))
        _everything_comes_to_rest(scene, f"{act.__name__}, call {number}")


@pytest.mark.parametrize("verb", ["claim", "send", "put", "remove", "revive"])
def test_what_stays_unanswered_again_and_again_is_done_later(verb: str) -> None:
    scene = Scene().idle()
    faults = Faults().at(verb, throttle={0}, times=6)
    backfill = begun(scene, faults) if verb in ("claim", "send", "revive") else begun(scene)
    if verb not in ("claim", "send", "revive"):
        scene.tick(scene.process(faults))
    assert scene.until_over(backfill).state is BackfillState.DONE
    _everything_comes_to_rest(scene, verb)


def _everything_comes_to_rest(scene: Scene, where: str) -> None:
    look = Onlooker(scene)
    services, worker = scene.process(look), scene.worker(look)
    for _ in range(ORPHAN_PATIENCE // MINUTE + 6):
        scene.tick(services)
        scene.live(59, worker=worker)
        if not scene.entries(EntryKind.BACKFILL) and not scene.memory.messages():
            break
    found = next(iter(scene.scheduler.list_backfills("s")), None)
    if found is None:  # it was never accepted
        assert scene.started == [], where
    elif found.state is BackfillState.PAUSED:  # the call that resumes it had not come so far
        assert scene.starts() == {}, where
    else:
        assert (found.state, found.done, found.skipped) == (BackfillState.DONE, len(DUE), 0), where
        starts = scene.starts()
        assert sorted(starts) == DUE, where
        assert sorted(starts.values())[:-1] == [1] * (len(DUE) - 1), where
        assert max(starts.values()) <= 2, where  # the run at which its worker died
    assert look.most <= CONCURRENCY, where
    assert scene.entries(EntryKind.BACKFILL) == [], where


# Stops.


def stops() -> list[str]:
    return ["pause_backfill", "cancel_backfill", "pause_schedule"]


@in_parts(PARTS)
@pytest.mark.parametrize("stop", stops())
@pytest.mark.parametrize("act", ACTS)
def test_once_a_stop_has_returned_nothing_starts_at_whichever_call_it_came(act: Act, stop: str, part: int) -> None:
    for number in range(1 + part, calls(act) + 1, PARTS):
        scene = Scene().idle()
        returned: list[int] = []

        def stops_it(scene: Scene = scene, returned: list[int] = returned) -> None:
            going = [b.id for b in scene.scheduler.list_backfills("s") if b.ended_at is None]
            if stop != "pause_schedule" and not going:
                return
            getattr(scene.scheduler, stop)("s", *([] if stop == "pause_schedule" else going))
            returned.append(len(scene.started))

        try:
            act(scene, At(number, stops_it, before=True))
        except QuarterjackError:
            assert act is resumed
        scene.live(120)
        states = {backfill.state for backfill in scene.scheduler.list_backfills("s")}
        if returned and act is not resumed:  # which may come after it
            assert len(scene.started) == returned[0], f"{act.__name__}, call {number}"
        if stop == "cancel_backfill" and returned:
            assert states <= {BackfillState.CANCELLED, BackfillState.DONE}


@pytest.mark.parametrize("stop", ["pause_backfill", "cancel_backfill"])
@pytest.mark.parametrize("before", [True, False])
def test_a_stop_that_died_is_finished_by_the_ticker_or_the_next_call(stop: str, *, before: bool) -> None:
    faults = Faults()
    scene = Scene().idle()
    getattr(scene.owner(faults), stop)("s", begun(scene).id)
    for number in range(1, len(faults.calls) + 1):
        scene = Scene().idle()
        identity = begun(scene).id
        with pytest.raises(Crash):
            getattr(scene.owner(At(number, crash, before=before)), stop)("s", identity)
        scene.tick()
        getattr(scene.scheduler, stop)("s", identity)
        scene.live(300)
        assert scene.started == [], f"call {number}"


def test_a_worker_that_claims_after_a_stop_starts_nothing() -> None:
    """It let the fire into the window before the stop, and stalls until the stop has returned."""
    for stop in ("pause_backfill", "cancel_backfill"):
        scene = Scene().idle()
        backfill = scene.scheduler.backfill("s", at(0), at(360), **whole(concurrency=1))
        halt = Faults().at(
            "claim", before=lambda stop=stop, scene=scene, b=backfill: getattr(scene.scheduler, stop)("s", b.id)
        )
        scene.work(scene.worker(halt))
        scene.live(300)
        assert scene.began() == [60]


def test_a_row_that_cannot_be_read_is_passed_over() -> None:
    scene = Scene().idle()
    ref = scene.run(60).ref
    row = scene.memory.row(ref)
    assert row is not None
    scene.memory.put_row(ref, row | {"state": "OF A LATER RELEASE"})
    ended = scene.until_over(begun(scene))
    assert (ended.state, ended.done, ended.skipped) == (BackfillState.DONE, 4, 1)
