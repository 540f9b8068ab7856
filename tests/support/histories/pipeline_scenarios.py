"""The named scenarios of pipelines, with every call a crash point: each task starts once, by its join, and not after a cancellation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from quarterjack import Context, Retry
from quarterjack.domain.run import RunRow, RunState
from quarterjack.errors import Permanent
from quarterjack.fires.pipelines.rows import PipelineRow, read_pipeline
from quarterjack.state.pipelines.decide import task_ref
from quarterjack.testing.process import Hand

from tests.support.histories.crash_points import Scenario, Scene
from tests.support.histories.scenarios import Step, cancel, in_the_middle, submit, tick, wait, while_it_runs, work

Tasks = Mapping[str, Any]
_RUN, _AGAIN = "acme/~only#once", "acme/~again#once"
_OFTEN = Retry(max_attempts=20, base=1.0)
DIAMOND: Tasks = {
    "a": {"job": "good"},
    "b": {"job": "good", "after": ["a"]},
    "c": {"job": "good", "after": ["a"]},
    "d": {"job": "good", "after": ["b", "c"], "payload": "${b.state}"},
}
HALTS: Tasks = {
    "a": {"job": "good"},
    "b": {"job": "fails"},
    "c": {"job": "good", "after": ["a"]},
    "d": {"job": "good", "after": ["b"], "join": "done"},
}
CONTINUES: Tasks = {
    "a": {"job": "fails"},
    "b": {"job": "good", "after": ["a"]},
    "c": {"job": "good", "after": ["b"], "join": "done"},
    "d": {"job": "fails", "optional": True},
    "e": {"job": "good", "after": ["d"]},
}
CONDITIONS: Tasks = {
    "a": {"job": "good"},
    "b": {"job": "good", "after": ["a"], "when": 'a.state == "DEAD"'},
    "c": {"job": "good", "after": ["b"]},
    "d": {"job": "good", "after": ["b"], "join": "none_failed"},
}
CHAIN: Tasks = {"a": {"job": "good"}, "b": {"job": "good", "after": ["a"]}, "c": {"job": "good", "after": ["b"]}}
OUTER: Tasks = {"a": {"job": "good"}, "n": {"pipeline": "inner", "after": ["a"]}, "z": {"job": "good", "after": ["n"]}}
INNER: Tasks = {"i": {"job": "good"}, "j": {"job": "good", "after": ["i"]}}
LATER: Tasks = {"x": {"job": "good"}}


def published(tasks: Tasks, name: str = "p", **words: Any) -> Step:
    """A pipeline that is there before anybody may die, with the jobs of its tasks."""

    def step(scene: Scene) -> None:
        if "good" not in [each.name for each in scene.world.jobs]:
            _add_jobs(scene)
        scene.world.scheduler.upsert_schedule(name, f"pipeline:{name}", "manual", tasks=tasks, **words)

    return step


def _add_jobs(scene: Scene) -> None:
    jobs = scene.world.jobs

    @jobs.job("good", retry=_OFTEN)
    def good(ctx: Context, payload: object) -> str:
        _begin(scene, ctx, payload)
        return "done"

    @jobs.job("fails", retry=_OFTEN)
    def fails(ctx: Context, payload: object) -> None:
        _begin(scene, ctx, payload)
        if scene.told != "mended":
            raise Permanent("as it was told")

    @jobs.job("stumbles", retry=Retry(max_attempts=20, base=20.0, jitter=0.0))
    def stumbles(ctx: Context, payload: object) -> None:
        _begin(scene, ctx, payload)
        if ctx.attempt == 1:
            raise RuntimeError("not this time")


def _begin(scene: Scene, ctx: Context, payload: object) -> None:
    if scene.told == "cancelled":
        scene.wrong.append(f"{ctx.run_id} started after its cancellation had returned")
    scene.wrong += against_its_join(ctx.run_id, rows_of(scene), pipelines_of(scene))
    scene.world.note(ctx, payload)


# What must hold.


def rows_of(scene: Scene) -> dict[str, RunRow]:
    return {str(run.ref): run for run in scene.world.memory.runs()}


def pipelines_of(scene: Scene) -> dict[str, PipelineRow]:
    """The runs of pipelines with their revisions, by id."""
    read = [read_pipeline(run, scene.world.services) for run in scene.world.memory.runs()]
    return {str(pipeline.run.ref): pipeline for pipeline in read if pipeline is not None}


def against_its_join(run_id: str, rows: Mapping[str, RunRow], pipelines: Mapping[str, PipelineRow]) -> list[str]:
    """A task that begins although the ends of the tasks before it, by their rows, do not allow it."""
    row = rows[run_id]
    if row.parent is None or row.child_no is None or row.parent not in pipelines:
        return []
    pipeline = pipelines[row.parent]
    before = [pipeline.graph.task(number) for number in pipeline.graph.edges[row.child_no - 1]]
    seen = {task.name: _end(str(task_ref(pipeline.run.ref, pipeline.name, task.name)), task, rows) for task in before}
    if rows[row.parent].replay_of is not None:  # of what succeeded in the earlier run there is no row in this one
        seen = {name: end or "s" for name, end in seen.items()}
    join = str(pipeline.graph.task(row.child_no).join)
    return [] if _allows(join, [*seen.values()]) else [f"{run_id} started by {join} with {seen}"]


def _end(run_id: str, task: Any, rows: Mapping[str, RunRow]) -> str:
    """s, f, or nothing: it has no run, or one that has not ended; x: its owner skipped it."""
    row = rows.get(run_id)
    if row is None or not row.is_terminal:
        return ""
    if row.state is RunState.SKIPPED:
        return "s" if row.reason == "skipped by its owner" else "x"
    return "s" if row.state is RunState.SUCCEEDED or task.optional else "f"


def _allows(join: str, ends: list[str]) -> bool:
    match join:
        case "all":
            return all(end == "s" for end in ends)
        case "any":
            return not ends or "s" in ends
        case _:  # of a task that was skipped by its graph there is no row
            return join == "done" or "f" not in ends


def ends(state: str, again: str | None = None, **tasks: str) -> Callable[[Scene], list[str]]:
    """The pipeline's run ends so, and its tasks; "-": it never began. ``again``: how the run ends that repeats it."""

    def expect(scene: Scene) -> list[str]:
        rows = rows_of(scene)
        run = rows.get(_RUN)
        found = [*scene.wrong, *_twice(scene)]
        if run is None:
            return [*found, *(["nowhere"] if scene.seen.submitted else [])]
        cancelled = scene.told == "cancelled" or run.state == "CANCELLED"
        found += [f"{each.ref} is {each.state}" for each in rows.values() if not each.is_terminal]
        allowed = {state} if again is None or _AGAIN in rows else {state, "SUCCEEDED"}  # it was mended before it failed
        if state != "CANCELLED" and run.state not in allowed:
            found.append(f"{run.ref} is {run.state}: {run.failure or run.reason}")
        elif cancelled and run.state != "CANCELLED":
            found.append(f"{run.ref} was cancelled and is {run.state}")
        last = rows.get(_AGAIN, run)
        if again is not None and _AGAIN in rows and last.state != again:
            found.append(f"{last.ref} is {last.state}: {last.failure or last.reason}")
        if not cancelled and (again is None or _AGAIN in rows):
            found += [
                f"task {name} of {last.ref} is {is_now}, not {wanted}"
                for name, wanted in tasks.items()
                if (is_now := _state_of(last, name, rows)) not in wanted.split("|")
            ]
        return found

    return expect


