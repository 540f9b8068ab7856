"""``quarterjack workers …``: what the installation's workers are at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from quarterjack.cli.parameters import Cursor, Limit, matching
from quarterjack.cli.runs.running import AllTenants
from quarterjack.cli.shell import Shell
from quarterjack.cli.spoken import away
from quarterjack.cli.tables import Column
from quarterjack.state.worker_record import OWN_QUEUE

app = typer.Typer(help="Show the worker processes and functions.", no_args_is_help=True)


def _queues(stripes: Mapping[str, int]) -> str:
    """The names of queues, with the number of stripes of those that have several."""
    return ", ".join(name if number == 1 else f"{name} ({number} stripes)" for name, number in stripes.items())


def _unknown(worker: Any) -> str:
    """How many messages it gave back, and of which jobs; empty: none."""
    return f"{worker.given_back}: {', '.join(worker.unknown_jobs)}" if worker.given_back else ""


_COLUMNS = (
    Column("name", cut=24),
    Column("state"),
    Column("host", drop=2, cut=12),
    Column("queues", drop=1, cut=12, show=lambda worker: _queues(worker.queues)),
    Column("runs", cut=12),
    Column("last_seen", show=lambda worker: away(worker.last_seen_at)),
    Column("unknown_jobs", drop=1, cut=16, show=_unknown),
    Column("version", drop=3),
)


@app.command("list")
@matching("no worker matches; those that have left in order are listed with --stopped")
def list_(
    shell: Shell,
    queue: Annotated[str | None, typer.Option(help="Only those that receive from this queue.")] = None,
    job: Annotated[str | None, typer.Option(help="Only those that know this job.")] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
    *,
    stopped: Annotated[
        bool, typer.Option("--stopped", help="Those that have left in order within a day, too.")
    ] = False,
    all_tenants: AllTenants = False,
) -> None:
    """List the workers with their runs at hand, and the jobs of messages that they gave back because they do not know them.

    A worker that vanished is shown for a day.
    """
    page = shell.scheduler.workers(
        queue=queue, job=job, stopped=stopped, all_tenants=all_tenants, limit=limit, cursor=cursor
    )
    shell.page(page, _COLUMNS)
    if any(worker.given_back for worker in page.items):
        shell.remark(f"a run waits 30 s each time a worker gets it that does not know its job: {OWN_QUEUE}")
