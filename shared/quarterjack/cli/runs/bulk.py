"""``quarterjack runs bulk``: an act on all runs that match."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, cast

import typer

from quarterjack.cli.exits import ExitCode
from quarterjack.cli.moments import WORDS
from quarterjack.cli.parameters import ClientToken, Cursor, DryRun, Yes, matching, tag_of
from quarterjack.cli.shell import Shell, stop_on_signals, values
from quarterjack.cli.typed import PAST
from quarterjack.sdk.history.bulk_runs_work import BulkRunsResult


@matching("no run matches")
def bulk(
    shell: Shell,
    action: Annotated[str, typer.Argument(help="Action: cancel, redrive, replay, hasten, requeue or reassign.")],
    schedule: Annotated[str | None, typer.Option(help="Only runs of this schedule.")] = None,
    state: Annotated[list[str] | None, typer.Option(help="Only runs in this state, e.g. QUEUED. Repeatable.")] = None,
    job: Annotated[str | None, typer.Option(help="Only runs of this job.")] = None,
    prefix: Annotated[str | None, typer.Option(help="Only runs of schedules with this name prefix.")] = None,
    tag: Annotated[
        str | None, typer.Option(help="Only runs with this tag, their own or their schedule's: key=value, or key.")
    ] = None,
    error_type: Annotated[
        str | None, typer.Option(help="Only runs whose last failure has this class, e.g. ValueError.")
    ] = None,
    kind: Annotated[
        list[str] | None, typer.Option(help="Only this kind: fire, one-off, trigger, backfill or replay. Repeatable.")
    ] = None,
    queue: Annotated[str | None, typer.Option(help="Only runs that wait in this queue, e.g. default.")] = None,
    since: Annotated[
        datetime | None,
        PAST,
        typer.Option(help=f"Earliest end, or due time of open runs, e.g. 2026-12-24T18:00:00Z, or {WORDS}."),
    ] = None,
    until: Annotated[datetime | None, PAST, typer.Option(help="Latest end, or due time of open runs.")] = None,
    to_queue: Annotated[str | None, typer.Option(help="For requeue: name of a declared queue, or default.")] = None,
    to_priority: Annotated[str | None, typer.Option(help="For requeue: high, normal or low.")] = None,
    version: Annotated[str | None, typer.Option(help="For reassign: name of the application version.")] = None,
    rate: Annotated[float, typer.Option(help="Maximum number of runs per second.")] = 50.0,
    client_token: ClientToken = None,
    cursor: Cursor = None,
    *,
    allow_repeat: Annotated[
        bool, typer.Option("--allow-repeat", help="For redrive: LOST runs too, which may have done their work.")
    ] = False,
    as_it_was: Annotated[
        bool, typer.Option("--as-it-was", help="For redrive and replay: keep the application versions of the runs.")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Cancel, redrive, replay, hasten, requeue or reassign every run that meets all conditions; at least one must be given.

    It prints the number of runs and asks for confirmation. Ctrl-C ends it between two runs. The same command with the --client-token
    that it prints goes on, also after a crash: each run is acted on once. Of a run of which it cannot be done the error is printed;
    the exit code is then 1.
    """
    given: dict[str, Any] = {
        "schedule": schedule,
        "state": state or None,
        "job": job,
        "prefix": prefix,
        "tag": None if tag is None else tag_of(tag),
        "error_type": error_type,
        "kind": kind or None,
        "queue": queue,
        "since": since,
        "until": until,
        "to_queue": to_queue,
        "to_priority": to_priority,
        "version": version,
        "as_it_was": as_it_was,
        "allow_repeat": allow_repeat,
        "rate": rate,
    }
    act = shell.scheduler.bulk_runs
    if dry_run or not yes:
        planned = act(cast(Any, action), **given, dry_run=True, cursor=cursor if dry_run else None)
        if dry_run:
            _show(shell, planned, "would be acted on")
            return
        if planned.count:
            shell.confirm(f"{action.capitalize()} {planned.count:,} runs ({_counts(planned.states)})", yes=yes)
        elif client_token is None and cursor is None:
            _show(shell, planned, "are done")
            return
    token = client_token or f"bulk-{uuid.uuid4().hex[:12]}"
    if client_token is None and cursor is None:
        shell.remark(f"--client-token {token} goes on with it if it ends early")
    with stop_on_signals() as stop, shell.progress(action) as advance:
        done = act(
            cast(Any, action),
            **given,
            client_token=token,
            cursor=cursor,
            stop=stop,
            on_progress=lambda now: advance(now.done + now.failed),
        )
    _show(shell, done, "are done")
    if done.failed_count:
        raise typer.Exit(ExitCode.FAILED)


def _show(shell: Shell, result: BulkRunsResult, verb: str) -> None:
    for problem in () if shell.as_json else result.failed.values():
        shell.say(f"not done: {shell.words.text(problem)}", style="red")
    lines = [f"{result.count:,} runs {verb}, {result.failed_count:,} failed"]
    if result.states:
        lines.append(f"by state: {_counts(result.states)}; by job: {_counts(result.jobs)}")
    lines += [f"e.g. {run_id}" for run_id in result.examples[:3]]
    shell.answer(values(result), "\n".join(lines))
    if result.cursor is not None:
        shell.remark("it ended early: the same command with its --client-token goes on")
    shell.matched(result.count + result.failed_count if result.cursor is None else 1)


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in sorted(counts.items(), key=lambda one: -one[1])[:8])
