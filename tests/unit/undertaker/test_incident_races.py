"""What happens at the same time: owners, undertakers, workers and tickers on one schedule."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from quarterjack.domain.run import EntryKind, RunState
from quarterjack.domain.schedule import ScheduleState
from quarterjack.errors import Conflict, Unavailable
from quarterjack.ports.services import Services
from quarterjack.testing import Crash
from quarterjack.testing.process import bury_all
from quarterjack.undertaker.bury import bury_one

from tests.support.scenes.incident_verifier import told_wrongly
from tests.support.scenes.incidents import CALM, TOPIC, Scene
from tests.support.scenes.world import Faults, fails


def a_death(**options: Any) -> Scene:
    """The second run of a schedule has failed for good, and its letter waits; the first is on its head already."""
    scene = Scene()
    scene.schedule(**options)
    scene.live(119)
    scene.wait(1)
    scene.tick()
    scene.work()
    assert (scene.head.failing, len(scene.memory.dead)) == (1, 1)
    return scene


def bury_while(scene: Scene, verb: str, meanwhile: Callable[[], object]) -> None:
    """The undertaker is interrupted right before that call."""
    bury_all(scene.process(Faults().at(verb, before=meanwhile)), scene.clock)


ACTS: dict[str, Callable[[Scene], object]] = {
    "pause": lambda scene: scene.scheduler.pause_schedule("s", reason="mine"),
    "update": lambda scene: scene.scheduler.update_schedule("s", payload={"n": 2}),
    "delete": lambda scene: scene.scheduler.delete_schedule("s"),
    "another undertaker": lambda scene: scene.bury(),
}


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("verb", ["head", "revisions", "succeeded", "note"])
def test_an_owner_who_comes_between_loses_nothing(act: str, verb: str) -> None:
    scene = a_death()
    bury_while(scene, verb, lambda: ACTS[act](scene))
    scene.live(900)
    assert list(told_wrongly(scene.memory, ["acme/s"], scene.clock())) == []
    assert scene.head.state is {
        "pause": ScheduleState.PAUSED,
        "delete": ScheduleState.DELETED,
    }.get(act, ScheduleState.ACTIVE)
    if act == "pause":
        assert (scene.head.reason, scene.head.failing) == ("mine", 2)


@pytest.mark.parametrize("verb", ["head", "revisions", "succeeded", "note"])
def test_a_pause_by_the_owner_and_one_by_failure_are_one_pause(verb: str) -> None:
    scene = a_death(pause_on_failure=2)
    bury_while(scene, verb, lambda: scene.scheduler.pause_schedule("s", reason="mine"))
    scene.live(600)
    assert (scene.head.state, scene.head.reason) == (ScheduleState.PAUSED, "mine")
    assert scene.kinds == ["failure"]


@pytest.mark.parametrize("verb", ["head", "revisions", "succeeded", "note"])
def test_a_resume_that_comes_between_is_not_undone(verb: str) -> None:
    """The owner has seen to it: what failed before counts as one, not as the last of a row."""
    scene = a_death(pause_on_failure=2)

    def pause_and_resume() -> None:
        scene.scheduler.pause_schedule("s")
        scene.broken = False
        scene.scheduler.resume_schedule("s")

    bury_while(scene, verb, pause_and_resume)
    assert (scene.head.state, scene.head.failing) == (ScheduleState.ACTIVE, 1)
    scene.live(600)
    assert (scene.head.incident, scene.kinds) == (None, ["failure", "recovery"])


def test_nothing_starts_after_the_run_that_was_one_too_many() -> None:
    """Runs of later fires are queued already when the verdict comes."""
    scene = Scene()
    scene.schedule("rate(10 seconds)", pause_on_failure=2)
    scene.live(25)
    assert scene.head.state is ScheduleState.PAUSED
    started = len(scene.started)
    assert {run.state for run in scene.memory.runs("acme/s")} == {RunState.DEAD, RunState.CANCELLED}
    scene.live(600)
    assert len(scene.started) == started == 2


def test_whoever_dies_between_the_pause_and_its_sweep_leaves_that_to_the_next() -> None:
    scene = a_death(pause_on_failure=2)
    scene.tick()
    with pytest.raises(Crash):
        bury_all(scene.process(Faults().at("never_leased", before=crash)), scene.clock)
    assert scene.head.state is ScheduleState.PAUSED
    scene.wait(361)
    scene.bury()
    assert RunState.QUEUED not in {run.state for run in scene.memory.runs("acme/s")}


def crash() -> None:
    raise Crash


def test_a_success_that_ends_between_verdict_and_burial_ends_the_incident() -> None:
    """Its worker read the revision before anybody knew of the failure, so it reports nothing: the undertaker finds it."""
    scene = Scene()
    scene.schedule()
    scene.tick()
    scene.wait(60)
    scene.work()
    scene.broken = False
    scene.wait(60)
    scene.work()
    assert [run.state for run in scene.memory.runs()][:2] == [RunState.DEAD, RunState.SUCCEEDED]
    scene.bury()
    scene.tick()
    assert scene.kinds == ["failure", "recovery"]
    assert (scene.head.failing, scene.head.incident) == (0, None)


def test_a_success_that_was_under_way_all_the_time_is_found_by_those_who_look() -> None:
    """A long run began before the failure and ends after its burial; no other run follows."""
    scene = Scene(broken=False)
    scene.scheduler.create_schedule("s", "flaky", "0,1 13 * * *", on_failure=TOPIC, on_recovery=CALM)

    def second_fails(ctx: object) -> None:
        scene.during = lambda ctx: None
        scene.wait(60)
        scene.broken = True
        scene.work(scene.worker(name="other"))
        scene.bury()
        scene.broken = False
        scene.wait(10)

    scene.live(59 * 60)
    scene.during = second_fails
    scene.wait(60)
    scene.tick()
    scene.work()
    states = [run.state for run in scene.memory.runs("acme/s")]
    assert states == [RunState.SUCCEEDED, RunState.DEAD]
    assert scene.head.incident is not None
    scene.live(300)
    assert scene.kinds == ["failure", "recovery"]
    assert scene.head.incident is None


def test_a_worker_that_dies_after_its_success_is_found_out() -> None:
    scene = Scene()
    scene.schedule("0 13 * * *")
    scene.live(3700)
    scene.broken = False
    scene.scheduler.trigger("s")
    with pytest.raises(Crash):
        scene.work(scene.worker(Faults().at("put", before=crash)))
    scene.live(3600)
    assert scene.kinds == ["failure", "recovery"]


def test_a_report_that_fails_keeps_no_message() -> None:
    scene = a_death()
    scene.bury()
    scene.broken = False
    scene.wait(60)
    scene.tick()
    scene.work(scene.worker(Faults().at("put", before=fails, times=None)))
    assert len(scene.memory.work) == len(scene.memory.runs("acme/s")) - 3
    scene.live(300)
    assert scene.kinds == ["failure", "recovery"]


def test_two_tickers_tell_one_recovery() -> None:
    scene = a_death()
    scene.bury()
    scene.live(1)
    scene.broken = False
    scene.live(58)
    scene.wait(1)
    scene.work()
    scene.wait(1)
    (report,) = [entry for entry in scene.entries(EntryKind.EXPECT) if entry.id.rpartition("#")[2].isdigit()]
    assert report.due <= scene.clock()
    other: list[Services] = [scene.process()]
    scene.tick(scene.process(Faults().at("note", before=lambda: scene.tick(other[0], holder="ticker"))))
    scene.live(300)
    tokens = [notice.token for notice in scene.told]
    assert scene.kinds == ["failure", "recovery"]
    assert len(set(tokens)) == 2


def test_a_letter_that_comes_twice_is_counted_once() -> None:
    scene = a_death()
    (letter,) = scene.services.dead.receive(most=10, wait=0)
    for _ in range(3):
        bury_one(letter, scene.services, scene.clock)
        scene.wait(1)
    assert scene.head.failing == 2


def test_a_lost_answer_of_the_note_is_counted_once() -> None:
    scene = a_death()
    undertaker = scene.process(Faults().at("note", after=fails, times=None))
    bury_all(undertaker, scene.clock)
    assert (scene.head.failing, len(scene.memory.dead)) == (2, 1)
    scene.wait(361)
    scene.bury()
    assert (scene.head.failing, len(scene.memory.dead)) == (2, 0)


def test_a_head_that_never_rests_leaves_the_letter() -> None:
    scene, counter = a_death(), count()
    busy = Faults().at(
        "note", before=lambda: scene.scheduler.update_schedule("s", payload={"at": next(counter)}), times=None
    )
    (letter,) = scene.services.dead.receive(most=10, wait=0)
    with pytest.raises(Unavailable):
        bury_one(letter, scene.process(busy), scene.clock)
    assert scene.head.failing == 1
    bury_one(letter, scene.services, scene.clock)
    assert scene.head.failing == 2


def test_the_revision_an_owner_changed_meanwhile_is_no_conflict_of_theirs() -> None:
    """That a run failed moves the head, not the revision that an owner goes by."""
    scene = a_death()
    seen = scene.now_is.revision
    scene.bury()
    assert scene.scheduler.update_schedule("s", payload={"n": 1}, expected_revision=seen).revision == seen + 1
    with pytest.raises(Conflict):
        scene.scheduler.update_schedule("s", payload={"n": 2}, expected_revision=seen)


def test_a_failure_is_told_before_its_recovery_though_that_was_reported_for_an_earlier_moment() -> None:
    scene = Scene()
    scene.schedule()
    scene.tick()
    scene.wait(65)
    scene.work()
    scene.bury()
    (notice,) = scene.entries(EntryKind.NOTICE)
    scene.broken = False
    scene.wait(5)
    scene.scheduler.trigger("s")
    scene.work()
    report = min(scene.entries(EntryKind.EXPECT), key=lambda entry: entry.due)
    assert report.due < notice.due
    scene.tick()
    assert scene.kinds == ["failure", "recovery"]