def _state_of(run: RunRow, task: str, rows: Mapping[str, RunRow]) -> str:
    row = rows.get(str(task_ref(run.ref, "p", task)))
    return "-" if row is None else str(row.state)


def _twice(scene: Scene) -> list[str]:
    """Tasks that started more than once although no worker of theirs died, and that do not fail at first."""
    jobs = {run_id: row.job for run_id, row in rows_of(scene).items()}
    times = Counter(start.run_id for start in scene.seen.starts)
    return [
        f"{run_id} started {count} times"
        for run_id, count in times.items()
        if count > 1 + (jobs.get(run_id) == "stumbles") and run_id not in scene.seen.excused
    ]


# Steps.


def batch(scene: Scene) -> None:
    """A worker that takes one batch of messages."""
    scene.works(lambda worker: Hand(worker=worker, together=True).work())


def skip(task: str) -> Step:
    return lambda scene: scene.owner().skip_task(_RUN, task)


def retry(scene: Scene) -> None:
    scene.told = "mended"
    scene.owner().retry_pipeline(_RUN, idempotency_key="again")


def cancelled(scene: Scene) -> None:
    """A cancellation that returns: nothing of the run starts after it."""
    cancel(scene)
    scene.told = "cancelled"


def begun(scene: Scene) -> None:
    """The first slice of the pipeline's run, by a worker that lives."""
    Hand(worker=scene.world.worker()).work()


