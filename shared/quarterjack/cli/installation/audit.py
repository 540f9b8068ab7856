"""``quarterjack audit``: list and verify audit entries. Without a subcommand it checks and repairs the live data once."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Annotated, Any, cast

import typer

from quarterjack.cli.exits import ExitCode
from quarterjack.cli.installation.banner import configure_logs, metric_lines
from quarterjack.cli.moments import is_relative, read_time
from quarterjack.cli.parameters import Cursor, Limit, matching
from quarterjack.cli.shell import Shell, text_of
from quarterjack.cli.tables import Column
from quarterjack.cli.typed import PAST, utc_now
from quarterjack.daemon.roles import run_auditor
from quarterjack.errors import InvalidInput
from quarterjack.values import replace

app = typer.Typer()

Installation = Annotated[
    bool, typer.Option("--installation", help="Entries of the installation instead of the tenant.")
]
_LISTED = (
    Column("at"),
    Column("act"),
    Column("target", cut=16),
    Column("actor", cut=16),
    Column("via", drop=1),
    Column("before", drop=3),
    Column("after", drop=2),
    Column("reason", cut=10),
    Column("detail", drop=4, show=lambda entry: _told(entry.detail)),
)


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
    embedded_metrics: Annotated[
        bool,
        typer.Option(
            "--embedded-metrics",
            help="Write metrics of the check to standard output, before its report, in CloudWatch's embedded format.",
        ),
    ] = False,
) -> None:
    """List and verify audit entries. Without a subcommand: check the live data once and repair violations."""
    shell: Shell = context.obj
    context.obj = shell = replace(shell, as_json=shell.as_json or as_json)
    if context.invoked_subcommand is None:
        configure_logs(shell)
        sinks = metric_lines(shell.settings, "auditor", wanted=embedded_metrics)
        shell.show(run_auditor(shell.settings, sinks=sinks))
    elif embedded_metrics:
        command = context.invoked_subcommand
        what = f"writes metrics of the check, and `audit {command}` does not check"
        raise InvalidInput("--embedded-metrics", True, what, f"leave it out, or leave out `{command}`")


@app.command("list")
@matching("no audit entry matches; without --since only the last 30 days are searched")
def list_(
    shell: Shell,
    schedule: Annotated[str | None, typer.Option(help="Only entries about this schedule and its runs.")] = None,
    actor: Annotated[
        str | None, typer.Option(help="Only entries of this actor: alice@acme, system:ticker, iam:arn:…")
    ] = None,
    act: Annotated[str | None, typer.Option(help="Only entries of this kind: create, pause, trigger, cancel …")] = None,
    run_id: Annotated[str | None, typer.Option("--run", help="Only entries about this run.")] = None,
    call: Annotated[str | None, typer.Option(help="Only entries of this call, such as a bulk call.")] = None,
    since: Annotated[datetime | None, PAST, typer.Option(help="Earliest time, e.g. -3d. Default: 30 days ago.")] = None,
    until: Annotated[datetime | None, PAST, typer.Option(help="Latest time. Default: now.")] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
    *,
    installation: Installation = False,
) -> None:
    """List audit entries, newest first."""
    page = shell.scheduler.audit(
        schedule=schedule,
        actor=actor,
        act=cast(Any, act),
        run_id=run_id,
        call=call,
        since=since,
        until=until,
        installation=installation,
        limit=limit,
        cursor=cursor,
    )
    shell.page(page, _LISTED)


@app.command()
def verify(
    shell: Shell,
    day: Annotated[str | None, typer.Option(help="Only this day (UTC), e.g. yesterday, -3d, 2026-12-24.")] = None,
    since: Annotated[datetime | None, PAST, typer.Option(help="Earliest time, e.g. -3d. Default: 30 days ago.")] = None,
    until: Annotated[datetime | None, PAST, typer.Option(help="Latest time. Default: now.")] = None,
    *,
    installation: Installation = False,
) -> None:
    """Check that no audit entry was changed, removed or added, and that every day is closed. The exit code is 1 if there is a problem."""
    on = None if day is None else _date(day)
    verdict = shell.scheduler.verify_audit(day=on, since=since, until=until, installation=installation)
    if shell.as_json:
        shell.show(verdict)
    else:
        for problem in verdict.problems:
            where = " ".join(filter(None, (problem.day, problem.key)))
            shell.say(f"{problem.kind}  {where}  {problem.text}", style="red")
        erased = f", {verdict.erased} of them erased" if verdict.erased else ""
        shell.say(
            f"{verdict.entries} entries{erased} on {verdict.days} days, {verdict.closes} closes, {verdict.anchored} of them anchored: "
            f"{len(verdict.problems) or 'no'} problem{'' if len(verdict.problems) == 1 else 's'}"
        )
    if verdict.problems:
        raise typer.Exit(ExitCode.FAILED)


def _told(value: Any) -> str:
    """The details of an audit entry: ``jobs=report.*,mail.send profile=3``, ``grant(can=viewer to=app:a) profile=4``."""
    match value:
        case Mapping():
            return " ".join(
                f"{name}({_told(one)})" if isinstance(one, Mapping) else f"{name}={_told(one)}"
                for name, one in value.items()
            )
        case list() | tuple():
            return ",".join(map(_told, value))
        case _:
            return text_of(value)


def _date(text: str) -> date:
    if is_relative(text):
        return read_time(text, "--day", utc_now(), zone=UTC, unsigned="-").moment.astimezone(UTC).date()
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise InvalidInput("--day", text, "is not a date", "write e.g. 2026-12-24, yesterday, or -3d") from None
