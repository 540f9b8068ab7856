"""``minutehand audit``: who did what, and whether the record of it is whole. Alone it checks and repairs the live data once."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from minutehand import logs
from minutehand.cli.parameters import Cursor, Limit, read_moment
from minutehand.cli.shell import Shell
from minutehand.daemon.roles import run_auditor

app = typer.Typer()

_LISTED = ("at", "act", "target", "actor", "via", "before", "after", "reason")


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> None:
    """Show who did what (list); check that nobody changed the record of it (verify). Alone: check the live data once and repair it."""
    shell: Shell = context.obj
    context.obj = shell = replace(shell, as_json=shell.as_json or as_json)
    if context.invoked_subcommand is None:
        logs.configure()
        shell.show(run_auditor(shell.settings))


@app.command("list")
def list_(
    shell: Shell,
    schedule: Annotated[str | None, typer.Option(help="Only acts on this schedule and its runs.")] = None,
    actor: Annotated[
        str | None, typer.Option(help="Only acts of this one: alice@acme, system:ticker, iam:arn:…")
    ] = None,
    act: Annotated[str | None, typer.Option(help="Only acts of this kind: create, pause, trigger, cancel …")] = None,
    run_id: Annotated[str | None, typer.Option("--run", help="Only acts on this run.")] = None,
    call: Annotated[str | None, typer.Option(help="Only the acts of this call, such as a bulk call.")] = None,
    since: Annotated[str | None, typer.Option(help="From this time on. Default: 30 days ago.")] = None,
    until: Annotated[str | None, typer.Option(help="Up to this time. Default: now.")] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> None:
    """List who did what, newest first."""
    page = shell.scheduler.audit(
        schedule=schedule,
        actor=actor,
        act=act,
        run_id=run_id,
        call=call,
        since=read_moment(since, "since"),
        until=read_moment(until, "until"),
        limit=limit,
        cursor=cursor,
    )
    shell.page(page, _LISTED)
