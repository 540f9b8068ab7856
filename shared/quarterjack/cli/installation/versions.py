"""``quarterjack versions …``: show the application versions, and make one the latest."""

from __future__ import annotations

from typing import Annotated

import typer

from quarterjack.cli.parameters import matching
from quarterjack.cli.shell import Shell
from quarterjack.cli.tables import Column

app = typer.Typer(no_args_is_help=True)

_LISTED = (
    Column("version_name"),
    Column("is_latest"),
    Column("share"),
    Column("moved_to", drop=4),
    Column("version_timestamp", drop=1),
    Column("created_at", drop=2),
    Column("version_id", drop=3),
)


@app.command("list")
@matching("no worker has registered a version")
def list_(shell: Shell) -> None:
    """List the application versions, the latest first."""
    found = shell.scheduler.list_application_versions()
    shell.list(found, _LISTED)
    shell.matched(len(found))


@app.command()
def latest(shell: Shell) -> None:
    """Show the version that new runs are assigned to."""
    shell.show(shell.scheduler.get_latest_application_version())


@app.command()
def set_latest(
    shell: Shell,
    name: Annotated[str, typer.Argument(metavar="VERSION", help="Name of the version.")],
    share: Annotated[float, typer.Option(help="Share of the new runs that it gets, e.g. 0.1 for a tenth.")] = 1.0,
) -> None:
    """Assign new runs to this version. Runs that were sent before keep theirs."""
    shell.show(shell.scheduler.set_latest_application_version(name, share=share))


@app.command()
def retire(
    shell: Shell,
    name: Annotated[str, typer.Argument(metavar="VERSION", help="Name of the version.")],
    to: Annotated[str, typer.Option(help="Name of the version that starts its waiting runs.")],
) -> None:
    """Let another version start the waiting runs of this one, which gets no new runs."""
    shell.show(shell.scheduler.retire_application_version(name, to=to))
