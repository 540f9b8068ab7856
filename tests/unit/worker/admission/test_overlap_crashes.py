"""Every call of two workers and a ticker that meet at a turns, with the process that makes it dying before or after it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from quarterjack import Context, Rule
from quarterjack.domain.options import OverlapWord
from quarterjack.domain.run import EntryKind, RunState
from quarterjack.testing import Detail

from tests.support.histories.crash_points import Plan, Scenario, Scene, at_writes, pairs
from tests.support.parts import in_parts
from tests.support.scenes.world import OWNER

PARTS = 3  # `make test` plays one, `make check` all
POLICIES: list[OverlapWord] = ["skip", "buffer_one", "buffer_all", "cancel_other", "terminate_other"]
Step = Callable[[Scene], object]


def create(policy: OverlapWord) -> Step:
    """Three fires, ten seconds apart; nobody works before the second is due. All calls are looked at from then on."""

    def step(scene: Scene) -> None:
        rule = Rule(expression="rate(10 seconds)", max_fires=3)
        scene.world.scheduler.create_schedule("s", "note", rule, overlap=policy)
        scene.during = lambda ctx: first_takes_its_time(scene, ctx)
        watch(scene)
        scene.world.wait(10)

    return step


def watch(scene: Scene) -> None:
    """After each call: at no time do two runs hold a lease."""
    after = scene.plan.after_call

    def look(operation: str, detail: Detail) -> None:
        going = [run for run in scene.world.memory.runs(OWNER) if run.state is RunState.RUNNING]
        if len(going) > 1:
            overlaps.append(f"{detail.verb}: {[run.ref.key for run in going]}")
        after(operation, detail)

    overlaps: list[str] = []
    vars(scene)["overlaps"] = overlaps
    vars(scene.plan)["after_call"] = look


def first_takes_its_time(scene: Scene, ctx: Context) -> None:
    """While the first run is under way, the second and the third become due, and other workers take them."""
    if ctx.attempt == 1 and len(scene.seen.starts) == 1:
        for _ in range(2):
            scene.world.wait(10)
            scene.process(Scene.work)
        scene.process(Scene.tick)


def nothing_overlapped(scene: Scene) -> list[str]:
    entries = scene.world.entries(EntryKind.TURN)
    left = [f"left behind: {entry.key}" for entry in entries]
    return [*vars(scene)["overlaps"], *left]


SCENARIOS = [
    Scenario(policy, [create(policy), Scene.work, Scene.tick, Scene.work], nothing_overlapped) for policy in POLICIES
]


@in_parts(PARTS)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_every_single_crash_at_a_write(scenario: Scenario, part: int) -> None:
    points = list(at_writes(scenario))
    assert len(points) >= 20
    assert [text for point in points[part::PARTS] for text in scenario.verdict(point)] == []


@in_parts(PARTS)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_pairs_of_crashes(scenario: Scenario, part: int) -> None:
    assert [text for pair in pairs(scenario, 40)[part::PARTS] for text in scenario.verdict(pair)] == []


def test_the_watch_sees_an_overlap() -> None:
    """As it would be without a policy."""
    scene = Scenario("allow", [create("allow"), Scene.work]).play()
    assert vars(scene)["overlaps"]
    assert isinstance(scene.plan, Plan)
