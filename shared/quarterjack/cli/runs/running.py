"""``quarterjack runs list --running``: what the workers run now."""

from __future__ import annotations

from typing import Annotated

import typer

from quarterjack.cli.shell import Shell
from quarterjack.cli.spoken import away
from quarterjack.cli.tables import Column

AllTenants = Annotated[bool, typer.Option("--all-tenants", help="Runs of every tenant, not only of one.")]
_COLUMNS = (
    Column("began", show=lambda run: away(run.leased_at)),
    Column("job", drop=1, cut=12),
    Column("worker", drop=3, cut=12),
    Column("progress"),
    Column("stage", drop=2, cut=12),
    Column("heartbeat", drop=4, show=lambda run: away(run.last_heartbeat_at)),
    Column("id"),
)


def list_running(shell: Shell, *, all_tenants: bool, limit: int, cursor: str | None) -> None:
    """Print the runs that are RUNNING, the one that began last first."""
    page = shell.scheduler.list_running(all_tenants=all_tenants, limit=limit, cursor=cursor)
    shell.page(page, _COLUMNS)
    vanished = sum(run.worker_vanished for run in page.items)
    if vanished:
        shell.remark(f"{vanished} of these: the worker has vanished; another one takes the run")
    if page.unlisted:
        shell.remark(f"{page.unlisted} more runs, of any tenant, are at workers that do not list them")
