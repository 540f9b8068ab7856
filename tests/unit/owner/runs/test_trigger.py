"""Trigger: a run of a schedule now, by its owner's hand, beside all fires."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from quarterjack import Context, Retry
from quarterjack.domain.message import INLINE_PAYLOAD
from quarterjack.domain.run import EntryKind, RunState
from quarterjack.domain.times import DAY, MINUTE, SECOND
from quarterjack.errors import AlreadyExists, InvalidInput, NotFound
from quarterjack.owner.runs.submit import ORPHAN_PATIENCE
from quarterjack.sdk.session import over
from quarterjack.testing import Crash

from tests.support.scenes.backfills import At
from tests.support.scenes.world import NOON, Faults, World, at, crash

SIZES = {"small": 1, "beside its row": 2_000, "in the bucket": INLINE_PAYLOAD}


class Scene(World):
    """A world with a schedule whose job keeps what it is given."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.given: list[tuple[str, Any, int]] = []
        self.jobs.job("echo", retry=Retry(max_attempts=2, base=1_200.0, jitter=0.0))(self._echo)
        self.fail = 0
        self.scheduler.create_schedule("s", "echo", "0 13 * * *", timezone="Europe/Paris", payload={"of": "schedule"})

    def _echo(self, ctx: Context, payload: Any) -> None:
        self.note(ctx, payload)
        self.given.append((ctx.run_id, payload, int(ctx.scheduled_at.timestamp() * SECOND)))
        if self.fail:
            self.fail -= 1
            raise ValueError("boom")

    def payloads(self) -> list[Any]:
        return [payload for _, payload, _ in self.given]


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_it_runs_now_with_the_schedules_own_definition(scene: Scene) -> None:
    run = scene.scheduler.trigger("s")
    scene.work()
    assert scene.given == [(run.id, {"of": "schedule"}, NOON)]
    ended = scene.scheduler.get_run(run.id)
    assert (ended.state, ended.schedule, ended.revision, ended.due) == (RunState.SUCCEEDED, "s", 1, at(0))
    assert scene.entries(EntryKind.RUN) == []


def test_it_collides_with_no_fire_of_its_instant(scene: Scene) -> None:
    scene.scheduler.create_schedule("minutely", "echo", "* * * * *", payload="fire")
    scene.live(60)
    scene.scheduler.trigger("minutely", payload="hand")
    scene.scheduler.trigger("minutely", payload="other hand")
    scene.live(60)
    assert sorted(scene.payloads()) == ["fire", "fire", "hand", "other hand"]
    listed = scene.scheduler.list_runs("minutely", after=at(0), before=at(60)).items
    assert [run.state for run in listed] == [RunState.SUCCEEDED] * 3


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_its_own_payload_reaches_the_job_at_every_attempt_and_its_replay(scene: Scene, size: int) -> None:
    own = {"text": "x" * size}
    scene.fail = 2
    run = scene.scheduler.trigger("s", payload=own)
    assert scene.scheduler.get_run(run.id).payload == own
    scene.live(1_260)  # the second attempt waits in the agenda: beyond the queue's reach
    assert scene.scheduler.get_run(run.id).state is RunState.DEAD
    again = scene.scheduler.replay_run(run.id)
    redriven = scene.scheduler.redrive(run.id).runs[0]
    scene.work()
    assert scene.payloads() == [own] * 4
    assert {at for *_, at in scene.given} == {NOON}
    assert again.replay_of == run.id
    assert redriven.redriven_as not in (None, again.id)


def test_a_payload_that_says_null_is_its_own(scene: Scene) -> None:
    scene.scheduler.trigger("s", payload=None)
    scene.work()
    assert scene.payloads() == [None]


@pytest.mark.parametrize("state", ["PAUSED", "COMPLETED"])
def test_a_schedule_without_fires_to_come_can_be_triggered(scene: Scene, state: str) -> None:
    if state == "PAUSED":
        scene.scheduler.pause_schedule("s")
    else:
        scene.scheduler.update_schedule("s", expression="at(2026-05-04T12:00:01Z)")
        scene.live(120)
    assert scene.scheduler.get_schedule("s").state == state
    scene.given.clear()
    scene.wait(1)
    run = scene.scheduler.trigger("s")
    scene.work()
    assert [which for which, *_ in scene.given] == [run.id]


def test_a_pause_that_comes_later_takes_it_back_also_from_a_paused_schedule(scene: Scene) -> None:
    first = scene.scheduler.trigger("s")
    scene.scheduler.pause_schedule("s")
    second = scene.scheduler.trigger("s")
    scene.scheduler.pause_schedule("s")
    scene.live(120)
    assert scene.given == []
    states = [scene.scheduler.get_run(run.id).state for run in (first, second)]
    assert states == [RunState.CANCELLED] * 2


def test_an_update_leaves_it_alone_even_if_its_clock_was_ahead(scene: Scene) -> None:
    owner = scene.owner()
    ahead = over(owner, replace(owner.session, clock=lambda: scene.clock() + 8 * SECOND))
    run = ahead.trigger("s")
    scene.scheduler.update_schedule("s", payload={"of": "another"}, expression="0 14 * * *")
    scene.live(60)
    assert scene.given == [(run.id, {"of": "schedule"}, NOON + 8 * SECOND)]


def test_an_update_of_a_paused_schedule_leaves_it_alone(scene: Scene) -> None:
    scene.scheduler.pause_schedule("s")
    run = scene.scheduler.trigger("s")
    scene.wait(1)
    scene.scheduler.update_schedule("s", expression="0 14 * * *")
    scene.work()
    assert [which for which, *_ in scene.given] == [run.id]


