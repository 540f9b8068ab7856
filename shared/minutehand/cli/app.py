"""The commands, put together; one module a group."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from minutehand.cli import (
    apply,
    backfills,
    dead,
    doctor,
    imports,
    local,
    preview,
    processes,
    runs,
    schedules,
    submit,
    tenant,
)
from minutehand.cli.parameters import everywhere
from minutehand.cli.shell import Shell
from minutehand.domain.names import check_tenant
from minutehand.settings import from_environment

app = typer.Typer(
    help="Run this job at that time, once, and tell me what happened.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


@app.callback()
def options(
    context: typer.Context,
    tenant: Annotated[str | None, typer.Option(help="Whose schedules and runs. Default: MINUTEHAND_TENANT.")] = None,
    prefix: Annotated[str | None, typer.Option(help="Of tables and queues. Default: MINUTEHAND_PREFIX.")] = None,
    endpoint: Annotated[str | None, typer.Option(help="Of a local cloud. Default: AWS_ENDPOINT_URL, or AWS.")] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line instead of tables.")] = False,
) -> None:
    found = from_environment()
    settings = replace(
        found.at(endpoint),
        tenant=check_tenant(tenant or found.tenant),
        prefix=prefix or found.prefix,
    )
    context.obj = Shell(settings, as_json)


app.command("local")(local.run)
app.add_typer(schedules.app, name="schedules")
app.add_typer(backfills.app, name="backfills")
app.add_typer(runs.app, name="runs")
app.add_typer(dead.app, name="dead")
app.command("submit")(submit.run)
app.command("preview")(preview.run)
app.command("apply")(apply.apply)
app.command("export")(apply.export)
app.command("schema")(apply.schema)
app.add_typer(imports.app, name="import")
app.command("queues")(tenant.queues)
app.command("freeze")(tenant.freeze)
app.command("thaw")(tenant.thaw)
app.command("frozen")(tenant.frozen)
app.command("doctor")(doctor.run)
app.command("worker")(processes.worker)
app.command("ticker")(processes.ticker)
app.command("undertaker")(processes.undertaker)
app.command("audit")(processes.audit)
everywhere(app)
