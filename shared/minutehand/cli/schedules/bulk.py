"""``minutehand schedules bulk``: one action on every schedule that a filter finds."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from minutehand.cli.parameters import ClientToken, Cursor, Drain, DryRun, Yes, payload_of
from minutehand.cli.schedules.options import read_tags, with_filters
from minutehand.cli.shell import ExitCode, Shell, stop_on_signals
from minutehand.sdk.bulk import BulkResult


@with_filters
def bulk(
    shell: Shell,
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
    conditions |= {"note": note, "drain": drain, "client_token": client_token, "rate": rate, "cursor": cursor}
    conditions |= payload_of(payload)
    if tags or removed:
        conditions["tags"] = {**read_tags(tags or []), **dict.fromkeys(removed or [])}
    result = shell.scheduler.bulk(action, **conditions, dry_run=True)
    if result.count and not dry_run:
        shell.confirm(f"{action.capitalize()} {result.count} schedules", yes=yes)
        with stop_on_signals() as stop, shell.progress(action, result.count) as advance:
            result = shell.scheduler.bulk(
                action, **conditions, on_progress=lambda now: advance(now.done + now.failed), stop=stop
            )
    _print_result(shell, result)
    if result.failed:
        raise typer.Exit(ExitCode.FAILED)


def _print_result(shell: Shell, result: BulkResult) -> None:
    if shell.as_json:
        shell.show(result)
        return
    if result.dry_run and result.done:
        shell.say("\n".join(result.done))
    for name, problem in result.failed.items():
        shell.say(f"failed: {name}: {problem}", style="red")
    verb = "would be done" if result.dry_run else "done"
    rest = "" if result.cursor is None else f"; --cursor '{result.cursor}' continues"
    shell.remark(f"{result.action}: {result.count} {verb}, {len(result.failed)} failed{rest}")
