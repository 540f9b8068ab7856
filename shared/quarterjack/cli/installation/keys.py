"""``quarterjack keys …``: the API keys of a tenant."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from quarterjack.cli.parameters import Yes, matching
from quarterjack.cli.shell import Shell, print_json, values
from quarterjack.cli.tables import Column
from quarterjack.cli.typed import COMING

app = typer.Typer(
    help="Make, list and revoke the API keys of the tenant (--tenant), which the HTTP API takes.", no_args_is_help=True
)

_COLUMNS = (
    Column("id"),
    Column("can", cut=16, show=lambda key: ", ".join(key.can)),
    Column("jobs", drop=1, cut=16, show=lambda key: ", ".join(key.jobs)),
    Column("last_used_on", show=lambda key: "never" if key.last_used_on is None else str(key.last_used_on)),
    Column("expires_at", drop=2),
    Column("created_by", drop=3, cut=16),
    Column("created_at", drop=4),
)


@app.command()
def create(
    shell: Shell,
    name: Annotated[
        str, typer.Argument(help="Name of the program that uses it, e.g. crm: the actor in the audit is key:crm.")
    ],
    can: Annotated[
        list[str], typer.Option(help="Role (viewer, operator, editor, admin, auditor) or verb. Repeatable.")
    ],
    jobs: Annotated[
        list[str] | None, typer.Option(help="Name or pattern of a job, e.g. 'report.*'. Repeatable. Default: all.")
    ] = None,
    expires: Annotated[
        datetime | None, COMING, typer.Option(help="When it ends, e.g. 90d, or 2027-12-24T18:00:00Z. Default: never.")
    ] = None,
) -> None:
    """Make a key, and print it once: only its hash is stored. A name may have two valid keys, so that one can replace the other."""
    made = shell.tenants.create_key(shell.scheduler.tenant, name, can, jobs=jobs or ("*",), expires_at=expires)
    if shell.as_json:
        print_json({"text": made.text, "key": values(made.key)})
        return
    typer.echo(made.text)  # one line however narrow the terminal is, to be copied
    shell.remark(f"key {made.key.id} of tenant {made.key.tenant}: keep it now, it is shown this once")


@app.command("list")
@matching("the tenant has no API key")
def list_(shell: Shell) -> None:
    """List the tenant's keys: what they may do, and when they were last used."""
    found = shell.tenants.keys(shell.scheduler.tenant)
    shell.list(found, _COLUMNS)
    shell.matched(len(found))


@app.command()
def revoke(
    shell: Shell,
    key: Annotated[str, typer.Argument(help="Its id as it is listed, e.g. crm.1.")],
    *,
    yes: Yes = False,
) -> None:
    """Revoke a key: from 5 s on no process takes it."""
    shell.confirm(f"Revoke key {key} of tenant {shell.scheduler.tenant}", yes=yes)
    shell.tenants.revoke_key(shell.scheduler.tenant, key)
    shell.answer({"revoked": key}, "revoked; from 5 s on no process takes it")
