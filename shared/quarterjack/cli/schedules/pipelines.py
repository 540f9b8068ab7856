"""``quarterjack pipelines …``: list, draw and run pipelines; show, retry and skip the tasks of a run."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, cast

import typer

from quarterjack.cli.moments import fire
from quarterjack.cli.parameters import (
    Cursor,
    ExpectedRevision,
    Key,
    Limit,
    Payload,
    RunId,
    RunTags,
    matching,
    payload_of,
    tags_given,
)
from quarterjack.cli.schedules.showing import LISTED, TASKS
from quarterjack.cli.shell import Shell, print_json, text_of, values
from quarterjack.cli.tables import Column
from quarterjack.domain.names import PIPELINE
from quarterjack.errors import InvalidInput
from quarterjack.sdk.pipelines.drawing import DrawnTask, check_form, drawing, tasks_of_definition, tasks_of_run
from quarterjack.sdk.pipelines.views import PipelineRun
from quarterjack.sdk.schedule_views import Schedule
from quarterjack.sdk.views import Run
from quarterjack.terminal import span

app = typer.Typer(no_args_is_help=True)


def _span(time: timedelta | None) -> str:
    return "" if time is None else span(time)


Pipeline = Annotated[str, typer.Argument(metavar="NAME", help="Name of the pipeline.")]
Drawn = Annotated[
    str, typer.Argument(metavar="NAME|RUN", help="Name of a pipeline, or id of a run of one, as list and run print it.")
]
Task = Annotated[str, typer.Argument(metavar="TASK", help="Name of the task.")]

_LISTED = tuple(column for column in LISTED if column.name != "job")
_OF_RUN = (
    Column("name", cut=24),
    Column("state"),
    Column("attempt", drop=5),
    Column("duration", drop=3, show=lambda task: _span(task.duration)),
    Column("waits_for", drop=2, cut=16),
    Column("reason", drop=1, cut=16),
    Column("run_id", drop=4),
)
_STATS = (
    Column("name", cut=24),
    Column("states", show=lambda task: ", ".join(f"{state} {count}" for state, count in task.states.items())),
    Column("attempts", drop=3),
    Column("median_duration", show=lambda task: _span(task.median_duration)),
    Column("longest_duration", drop=4, show=lambda task: _span(task.longest_duration)),
    Column("median_wait", drop=2, show=lambda task: _span(task.median_wait)),
    Column("last_failed", drop=1),
)


@app.command("list")
@matching("no pipeline matches")
def list_(
    shell: Shell,
    prefix: Annotated[str, typer.Option(help="Only pipelines with this name prefix.")] = "",
    limit: Limit = 100,
    cursor: Cursor = None,
) -> None:
    """List pipelines by name."""
    shell.page(shell.scheduler.list_pipelines(prefix=prefix, next_fires=1, limit=limit, cursor=cursor), _LISTED)


@app.command()
def show(shell: Shell, pipeline: Drawn) -> None:
    """Show the tasks of a pipeline, or those of one of its runs with their states."""
    if "#" in pipeline:
        _show_run(shell, shell.scheduler.pipeline_run(pipeline))
    else:
        _show_definition(shell, _read(shell, pipeline))


@app.command()
def graph(
    shell: Shell,
    pipeline: Drawn,
    form: Annotated[str, typer.Option("--format", help="Form of the graph: text, dot (Graphviz) or mermaid.")] = "text",
) -> None:
    """Print the graph of a pipeline, or of one of its runs with the states of the tasks."""
    check_form(form)
    name, tasks = _drawn(shell, pipeline)
    text = drawing(name, tasks, form)
    shell.answer({"format": form, "graph": text}, text)


@app.command()
def stats(
    shell: Shell,
    pipeline: Pipeline,
    runs: Annotated[
        int | None,
        typer.Option(help="Number of the last runs that are counted, 1 to 100; 20, or as many as have 200 tasks."),
    ] = None,
) -> None:
    """Show how each task did in the last runs of a pipeline."""
    shell.list(shell.scheduler.task_stats(pipeline, runs=runs), _STATS)


@app.command()
def run(
    shell: Shell,
    pipeline: Pipeline,
    payload: Payload = None,
    priority: Annotated[
        str | None, typer.Option(help="Priority instead of the pipeline's: high, normal or low.")
    ] = None,
    tags: RunTags = None,
    key: Key = None,
    expected_revision: ExpectedRevision = None,
) -> None:
    """Run a pipeline now, independent of its expression."""
    name = _read(shell, pipeline).name
    given = {"idempotency_key": key, "expected_revision": expected_revision, **payload_of(payload), **tags_given(tags)}
    started = shell.scheduler.trigger(name, priority=cast(Any, priority), **given)
    _show_begun(shell, started)


@app.command()
def retry(
    shell: Shell,
    run_id: RunId,
    skip: Annotated[
        list[str] | None, typer.Option(help="Task that is skipped instead; tasks after it go on. Repeatable.")
    ] = None,
    key: Key = None,
) -> None:
    """Repeat the tasks that did not succeed in an ended run of a pipeline, as a new run with the same definition."""
    _show_begun(shell, shell.scheduler.retry_pipeline(run_id, skip=skip or [], idempotency_key=key))


@app.command("skip")
def skip_(shell: Shell, run_id: RunId, task: Task) -> None:
    """Skip a task that has not begun; the tasks after it go on."""
    _show_run(shell, shell.scheduler.skip_task(run_id, task))


@app.command()
def cancel(shell: Shell, run_id: RunId) -> None:
    """Cancel a run of a pipeline. Waiting tasks never start; running ones are asked to end."""
    job = shell.scheduler.get_run(run_id).job
    if not job.startswith(PIPELINE):
        remedy = "`quarterjack runs cancel` cancels it"
        raise InvalidInput("run_id", run_id, f"is a run of job {job!r}, and of no pipeline", remedy)
    shell.show(shell.scheduler.cancel_run(run_id))


def _show_begun(shell: Shell, begun: Run) -> None:
    shell.show(begun)
    shell.remark(f"`quarterjack pipelines show '{begun.id}'` shows its tasks")


def _read(shell: Shell, name: str) -> Schedule:
    """A schedule that is a pipeline. Raises InvalidInput for another one."""
    found = shell.scheduler.get_schedule(name)
    if "tasks" not in found.definition:
        remedy = "`quarterjack pipelines list` shows the pipelines; `quarterjack schedules get` shows this schedule"
        raise InvalidInput("pipeline", name, "is a schedule without tasks", remedy)
    return found


def _drawn(shell: Shell, pipeline: str) -> tuple[str, list[DrawnTask]]:
    """The heading of a graph, and its tasks."""
    if "#" not in pipeline:
        found = _read(shell, pipeline)
        return found.name, tasks_of_definition(found.definition["tasks"])
    shown = shell.scheduler.pipeline_run(pipeline)
    return f"{shown.pipeline}, run {shown.run.id}: {shown.run.state}", tasks_of_run(shown)


def _show_definition(shell: Shell, found: Schedule) -> None:
    if shell.as_json:
        shell.show(found)
        return
    fires = fire(found.next_fires[0]) if found.next_fires else ""
    tasks = tasks_of_definition(found.definition["tasks"])
    policy = found.definition.get("on_task_failure", "halt")
    said = {"job": "", "next_fires": fires, "last_fired_at": fire(found.last_fired_at)}
    shell.show(found, said | {"definition": "", "on_task_failure": policy})
    shell.say("\ntasks", style="bold")
    shell.list(tasks, TASKS)


def _show_run(shell: Shell, found: PipelineRun) -> None:
    if shell.as_json:
        print_json(values(found) | {"critical_path": list(found.critical_path)})
        return
    run_, done = found.run, sum(task.ended_at is not None or task.state == "SKIPPED" for task in found.tasks)
    for name, text in {
        "run": run_.id,
        "pipeline": f"{found.pipeline}, revision {found.revision}, on task failure {found.on_task_failure}",
        "state": f"{run_.state}, {done} of {len(found.tasks)} tasks have ended",
        "due": text_of(run_.due),
        "ended at": text_of(run_.ended_at),
        "error": run_.error or "",
        "retry of": run_.replay_of or "",
        "critical path": " → ".join(found.critical_path),
    }.items():
        if text:
            shell.say(name.ljust(15), style="bold", end="")
            shell.say(text)
    shell.say("")
    shell.list(found.tasks, _OF_RUN)
