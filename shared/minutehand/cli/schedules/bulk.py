"""``minutehand schedules bulk``: one action on every schedule that a filter finds."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from minutehand.cli.exits import ExitCode
from minutehand.cli.installation.signals import stop_on_signals
from minutehand.cli.output import read_payload
from minutehand.cli.schedules import lifecycle
from minutehand.cli.schedules.options import read_tags
from minutehand.cli.shell import DryRun, Shell, Yes, of
from minutehand.sdk.answers import BulkResult


def run(
    context: typer.Context,
    action: Annotated[str, typer.Argument(help="pause, resume, delete, retag or trigger.")],
    prefix: lifecycle.Prefix = "",
    state: lifecycle.State = None,
    job: lifecycle.OfJob = None,
    tag: lifecycle.Tag = None,
    managed_by: lifecycle.ManagedBy = None,
    note: Annotated[str | None, typer.Option(help="pause: why.")] = None,
    payload: Annotated[str | None, typer.Option(help="trigger: instead of each schedule's own.")] = None,
    client_token: lifecycle.ClientToken = None,
    tags: Annotated[list[str] | None, typer.Option("--set", help="retag: key=value; may be repeated.")] = None,
    removed: Annotated[list[str] | None, typer.Option("--remove", help="retag: key; may be repeated.")] = None,
    rate: Annotated[float, typer.Option(help="Schedules a second at the most.")] = 500.0,
    cursor: Annotated[str | None, typer.Option(help="Go on where an earlier call ended.")] = None,
    *,
    failing: lifecycle.Failing = None,
    drain: lifecycle.Drain = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Pause, resume, delete, retag or trigger every schedule that meets all conditions; at least one must be given.

    Says how many there are and asks first. Ctrl-C ends it between two schedules, and --cursor goes on. The exit code is 1 if it
    failed for some; it stops for none of them.
    """
    shell, scheduler = of(context), of(context).scheduler()
    given: dict[str, Any] = lifecycle.filtered(
        prefix=prefix, state=state, job=job, tag=tag, failing=failing, managed_by=managed_by
    )
    given |= {"note": note, "drain": drain, "client_token": client_token, "rate": rate, "cursor": cursor}
    if tags or removed:
        given["tags"] = {**read_tags(tags or []), **dict.fromkeys(removed or [])}
    if payload is not None:
        given["payload"] = read_payload(payload)
    found = scheduler.bulk(action, **given, dry_run=True)
    if dry_run or not found.count:
        _tell(shell, found)
        return
    shell.confirm(f"{action.capitalize()} {found.count} schedules", yes=yes)
    with stop_on_signals() as stop, shell.progress(action, found.count) as advance:
        done = scheduler.bulk(action, **given, on_progress=lambda now: advance(now.done + now.failed), stop=stop)
    _tell(shell, done)
    if done.failed:
        raise typer.Exit(ExitCode.FAILED)


def _tell(shell: Shell, result: BulkResult) -> None:
    if shell.as_json:
        shell.show(result)
        return
    if result.dry_run:
        shell.say("\n".join(result.done)) if result.done else None
    for name, problem in result.failed.items():
        shell.say(f"failed: {name}: {problem}", style="red")
    verb = "would be done" if result.dry_run else "done"
    rest = "" if result.cursor is None else f"; --cursor '{result.cursor}' goes on"
    shell.remark(f"{result.action}: {result.count} {verb}, {len(result.failed)} failed{rest}")
