"""The named scenarios whose every call is a crash point."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quarterjack import Context, Retry
from quarterjack.domain.policies import Priority, StartWord
from quarterjack.errors import Continue
from quarterjack.testing import Crash

from tests.support.histories.checker import Stop
from tests.support.histories.crash_points import Scenario, Scene
from tests.support.scenes.world import OWNER, at

Step = Callable[[Scene], object]


def create(
    expression: str = "rate(20 seconds)",
    job: str = "note",
    name: str = "s",
    payload: object = None,
    start: StartWord = "prompt",
) -> Step:
    def step(scene: Scene) -> None:
        scene.owner().create_schedule(name, job, expression, payload=payload, start=start)

    return step


def what_fails_is_recorded(scene: Scene) -> list[str]:
    """A job that fails every time is DEAD in the end, whoever died on the way."""
    runs = {str(run.ref): run for run in scene.world.memory.runs()}
    began = {start.run_id for start in scene.seen.starts if start.at < scene.world.clock() - 120_000}
    return [f"{run_id} failed and is {runs[run_id].state}" for run_id in began if runs[run_id].state != "DEAD"]


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


def tell(payload: object) -> Step:
    """The owner changes what the job is given, from now on."""

    def step(scene: Scene) -> None:
        scene.told_at = scene.world.clock()
        scene.owner().update_schedule("s", payload=payload)
        scene.told = payload

    return step


def what_was_told_holds(scene: Scene) -> list[str]:
    """Once an update has returned, later fires have its payload."""
    starts = [s for s in scene.seen.starts if int(s.run_id.rpartition("#")[2]) > scene.told_at]
    return [
        f"stale: {s.run_id} was given {s.payload}" for s in starts if scene.told is not None and s.payload != scene.told
    ]


def late_update(scene: Scene) -> None:
    scene.owner().update_schedule("s", expression="rate(30 seconds)")


def failing_fires(scene: Scene) -> None:
    """Two schedules whose fires come in one batch; the runs of one fail."""
    for name, job in (("s", "note"), ("t", "bad")):
        scene.owner().create_schedule(name, job, "rate(15 seconds)")


def deadly_job(scene: Scene) -> None:
    """A job that kills its worker, as long as the scenario lasts."""

    @scene.world.jobs.job("deadly", retry=Retry(max_attempts=2, base=1.0, jitter=0.0))
    def deadly(ctx: Context, payload: object) -> None:
        scene.world.note(ctx, payload)
        if not scene.plan.off:
            raise Crash


def delivered_twice(scene: Scene) -> None:
    """SQS delivers at least once."""
    for stored in list(scene.world.memory.work):
        scene.world.memory.work.put(stored.body)


def while_it_runs(action: Step) -> Step:
    """The next job that runs is interrupted by this, once."""

    def step(scene: Scene) -> None:
        def interrupt(ctx: Context) -> None:
            scene.during = lambda ctx: None
            scene.process(action)

        scene.during = interrupt

    return step


def stalled_job(scene: Scene) -> None:
    """A job whose first worker is silent for longer than a lease, while another takes the run over, and which then fails."""

    @scene.world.jobs.job("stalled", retry=Retry(max_attempts=5, base=1.0))
    def stalled(ctx: Context, payload: object) -> str:
        scene.world.note(ctx, payload)
        scene.seen.excused.add(ctx.run_id)
        if ctx.attempt == 1 and not scene.plan.off:
            scene.world.wait(90)
            scene.process(work)
            raise RuntimeError("too late")
        return "fresh"


def the_fresh_result_stays(scene: Scene) -> list[str]:
    """A stale worker's write is refused: the run ends as its last lease ended it."""
    return [
        f"stale write: {run.ref} is {run.state} after fence {run.fence} with {run.result}"
        for run in scene.world.memory.runs()
        if run.result != '"fresh"' or run.attempt > len(scene.plan.crashed) + 2
    ]


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


