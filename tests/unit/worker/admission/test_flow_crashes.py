"""Every write of a submitter, workers and a ticker that meet at a key of a flow, and the process that makes it dies there."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from quarterjack import Context, Flow, Rule
from quarterjack.domain.policies.flow import OnFullWord
from quarterjack.domain.run import EntryKind, RunState
from quarterjack.testing import Detail

from tests.support.histories.crash_points import Scenario, Scene, at_writes, pairs
from tests.support.parts import in_parts

PARTS = 3  # `make test` plays one, `make check` all
Step = Callable[[Scene], object]


def submits(flow: Flow) -> Step:
    """The first of three runs takes its time; the others come, and their workers, while it goes."""

    def step(scene: Scene) -> None:
        scene.during = lambda ctx: _others_come(scene, ctx, flow)
        _watch(scene)
        _submit(scene, flow)

    return step


def fires(flow: Flow) -> Step:
    """Three fires of a schedule, ten seconds apart."""

    def step(scene: Scene) -> None:
        rule = Rule(expression="rate(10 seconds)", max_fires=3)
        scene.during = lambda ctx: _time_passes(scene, ctx)
        _watch(scene)
        scene.world.scheduler.create_schedule("s", "note", rule, flow=flow)
        scene.world.wait(10)

    return step


def _submit(scene: Scene, flow: Flow) -> None:
    scene.owner().submit("note", {"n": len(scene.world.memory.runs(None))}, flow=flow)


def _others_come(scene: Scene, ctx: Context, flow: Flow) -> None:
    if ctx.attempt == 1 and len(scene.seen.starts) == 1:
        for _ in range(2):
            scene.world.wait(1)
            scene.process(lambda scene: _submit(scene, flow))
            scene.process(Scene.work)
        scene.process(Scene.tick)


def _time_passes(scene: Scene, ctx: Context) -> None:
    if ctx.attempt == 1 and len(scene.seen.starts) == 1:
        for _ in range(2):
            scene.world.wait(10)
            scene.process(Scene.work)
        scene.process(Scene.tick)


def _watch(scene: Scene) -> None:
    """After each call: at no time do two runs hold a lease."""
    after = scene.plan.after_call

    def look(operation: str, detail: Detail) -> None:
        going = [run for run in scene.world.memory.runs(None) if run.state is RunState.RUNNING]
        if sum((run.lease_until or 0) >= scene.world.clock() for run in going) > 1:
            together.append(f"{detail.verb}: {[str(run.ref) for run in going]}")
        after(operation, detail)

    together: list[str] = []
    vars(scene)["together"] = together
    vars(scene.plan)["after_call"] = look


def one_at_a_time(scene: Scene) -> list[str]:
    entries = [e for e in scene.world.memory.entries() if isinstance(e.shard, str) or e.kind is EntryKind.QUEUE]
    return [*vars(scene)["together"], *(f"left behind: {entry.key}" for entry in entries)]


def flow(on_full: OnFullWord = "wait") -> Flow:
    return Flow(at_a_time=1, strict=True, on_full=on_full)


SCENARIOS = [
    Scenario("submissions", [submits(flow()), Scene.work, Scene.tick, Scene.work], one_at_a_time),
    Scenario(
        "submissions, the newest", [submits(flow("keep_newest")), Scene.work, Scene.tick, Scene.work], one_at_a_time
    ),
    Scenario(
        "submissions, no new ones", [submits(flow("skip_new")), Scene.work, Scene.tick, Scene.work], one_at_a_time
    ),
    Scenario("fires", [fires(flow()), Scene.work, Scene.tick, Scene.work], one_at_a_time),
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
