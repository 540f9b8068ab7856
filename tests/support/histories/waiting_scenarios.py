"""The named scenarios of jobs that wait: sleeps, signals and children, with every call a crash point."""

from __future__ import annotations

from quarterjack import Context, Retry
from quarterjack.errors import ChildFailed, Permanent, WaitTimedOut
from quarterjack.testing.process import Hand

from tests.support.histories.crash_points import Scenario, Scene
from tests.support.histories.scenarios import Step, cancel, in_the_middle, submit, tick, wait, work

_RUN = "acme/~only#once"
_PATIENCE = 600  # seconds of the wait for a signal
_AT_A_TIME, _ITEMS = 2, 5  # of a map


def waiting_jobs(scene: Scene) -> None:
    """Jobs that wait. Each says that it began, as often as it is called."""
    jobs, note = scene.world.jobs, scene.world.note
    often = Retry(max_attempts=20, base=1.0)

    @jobs.job("asks", retry=often)
    def asks(ctx: Context, payload: object) -> object:
        note(ctx, payload)
        ctx.step("charge", lambda: _count(scene, ctx, "charge"))
        try:
            return ctx.wait_for("go", timeout=_PATIENCE)
        except WaitTimedOut:
            return "late"

    @jobs.job("parent", retry=often)
    def parent(ctx: Context, payload: object) -> object:
        note(ctx, payload)
        children = [ctx.submit("note", number, step=f"c{number}") for number in range(2)]
        ctx.step("between", lambda: _count(scene, ctx, "between"))
        return len(ctx.gather(children))

    @jobs.job("item", retry=often)
    def item(ctx: Context, payload: object) -> object:
        note(ctx, payload)
        alive = [run for run in scene.world.memory.runs() if run.parent == _RUN and not run.is_terminal]
        scene.unfinished = max(scene.unfinished, len(alive))
        if payload == "bad":
            raise Permanent("as it was told")
        return payload

    @jobs.job("mapper", retry=often)
    def mapper(ctx: Context, payload: object) -> object:
        note(ctx, payload)
        return [*ctx.map("item", range(_ITEMS), at_a_time=_AT_A_TIME)]

    @jobs.job("fails", retry=often)
    def fails(ctx: Context, payload: object) -> object:
        note(ctx, payload)
        try:
            return [*ctx.map("item", [1, "bad", 3, 4, 5], at_a_time=_AT_A_TIME)]
        except ChildFailed as problem:
            return problem.step

    @jobs.job("sleeps", retry=often)
    def sleeps(ctx: Context, payload: object) -> object:
        note(ctx, payload)
        began = ctx.step("began", scene.world.clock)
        ctx.sleep(30)
        ctx.sleep(1_200)
        return scene.world.clock() - began >= 1_230_000


def _count(scene: Scene, ctx: Context, name: str) -> bool:
    scene.seen.effects[f"{ctx.idempotency_key}/{name}"] += 1
    return True


def signal(payload: object) -> Step:
    def step(scene: Scene) -> None:
        receipt = scene.owner().signal(_RUN, "go", payload)
        scene.told = receipt.payload if receipt.outcome != "timed-out" else "late"

    return step


def answered_as_told(scene: Scene) -> list[str]:
    """Job and sender have the same answer; the run has ended."""
    runs = {str(run.ref): run for run in scene.world.memory.runs()}
    run = runs.get(_RUN)
    if run is None:
        return ["nowhere"] if scene.seen.submitted else []
    if run.state != "SUCCEEDED":
        return [f"it is {run.state}: {run.reason}"]
    if scene.told is not None and run.result != f'"{scene.told}"':
        return [f"the sender was told {scene.told}, the job {run.result}"]
    return [] if run.result in ('"yes"', '"no"', '"late"') else [f"result {run.result}"]


def gathered(scene: Scene) -> list[str]:
    """The parent has the results of both, each of which ran once for it."""
    runs = {str(run.ref): run for run in scene.world.memory.runs()}
    children = [run for run in runs.values() if run.parent == _RUN]
    run = runs.get(_RUN)
    if run is None:
        return ["nowhere"] if scene.seen.submitted else []
    alive = [f"{child.ref} is {child.state}" for child in children if not child.is_terminal]
    if run.state == "CANCELLED":
        return alive
    return alive + (
        [] if (run.state, run.result, len(children)) == ("SUCCEEDED", "2", 2) else [f"{run.state} {run.result}"]
    )


