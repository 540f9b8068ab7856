"""Every call on the way of an incident, with the process that makes it dying before or after it: nothing is lost, nothing counted twice."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from quarterjack import Context, Retry, Rule
from quarterjack.domain.notice import OF_ONE_RUN
from quarterjack.domain.run import EntryKind, RunState
from quarterjack.domain.schedule import ScheduleState
from quarterjack.errors import Permanent

from tests.support.histories.crash_points import Scenario, Scene, at_writes, pairs
from tests.support.parts import in_parts
from tests.support.scenes.incident_verifier import counted, in_a_row, told_wrongly
from tests.support.scenes.incidents import CALM, TOPIC
from tests.support.scenes.world import NOON, OWNER

Step = Callable[[Scene], object]

PERIOD = 20  # seconds
HOURS = 3 * 3600  # in which those who look again have looked


def create(*, fires: int | None, broken: int, expression: str = f"rate({PERIOD} seconds)", **options: object) -> Step:
    """A schedule of so many fires, of which the first ones fail for good."""

    def step(scene: Scene) -> None:
        @scene.world.jobs.job("flaky", retry=Retry(max_attempts=1))
        def flaky(ctx: Context, payload: object) -> None:
            scene.world.note(ctx, payload)
            if scene.world.clock() < NOON + (broken + 1) * PERIOD * 1_000 - 1:
                raise Permanent("no")

        rule = Rule(expression=expression, max_fires=fires)
        scene.world.scheduler.create_schedule("s", "flaky", rule, on_failure=TOPIC, on_recovery=CALM, **options)  # type: ignore[arg-type]

    return step


def period(scene: Scene) -> None:
    scene.world.wait(PERIOD)


def work(scene: Scene) -> None:
    scene.work()


def undertake(scene: Scene) -> None:
    scene.undertake()


def minute(scene: Scene) -> None:
    scene.world.wait(60)
    scene.tick()


def silent(scene: Scene) -> None:
    scene.world.wait(90)
    scene.tick()


def settled(scene: Scene) -> list[str]:
    """The head says what the ledger says, and its owner was told so."""
    world = scene.world
    world.live(HOURS)
    (head,) = world.memory.heads()
    found = list(told_wrongly(world.memory, [OWNER], world.clock()))
    row = in_a_row(counted(world.memory, OWNER))
    if head.failing != row:
        found.append(f"{row} in a row failed, and the head says {head.failing}")
    if (head.incident is None) != (row == 0):
        found.append(f"{row} in a row failed, and the incident is {head.incident}")
    return found


def paused_after_two(scene: Scene) -> list[str]:
    found = settled(scene)
    (head,) = scene.world.memory.heads()
    rows = [run.state for run in counted(scene.world.memory, OWNER)]
    if head.state is not ScheduleState.PAUSED or not (head.reason or "").startswith("paused by itself: 2 in a row"):
        found.append(f"it is {head.state}: {head.reason}, after {rows}")
    unstarted = [run.ref.key for run in scene.world.memory.runs(OWNER) if run.state is RunState.QUEUED]
    return [*found, *(f"still waits: {key}" for key in unstarted)]


def told_of_silence(scene: Scene) -> list[str]:
    found = list(told_wrongly(scene.world.memory, [OWNER], scene.world.clock()))
    kinds = {str(published.notice.kind) for published in scene.world.memory.published}
    return found if kinds == {"no_success"} else [*found, f"told: {kinds}"]


def told_of_the_late(scene: Scene) -> list[str]:
    """The one run was told to be overdue, and to have ended, each as one notice; if ticks crashed before, it may have ended first."""
    world = scene.world
    world.live(HOURS)
    found = list(told_wrongly(world.memory, [OWNER], world.clock()))
    notices = [published.notice for published in world.memory.published]
    tokens = {(str(notice.kind), notice.token) for notice in notices if notice.kind in OF_ONE_RUN}
    if sorted(kind for kind, _ in tokens) != ["overdue", "overdue_ended"] and (tokens or not scene.plan.crashed):
        found.append(f"told: {tokens}")
    left = [entry.key for entry in world.entries(EntryKind.OVERDUE)]
    return [*found, *(f"left behind: {key}" for key in left)]


FAILS = [period, work, undertake]
PARTS = 4  # `make test` plays one, `make check` all

SCENARIOS = [
    Scenario(
        "fails, then works", [create(fires=3, broken=2), *FAILS, *FAILS, minute, period, work, minute, minute], settled
    ),
    Scenario(
        "is paused",
        [create(fires=None, broken=10**6, pause_on_failure=2), *FAILS, *FAILS, minute, minute],
        paused_after_two,
    ),
    Scenario("is heard of late", [create(fires=2, broken=1), period, work, period, work, undertake, minute], settled),
    Scenario(
        "is silent",
        [create(fires=1, broken=0, expression="rate(10 days)", expect_success_within=60), silent, minute],
        told_of_silence,
    ),
    Scenario(
        "is overdue",
        [create(fires=1, broken=0, expression="rate(60 seconds)", must_end_by=60), *[minute] * 4, work, *[minute] * 3],
        told_of_the_late,
    ),
]


@in_parts(PARTS)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_every_single_crash_at_a_write(scenario: Scenario, part: int) -> None:
    points = list(at_writes(scenario))
    assert len(points) > 10
    assert scenario.verdict(()) == []
    assert [text for point in points[part::PARTS] for text in scenario.verdict(point)] == []


@in_parts(PARTS)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_pairs_of_crashes(scenario: Scenario, part: int) -> None:
    assert [text for pair in pairs(scenario, 60)[part::PARTS] for text in scenario.verdict(pair)] == []
