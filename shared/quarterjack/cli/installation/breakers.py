"""``quarterjack breakers …``: the circuit breakers of a tenant."""

from __future__ import annotations

from typing import Annotated

import typer

from quarterjack.cli.parameters import Yes, matching
from quarterjack.cli.shell import Shell
from quarterjack.cli.tables import Column

app = typer.Typer(
    help="Show and close the circuit breakers of the tenant (--tenant), which hold jobs that fail.",
    no_args_is_help=True,
)

_COLUMNS = (
    Column("job"),
    Column("state", show=lambda breaker: "OPEN" if breaker.is_open else "counting"),
    Column("opened_at"),
    Column("per_minute"),
    Column("succeeded", drop=2),
    Column("failed", drop=1),
    Column("counted_since", drop=3),
)


@app.command("list")
@matching("no job of the tenant fails, or the tenant has no limit breaker_percent")
def list_(shell: Shell) -> None:
    """List the tenant's breakers that are open or count failures. The job '*' stands for all jobs together."""
    found = shell.tenants.breakers(shell.scheduler.tenant)
    shell.list(found, _COLUMNS)
    shell.matched(len(found))


@app.command()
def reset(
    shell: Shell,
    job: Annotated[str | None, typer.Argument(help="Its job as it is listed. Default: all of the tenant.")] = None,
    *,
    yes: Yes = False,
) -> None:
    """Close a breaker: what waits starts within three minutes. It opens again if the job still fails."""
    tenant = shell.scheduler.tenant
    shell.confirm(f"Close {'all breakers' if job is None else f'the breaker of {job}'} of tenant {tenant}", yes=yes)
    closed = list(shell.tenants.reset_breaker(tenant, job))
    shell.answer({"closed": closed}, f"closed: {', '.join(closed)}" if closed else "none was open")