def test_the_end_of_an_updated_chain_sweeps_no_trigger(scene: Scene) -> None:
    scene.scheduler.create_schedule("t", "echo", "* * * * *", payload="fire")
    scene.scheduler.pause_schedule("t")
    run = scene.scheduler.trigger("t", payload="hand")
    scene.wait(1)
    scene.tick()  # the closed chain's last entry goes, and its end is swept
    scene.work()
    assert [which for which, *_ in scene.given] == [run.id]


@pytest.mark.parametrize("drain", [False, True])
def test_a_delete_takes_it_back_unless_it_drains(scene: Scene, drain: bool) -> None:
    run = scene.scheduler.trigger("s")
    scene.scheduler.delete_schedule("s", drain=drain)
    scene.live(60)
    assert [which for which, *_ in scene.given] == ([run.id] if drain else [])


def test_a_deleted_or_unknown_schedule_is_not_triggered(scene: Scene) -> None:
    scene.scheduler.delete_schedule("s")
    for name in ("s", "never"):
        with pytest.raises(NotFound, match="no schedule of that name"):
            scene.scheduler.trigger(name)
    with pytest.raises(InvalidInput, match="idempotency_key"):
        scene.scheduler.trigger("s", idempotency_key="no spaces")


def calls_of_a_trigger(**options: Any) -> int:
    faults = Faults()
    Scene().owner(faults).trigger("s", **options)
    return len(faults.calls)


@pytest.mark.parametrize("paused", [False, True])
@pytest.mark.parametrize("before", [True, False])
def test_nothing_starts_after_a_delete_had_returned_wherever_it_met_the_trigger(*, paused: bool, before: bool) -> None:
    for number in range(1, calls_of_a_trigger(payload="hand") + 1):
        scene = Scene()
        if paused:
            scene.scheduler.pause_schedule("s")
        hook = At(number, partial(scene.scheduler.delete_schedule, "s"), before=before)
        try:
            scene.owner(hook).trigger("s", payload="hand")
        except NotFound:
            assert number == 1
        scene.live(900)
        assert scene.given == [], f"call {number}"


@pytest.mark.parametrize("before", [True, False])
def test_dying_at_any_call_leaves_a_run_that_runs_once_or_none(*, before: bool) -> None:
    seen = set()
    for number in range(1, calls_of_a_trigger(payload="hand") + 1):
        scene = Scene()
        with pytest.raises(Crash):
            scene.owner(At(number, crash, before=before)).trigger("s", payload="hand")
        scene.live(ORPHAN_PATIENCE // SECOND + 60)
        assert scene.payloads() == ["hand"] * len(scene.memory.runs("acme/s")), f"call {number}"
        assert scene.entries(EntryKind.RUN) == [], f"call {number}"
        seen.add(len(scene.given))
    assert seen == {0, 1}


@pytest.mark.parametrize("before", [True, False])
def test_a_call_repeated_with_its_key_has_the_same_run_wherever_the_first_died(*, before: bool) -> None:
    options: dict[str, Any] = {"payload": "x" * 500, "idempotency_key": "job-7"}
    for number in range(1, calls_of_a_trigger(**options) + 1):
        scene = Scene()
        with pytest.raises(Crash):
            scene.owner(At(number, crash, before=before)).trigger("s", **options)
        scene.live(120)
        again = scene.scheduler.trigger("s", **options)
        scene.live(120)
        assert [run for run, *_ in scene.given] == [again.id], f"call {number}"


def test_a_key_stands_for_its_run_as_long_as_the_ledger_keeps_it(scene: Scene) -> None:
    first = scene.scheduler.trigger("s", idempotency_key="k")
    scene.live(60)
    scene.scheduler.update_schedule("s", job="note")
    assert scene.scheduler.trigger("s", idempotency_key="k").id == first.id
    with pytest.raises(AlreadyExists, match="another payload"):
        scene.scheduler.trigger("s", payload=1, idempotency_key="k")
    assert scene.scheduler.trigger("s", idempotency_key="other").id != first.id
    scene.wait(91 * DAY / SECOND)
    assert scene.scheduler.trigger("s", idempotency_key="k").id != first.id


def test_two_callers_with_one_key_at_the_same_time_have_one_run(scene: Scene) -> None:
    runs = []

    def other() -> None:
        scene.wait(1)
        runs.append(scene.scheduler.trigger("s", idempotency_key="k"))

    hook = Faults().at("write_record", before=other)
    runs.append(scene.owner(hook).trigger("s", idempotency_key="k"))
    scene.live(60)
    assert {run.id for run in runs} == {run for run, *_ in scene.given}
    assert len(scene.given) == 1


def test_a_trigger_says_nothing_about_the_fires_before_it_to_the_auditor(scene: Scene) -> None:
    scene.scheduler.create_schedule("t", "echo", "* * * * *", payload="fire")
    lost = next(entry for entry in scene.entries(EntryKind.CHAIN) if entry.id.startswith("acme/t"))
    scene.services.agenda.remove([lost])
    scene.wait(1_200)
    scene.scheduler.trigger("t", payload="hand")
    scene.audit()
    scene.live(60)
    claimed = {run.due for run in scene.memory.runs("acme/t") if run.ref.is_fire}
    assert set(range(NOON + MINUTE, NOON + 21 * MINUTE, MINUTE)) <= claimed