def mapped(scene: Scene) -> list[str]:
    """The parent has the result of each item, of which at most two were unfinished at a time."""
    runs = {str(run.ref): run for run in scene.world.memory.runs()}
    items, run = [run for run in runs.values() if run.parent == _RUN], runs.get(_RUN)
    if run is None:
        return ["nowhere"] if scene.seen.submitted else []
    found = [f"{item.ref} is {item.state}" for item in items if not item.is_terminal]
    if scene.unfinished > _AT_A_TIME:
        found.append(f"{scene.unfinished} at a time")
    if run.state != "CANCELLED" and (run.state, run.result, len(items)) != ("SUCCEEDED", "[0,1,2,3,4]", _ITEMS):
        found.append(f"{run.state} {run.result} of {len(items)}")
    return found


def stopped(scene: Scene) -> list[str]:
    """The first item that failed is raised; the last items did not start, unless its worker died and they were faster."""
    found = {str(run.ref): run for run in scene.world.memory.runs()}
    items, run = [each for each in found.values() if each.parent == _RUN], found.get(_RUN)
    if run is None:
        return ["nowhere"] if scene.seen.submitted else []
    alive = [f"{item.ref} is {item.state}" for item in items if not item.is_terminal]
    is_so = (run.state, run.result) == ("SUCCEEDED", '"item[1]"') and (scene.plan.crashed or len(items) < _ITEMS)
    return alive + ([] if is_so else [f"{run.state} {run.result} of {len(items)}"])


def slept(scene: Scene) -> list[str]:
    """It slept as long as it asked for."""
    found = [run for run in scene.world.memory.runs() if run.job == "sleeps"]
    return [f"{run.state} {run.result}" for run in found if (run.state, run.result) != ("SUCCEEDED", "true")]


def one_message(scene: Scene) -> None:
    """A worker takes one message, and what that brings stays for others."""
    Hand(worker=scene.world.worker(scene.plan)).work(most=1)


WAITING_SCENARIOS = (
    Scenario("a signal", [waiting_jobs, submit("asks"), work, signal("yes"), work], answered_as_told),
    Scenario(
        "a signal before its wait",
        [waiting_jobs, submit("asks", delay=20.0), signal("yes"), wait(21), work],
        answered_as_told,
    ),
    Scenario(
        "a signal while it parks",
        [waiting_jobs, submit("asks"), in_the_middle("park", signal("yes")), work, work],
        answered_as_told,
    ),
    Scenario("two signals", [waiting_jobs, submit("asks"), work, signal("yes"), signal("no"), work], answered_as_told),
    Scenario(
        "a signal at its timeout",
        [
            waiting_jobs,
            submit("asks"),
            work,
            wait(450),
            tick,
            wait(151),
            in_the_middle("put_signal", signal("yes")),
            work,
            work,
        ],
        answered_as_told,
    ),
    Scenario("two children", [waiting_jobs, submit("parent"), work, work, work, wait(2), work], gathered),
    Scenario(
        "a child ends while its parent parks",
        [waiting_jobs, submit("parent"), in_the_middle("park", work), work, work, work],
        gathered,
    ),
    Scenario("cancel a parked parent", [waiting_jobs, submit("parent"), work, cancel, work, work], gathered),
    Scenario("a map", [waiting_jobs, submit("mapper"), work, wait(2), work], mapped),
    Scenario(
        "two items end at the same time",
        [waiting_jobs, submit("mapper"), in_the_middle("mark_ended", work), work, work],
        mapped,
    ),
    Scenario(
        "an item ends while another's process lets the next in",
        [waiting_jobs, submit("mapper"), one_message, in_the_middle("write_record", work), work, work],
        mapped,
    ),
    Scenario("an item of a map fails", [waiting_jobs, submit("fails"), work, work], stopped),
    Scenario("cancel a map", [waiting_jobs, submit("mapper"), one_message, one_message, cancel, work], mapped),
    Scenario(
        "cancel a map while an item ends",
        [waiting_jobs, submit("mapper"), one_message, in_the_middle("claim", cancel), work, work],
        mapped,
    ),
    Scenario(
        "two sleeps", [waiting_jobs, submit("sleeps"), work, wait(31), work, wait(1_100), tick, wait(110), work], slept
    ),
)