def reschedule(seconds: float) -> Step:
    """Move the one-off to so long after the beginning."""

    def step(scene: Scene) -> None:
        run = scene.owner().reschedule("acme/~only#once", at=at(seconds))
        scene.seen.submitted[run.id] = int(run.due.timestamp() * 1_000)

    return step


def requeue(priority: Priority) -> Step:
    """The one-off waits in the lane of another priority from now on."""

    def step(scene: Scene) -> None:
        scene.owner().requeue("acme/~only#once", priority=priority)

    return step


def in_the_middle(verb: str, action: Step) -> Step:
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
        [create(), wait(60), in_the_middle("send", update("rate(30 seconds)")), tick, wait(10), work],
    ),
    Scenario("update of a worked-off schedule", [create(), wait(25), work, update("rate(7 seconds)"), tick, work]),
    Scenario("pause during publish", [create(), wait(60), in_the_middle("send", pause), tick, wait(30), work]),
    Scenario("pause and resume", [create(), wait(25), work, pause, wait(70), work, resume, tick, wait(30), work]),
    Scenario("delete under a worker", [create(), wait(20), in_the_middle("lease", delete), work, tick, wait(30), work]),
    Scenario(
        "pause under a batch",
        [create("rate(7 seconds)"), wait(40), in_the_middle("lease", pause), work, wait(30), work],
    ),
    Scenario("update under a batch", [create("rate(7 seconds)"), wait(40), in_the_middle("lease", late_update), work]),
    Scenario("held for its instant", [create("rate(7 seconds)", start="exact"), wait(41), work, wait(41), work]),
    Scenario(
        "pause of what is held",
        [create("rate(7 seconds)", start="exact"), wait(41), in_the_middle("lease", pause), work, wait(30), work],
    ),
    Scenario("a batch delivered twice", [create("rate(7 seconds)"), wait(40), delivered_twice, work, wait(80), work]),
    Scenario("a batch with a failing job", [failing_fires, wait(40), work, wait(40), work, wait(60), work, undertake]),
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
    Scenario(
        "another payload",
        [create(payload="old"), wait(61), tick, tell("new"), tick, wait(30), work, wait(60), work],
        what_was_told_holds,
    ),
    Scenario("a job that kills its worker", [deadly_job, submit("deadly"), work, wait(80), work, wait(80), work]),
    Scenario("two deliveries of a failing run", [submit("bad"), delivered_twice, work, work]),
    Scenario("two deliveries, at most once", [submit("once"), delivered_twice, work, wait(80), work]),
    Scenario("pause under a job", [create(), wait(25), while_it_runs(pause), work, wait(30), work]),
    Scenario(
        "update under a job", [create(), wait(25), while_it_runs(update("rate(30 seconds)")), work, wait(40), work]
    ),
    Scenario("a worker that stalls", [stalled_job, submit("stalled"), work, wait(30), work], the_fresh_result_stays),
    Scenario(
        "an earlier time", [submit("note", delay=700.0), reschedule(20), work, wait(21), work, wait(600), tick, work]
    ),
    Scenario("a later time", [submit("note", delay=20.0), reschedule(400), wait(21), work, wait(300), tick, work]),
    Scenario(
        "another priority",
        [submit("note", delay=20.0), requeue(Priority.LOW), wait(21), work, wait(300), tick, work],
    ),
    Scenario(
        "another priority under a worker and a ticker",
        [
            submit("note", delay=200.0),
            wait(30),
            in_the_middle("look", requeue(Priority.LOW)),
            tick,
            in_the_middle("lease", requeue(Priority.HIGH)),
            wait(171),
            work,
            tick,
            work,
        ],
    ),
    Scenario(
        "to and fro under a worker and a ticker",
        [
            submit("note", delay=200.0),
            wait(30),
            in_the_middle("look", reschedule(2_000)),
            tick,
            in_the_middle("lease", reschedule(150)),
            work,
            reschedule(200),
            tick,
            wait(171),
            work,
        ],
    ),
    Scenario("last fire", [create(f"at({at(40).isoformat()[:19]})"), wait(10), tick, wait(31), work, tick]),
)
