"""``minutehand schedules bulk``: one action on every schedule that a filter finds."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from minutehand.cli.exits import ExitCode
from minutehand.cli.installation.signals import stop_on_signals
from minutehand.cli.output import read_payload
from minutehand.cli.parameters import ClientToken, Cursor, Drain, DryRun, Yes
from minutehand.cli.schedules.options import read_tags, with_filters
from minutehand.cli.shell import Shell, of
from minutehand.sdk.bulk import BulkResult


@with_filters
def run(
    context: typer.Context,
    action: Annotated[str, typer.Argument(help="pause, resume, delete, retag or trigger.")],
    note: Annotated[str | None, typer.Option(help="pause: the reason, as text.")] = None,
    payload: Annotated[str | None, typer.Option(help="trigger: JSON that replaces each schedule's payload.")] = None,
    client_token: ClientToken = None,
    tags: Annotated[list[str] | None, typer.Option("--set", help="retag: key=value; may be repeated.")] = None,
    removed: Annotated[list[str] | None, typer.Option("--remove", help="retag: key; may be repeated.")] = None,
    rate: Annotated[float, typer.Option(help="Maximum number of schedules per second.")] = 500.0,
    cursor: Cursor = None,
    *,
    drain: Drain = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    **conditions: Any,
) -> None:
    """Pause, resume, delete, retag or trigger every schedule that meets all conditions; at least one must be given.

    It prints the number of schedules and asks for confirmation. Ctrl-C ends it between two schedules; --cursor continues. A failed
    schedule does not stop the others; the exit code is then 1.
    """
    shell, scheduler = of(context), of(context).scheduler()
    given = conditions | {"note": note, "drain": drain, "client_token": client_token, "rate": rate, "cursor": cursor}
    if tags or removed:
        given["tags"] = {**read_tags(tags or []), **dict.fromkeys(removed or [])}
    if payload is not None:
        given["payload"] = read_payload(payload)
    found = scheduler.bulk(action, **given, dry_run=True)
    if dry_run or not found.count:
        _print_result(shell, found)
        return
    shell.confirm(f"{action.capitalize()} {found.count} schedules", yes=yes)
    with stop_on_signals() as stop, shell.progress(action, found.count) as advance:
        done = scheduler.bulk(action, **given, on_progress=lambda now: advance(now.done + now.failed), stop=stop)
    _print_result(shell, done)
    if done.failed:
        raise typer.Exit(ExitCode.FAILED)


def _print_result(shell: Shell, result: BulkResult) -> None:
    if shell.as_json:
        shell.show(result)
        return
    if result.dry_run:
        shell.say("\n".join(result.done)) if result.done else None
    for name, problem in result.failed.items():
        shell.say(f"failed: {name}: {problem}", style="red")
    verb = "would be done" if result.dry_run else "done"
    rest = "" if result.cursor is None else f"; --cursor '{result.cursor}' continues"
    shell.remark(f"{result.action}: {result.count} {verb}, {len(result.failed)} failed{rest}")