_START = [submit("pipeline:p"), batch]
_ALL_GOOD = dict.fromkeys("abcd", "SUCCEEDED")

PIPELINE_SCENARIOS = (
    Scenario("a diamond", [published(DIAMOND), submit("pipeline:p"), work, work], ends("SUCCEEDED", **_ALL_GOOD)),
    Scenario(
        "two ends of a diamond at one time",
        [published(DIAMOND), *_START, batch, in_the_middle("mark_ended", batch), batch, work],
        ends("SUCCEEDED", **_ALL_GOOD),
    ),
    Scenario(
        "a task ends while its pipeline parks",
        [published(DIAMOND), submit("pipeline:p"), in_the_middle("claim", work), batch, work],
        ends("SUCCEEDED", **_ALL_GOOD),
    ),
    Scenario(
        "a failing task halts its pipeline",
        [published(HALTS), *_START, batch, work],
        ends("DEAD", a="SUCCEEDED", b="DEAD", c="SUCCEEDED|SKIPPED|-", d="SKIPPED|-"),
    ),
    Scenario(
        "a failing task halts while another starts one",
        [published(HALTS), *_START, in_the_middle("claim", batch), batch, work],
        ends("DEAD", a="SUCCEEDED", b="DEAD", c="SUCCEEDED|SKIPPED|-", d="SKIPPED|-"),
    ),
    Scenario(
        "a failing task, and others go on",
        [published(CONTINUES, on_task_failure="continue"), submit("pipeline:p"), work, work],
        ends("DEAD", a="DEAD", b="-", c="SUCCEEDED", d="DEAD", e="SUCCEEDED"),
    ),
    Scenario(
        "a condition that does not hold",
        [published(CONDITIONS), submit("pipeline:p"), work, work],
        ends("SUCCEEDED", a="SUCCEEDED", b="SKIPPED|-", c="-", d="SUCCEEDED"),
    ),
    Scenario(
        "a task is skipped",
        [published(CHAIN), *_START, skip("b"), skip("b"), work, work],
        ends("SUCCEEDED", a="SUCCEEDED", b="SKIPPED|SUCCEEDED", c="SUCCEEDED"),
    ),
    Scenario(
        "a task is skipped while the one before it ends",
        [published(CHAIN), *_START, in_the_middle("mark_ended", skip("b")), work, work],
        ends("SUCCEEDED", a="SUCCEEDED", b="SKIPPED|SUCCEEDED", c="SUCCEEDED"),
    ),
    Scenario(
        "what did not succeed is repeated",
        [published({**DIAMOND, "c": {"job": "fails", "after": ["a"]}}), submit("pipeline:p"), begun, work, retry, work],
        ends("DEAD", again="SUCCEEDED", a="-", b="-", c="SUCCEEDED", d="SUCCEEDED"),
    ),
    Scenario("cancel a pipeline", [published(DIAMOND), *_START, cancelled, work, work], ends("CANCELLED")),
    Scenario(
        "cancel a pipeline while its task runs",
        [published(DIAMOND), *_START, while_it_runs(cancelled), work, work],
        ends("CANCELLED"),
    ),
    Scenario(
        "cancel a pipeline while it starts tasks",
        [published(DIAMOND), *_START, in_the_middle("claim", cancelled), work, work],
        ends("CANCELLED"),
    ),
    Scenario(
        "a pipeline in a pipeline",
        [published(INNER, "inner"), published(OUTER), submit("pipeline:p"), work, work],
        ends("SUCCEEDED", a="SUCCEEDED", n="SUCCEEDED", z="SUCCEEDED"),
    ),
    Scenario(
        "cancel a pipeline in a pipeline, twice",
        [
            published({**INNER, "i": {"job": "stumbles"}}, "inner"),
            published(OUTER),
            submit("pipeline:p"),
            begun,
            begun,
            begun,
            begun,
            cancelled,
            cancelled,
            wait(30),
            work,
        ],
        ends("CANCELLED"),
    ),
    Scenario(
        "its definition changes",
        [published(DIAMOND), *_START, published(LATER), work, tick, work],
        ends("SUCCEEDED", **_ALL_GOOD),
    ),
)
