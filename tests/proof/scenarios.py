"""The named scenarios whose every call is a crash point."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minutehand import Context, Retry
from minutehand.errors import Continue

from tests.proof.checker import Stop
from tests.proof.crash_points import Scenario, Scene
from tests.unit.flow.world import OWNER, at

Step = Callable[[Scene], object]


def create(expression: str = "rate(20 seconds)", job: str = "note", name: str = "s") -> Step:
    def step(scene: Scene) -> None:
        scene.owner().create_schedule(name, job, expression)

    return step


def wait(seconds: float) -> Step:
    return lambda scene: scene.world.wait(seconds)


def tick(scene: Scene) -> None:
    scene.tick()


def second_tick(scene: Scene) -> None:
    scene.tick("another ticker")


def work(scene: Scene) -> None:
    scene.work()


def undertake(scene: Scene) -> None:
    scene.undertake()


def pause(scene: Scene) -> None:
    stopped = scene.owner().pause_schedule("s")
    scene.seen.stops.append(Stop(what=OWNER, at=scene.world.clock(), revision=stopped.revision))


def resume(scene: Scene) -> None:
    scene.owner().resume_schedule("s")


def delete(scene: Scene) -> None:
    revision = scene.owner().get_schedule("s").revision
    scene.owner().delete_schedule("s")
    scene.seen.stops.append(Stop(what=OWNER, at=scene.world.clock(), revision=revision))


def update(expression: str) -> Step:
    return lambda scene: scene.owner().update_schedule("s", expression=expression)


def thirty_schedules(scene: Scene) -> None:
    for number in range(30):
        scene.world.owner().create_schedule(f"s{number}", "note", "* * * * *")


def submit(job: str, **options: Any) -> Step:
    def step(scene: Scene) -> None:
        run = scene.owner().submit(job, idempotency_key="only", **options)
        scene.seen.submitted[run.id] = int(run.due.timestamp() * 1_000)

    return step


def cancel(scene: Scene) -> None:
    run = scene.owner().cancel_run("acme/~only#once")
    scene.seen.stops.append(Stop(what=run.id, at=scene.world.clock()))


def _in_the_middle(verb: str, action: Step) -> Step:
    """Somebody else acts before the first call of that verb in the next step."""

    def step(scene: Scene) -> None:
        scene.plan.meanwhile[verb] = lambda: scene.process(action)

    return step


def jobs_with_effects(scene: Scene) -> None:
    """A job of two steps with a checkpoint between two slices, whose keyed effect happens in its first step."""

    @scene.world.jobs.job("steps", retry=Retry(max_attempts=20, base=1.0))
    def steps(ctx: Context, payload: object) -> None:
        scene.world.note(ctx, payload)
        if ctx.resume is None:
            ctx.step("charge", lambda: _effect(scene, ctx, "charge"))
            ctx.checkpoint({"charged": True})
            raise Continue
        ctx.step("mail", lambda: _effect(scene, ctx, "mail"))


def _effect(scene: Scene, ctx: Context, name: str) -> bool:
    scene.seen.effects[f"{ctx.idempotency_key}/{name}"] += 1
    return True


def steps_were_taken(scene: Scene) -> list[str]:
    """Both effects happened; a step is repeated only by a crash between the effect and its record."""
    return [
        f"step {name} was taken {count} times"
        for name in ("charge", "mail")
        if (count := scene.seen.effects[f"acme/~only#once/{name}"]) != 1
        and (scene.seen.submitted or count)
        and not (count == 2 and any("TransactWriteItems runs.keep" in c for c in scene.plan.crashed))
    ]


def redrive_all(scene: Scene) -> None:
    scene.owner().redrive()


def died_twice_at_most(scene: Scene) -> list[str]:
    """The dead run and at most one that repeats it."""
    runs = [run for run in scene.world.memory.runs() if run.job == "bad"]
    return [] if len(runs) <= 2 else [f"{len(runs)} runs where a redrive may make one"]


SCENARIOS = (
    Scenario("create near-due", [create("rate(5 seconds)"), work, wait(5), work, wait(6), work]),
    Scenario("tick with 30 fires", [thirty_schedules, wait(50), tick, wait(11), work]),
    Scenario("two tickers", [create(), wait(45), tick, second_tick, wait(20), work]),
    Scenario(
        "update during a tick",
        [create(), wait(60), _in_the_middle("send", update("rate(30 seconds)")), tick, wait(10), work],
    ),
    Scenario("update of a worked-off schedule", [create(), wait(25), work, update("rate(7 seconds)"), tick, work]),
    Scenario("pause during publish", [create(), wait(60), _in_the_middle("send", pause), tick, wait(30), work]),
    Scenario("pause and resume", [create(), wait(25), work, pause, wait(70), work, resume, tick, wait(30), work]),
    Scenario(
        "delete under a worker", [create(), wait(20), _in_the_middle("lease", delete), work, tick, wait(30), work]
    ),
    Scenario("submit now", [submit("note"), work]),
    Scenario("submit far ahead", [submit("note", delay=700.0), wait(600), tick, wait(100), work]),
    Scenario("retry", [submit("bad"), work, wait(11), work, wait(25), work, undertake]),
    Scenario("at most once", [submit("once"), work, wait(90), tick]),
    Scenario("steps and slices", [jobs_with_effects, submit("steps"), work, work, wait(2), work], steps_were_taken),
    Scenario("cancel before the start", [submit("note", delay=30.0), cancel, wait(31), work]),
    Scenario("cancel a retrying run", [submit("bad"), work, cancel, wait(40), work, undertake]),
    Scenario(
        "redrive",
        [submit("bad"), work, wait(11), work, wait(25), work, undertake, redrive_all, redrive_all, work],
        died_twice_at_most,
    ),
    Scenario("dense chain", [create("rate(7 seconds)"), wait(60), tick, wait(60), tick, work, wait(120), tick, work]),
    Scenario("last fire", [create(f"at({at(40).isoformat()[:19]})"), wait(10), tick, wait(31), work, tick]),
)
