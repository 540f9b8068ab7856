"""``quarterjack runs …``: show, cancel, retry, replay, answer and follow runs; and ``quarterjack submit``."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, cast

import typer

from quarterjack.cli.exits import code_of_run
from quarterjack.cli.parameters import (
    DryRun,
    Key,
    Payload,
    RunId,
    RunTags,
    Strict,
    Yes,
    matching,
    payload_of,
    read_payload,
    tags_given,
)
from quarterjack.cli.runs.answers import complete, fail, heartbeat, links, make_link, revoke_link, signal
from quarterjack.cli.runs.batches import submit_all
from quarterjack.cli.runs.bulk import bulk
from quarterjack.cli.runs.history import print_transition
from quarterjack.cli.runs.listing import list_
from quarterjack.cli.runs.logs import logs, show_traceback
from quarterjack.cli.runs.tail import tail
from quarterjack.cli.shell import Shell, print_json, stop_on_signals, text_of, values
from quarterjack.cli.typed import COMING, EITHER, Seconds
from quarterjack.domain.policies import Retry
from quarterjack.domain.run import RunState
from quarterjack.errors import InvalidInput
from quarterjack.sdk.views import Run

app = typer.Typer(no_args_is_help=True)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_AHEAD = timedelta(days=1)  # runs are claimed a quarter of an hour ahead at the most


def submit(
    shell: Shell,
    job: Annotated[str, typer.Argument(help="Name of the job.")],
    payload: Payload = None,
    at: Annotated[
        datetime | None,
        COMING,
        typer.Option(help="Start time, e.g. 'tomorrow 09:00', or 2026-12-24T18:00:00Z. Default: now."),
    ] = None,
    delay: Annotated[float | None, Seconds, typer.Option(help="Delay from now, e.g. 5m, instead of --at.")] = None,
    key: Key = None,
    unique: Annotated[
        str | None, typer.Option(help="Unique key: at most one run of the job has it until that run has ended.")
    ] = None,
    unique_for: Annotated[
        float | None, Seconds, typer.Option(help="Time from its submission for which a run has --unique, e.g. 1h.")
    ] = None,
    on_duplicate: Annotated[
        str | None, typer.Option(help="If a run has --unique: return (default), refuse, replace or after.")
    ] = None,
    delivery: Annotated[
        str | None, typer.Option(help="Delivery instead of the job's: at_least_once or at_most_once.")
    ] = None,
    start: Annotated[str | None, typer.Option(help="Start mode instead of the job's: prompt or exact.")] = None,
    priority: Annotated[str | None, typer.Option(help="Priority instead of the job's: high, normal or low.")] = None,
    max_attempts: Annotated[int | None, typer.Option(help="Maximum number of attempts instead of the job's.")] = None,
    tags: RunTags = None,
    *,
    strict: Strict = False,
) -> None:
    """Run a job once: now, at a time, or after a delay."""
    if at is not None and delay is not None:
        raise InvalidInput("--delay", delay, "was given together with --at", "give one of the two")
    run = shell.scheduler.strictly(strict=strict).submit(
        job,
        None if payload is None else read_payload(payload),
        run_at=at,
        delay=delay,
        idempotency_key=key,
        unique=unique,
        unique_for=unique_for,
        on_duplicate=cast(Any, on_duplicate),
        delivery=cast(Any, delivery),
        start=cast(Any, start),
        priority=cast(Any, priority),
        retry=None if max_attempts is None else Retry(max_attempts=max_attempts),
        **tags_given(tags),
    )
    shell.show(run)


app.command("list")(list_)


@app.command()
def show(
    shell: Shell,
    run_id: RunId,
    *,
    attempts: Annotated[
        bool, typer.Option("--attempts", help="Include the failed attempts of a run that succeeded.")
    ] = False,
    transitions: Annotated[
        bool, typer.Option("--transitions", help="Include its transitions, from the archive.")
    ] = False,
) -> None:
    """Show one run, with its steps; if it has not succeeded, also its failed attempts and the traceback of the last one."""
    run = shell.scheduler.get_run(run_id)
    found = shell.scheduler.transitions(run_id) if transitions else []
    if shell.as_json and transitions:
        print_json(values(run) | {"transitions": found})
        return
    in_short = {} if attempts else _in_short(run)
    shell.show(run, in_short)
    if not in_short:
        show_traceback(shell, run)
    for transition in found:
        print_transition(shell, transition)


def _in_short(run: Run) -> dict[str, str]:
    """Short texts for the failures of a run that succeeded, whose fields hold those of earlier attempts."""
    if run.state is not RunState.SUCCEEDED or not (run.failed_attempts or run.error_type):
        return {}
    count = len(run.failed_attempts)
    before = f"{count} before it" if count else "earlier ones"
    last = run.failed_attempts[-1].error_type if count else run.error_type
    short = f"{before}, the last: {last}; --attempts shows them"
    return {"error_type": "", "error": "", "error_code": "", "failed_attempts": short}


@app.command()
def retry(shell: Shell, run_id: RunId) -> None:
    """Start the next attempt of a waiting run now."""
    shell.show(shell.scheduler.retry_run(run_id))


@app.command()
def reschedule(
    shell: Shell,
    run_id: RunId,
    at: Annotated[
        datetime | None, COMING, typer.Option(help="New start time, e.g. 'tomorrow 09:00', or 2026-12-24T18:00:00Z.")
    ] = None,
    delay: Annotated[float | None, Seconds, typer.Option(help="Delay from now, e.g. 5m, instead of --at.")] = None,
) -> None:
    """Move a one-off that has not begun to another time, earlier or later; its deadline moves with it."""
    if (at is None) == (delay is None):
        raise InvalidInput("--at", at, "say when, once", "give --at a time, or --delay a time from now, e.g. 5m")
    shell.show(shell.scheduler.reschedule(run_id, at=at, delay=delay))


@app.command()
def requeue(
    shell: Shell,
    run_id: RunId,
    queue: Annotated[str | None, typer.Option(help="Name of a declared queue, or default.")] = None,
    priority: Annotated[str | None, typer.Option(help="Priority: high, normal or low.")] = None,
) -> None:
    """Move a one-off that has not begun to another queue, or give it another priority."""
    shell.show(shell.scheduler.requeue(run_id, queue=queue, priority=cast(Any, priority)))


@app.command()
def reassign(
    shell: Shell,
    run_id: RunId,
    version: Annotated[str, typer.Argument(metavar="VERSION", help="Name of an application version.")],
) -> None:
    """Assign a waiting run to another application version, whose workers start it."""
    shell.show(shell.scheduler.reassign_run(run_id, version))


@app.command()
def replay(
    shell: Shell,
    run_id: RunId,
    payload: Payload = None,
    tags: RunTags = None,
    key: Key = None,
    *,
    as_it_was: Annotated[bool, typer.Option("--as-it-was", help="Keep the application version of the run.")] = False,
) -> None:
    """Repeat an ended run as a new run with the same job, payload and scheduled time, also if its schedule has changed."""
    given = payload_of(payload) | tags_given(tags)
    shell.show(shell.scheduler.replay_run(run_id, idempotency_key=key, as_it_was=as_it_was, **given))


@app.command()
def wait(
    shell: Shell,
    run_id: RunId,
    timeout: Annotated[float, Seconds, typer.Option(help="Maximum time to wait.")] = 60.0,
) -> None:
    """Wait until a run has ended. The exit code is 0 for SUCCEEDED, 10 DEAD, 12 CANCELLED …, 7 not ended."""
    run = shell.scheduler.wait_for(run_id, timeout)
    shell.show(run)
    raise typer.Exit(code_of_run(run.state))


@app.command()
@matching("no run matches that has not ended")
def cancel(
    shell: Shell,
    run_id: Annotated[
        str | None, typer.Argument(metavar="RUN", help="Id of one run. Without it, give --schedule.")
    ] = None,
    schedule: Annotated[str | None, typer.Option(help="Cancel all runs of this schedule that have not ended.")] = None,
    after: Annotated[
        datetime | None,
        EITHER,
        typer.Option(help="With --schedule: only runs due after this time, e.g. -3h, or 2026-12-24T18:00:00Z."),
    ] = None,
    before: Annotated[
        datetime | None, EITHER, typer.Option(help="With --schedule: only runs due up to this time.")
    ] = None,
    *,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Cancel a run, or the runs of a schedule. A waiting run never starts; a running one is asked to end.

    Later fires still start: to stop these, too, pause the schedule first.
    """
    if (run_id is None) == (schedule is None):
        raise InvalidInput("run_id", run_id, "say which runs", "give the id of a run, or --schedule and a span")
    if schedule is not None:
        _cancel_many(shell, schedule, after, before, dry_run=dry_run, yes=yes)
        return
    if dry_run or after is not None or before is not None:
        raise InvalidInput(
            "run_id", run_id, "was given with an option for many", "leave --after, --before and --dry-run"
        )
    shell.show(shell.scheduler.cancel_run(str(run_id)))


def _cancel_many(
    shell: Shell, name: str, after: datetime | None, before: datetime | None, *, dry_run: bool, yes: bool
) -> None:
    between = (after or _EPOCH, before or datetime.now(UTC) + _AHEAD)
    count = shell.scheduler.cancel_runs(name, between=between, dry_run=True)
    which = (
        f"{name}{f' due after {text_of(after)}' if after else ''}{f' due up to {text_of(before)}' if before else ''}"
    )
    if count and not dry_run:
        shell.confirm(f"Cancel {count} runs of {which}", yes=yes)
        with stop_on_signals() as stop, shell.progress("cancelling", count) as advance:
            count = shell.scheduler.cancel_runs(name, between=between, on_progress=advance, stop=stop)
    verb = "would be" if dry_run else "are"
    shell.answer({"count": count, "dry_run": dry_run}, f"{count} runs of {which} {verb} cancelled or asked to end")
    shell.matched(count)


for _command in (signal, complete, fail, heartbeat, links, revoke_link, tail):
    app.command()(_command)
app.command("link")(make_link)
app.command()(submit_all)
app.command()(bulk)
app.command()(logs)
