"""``minutehand jobs …``: the jobs that the installation's workers know."""

from __future__ import annotations

from typing import Annotated

import typer

from minutehand.cli.shell import Shell, print_json, values
from minutehand.cli.spoken import away
from minutehand.cli.tables import Column
from minutehand.domain.policies import Delivery
from minutehand.sdk.history.worker_views import JobView

app = typer.Typer(help="Show the jobs that workers know.", no_args_is_help=True)


def _attempts(job: JobView) -> str:
    return "1" if job.delivery is Delivery.AT_MOST_ONCE else str(job.retry.max_attempts)


def _timeout(job: JobView) -> str:
    return "" if job.timeout is None else f"{job.timeout:g} s"


_COLUMNS = (
    Column("name"),
    Column("queue", drop=1, cut=12),
    Column("delivery", drop=3),
    Column("attempts", drop=4, show=_attempts),
    Column("timeout", drop=5, show=_timeout),
    Column("version", drop=2, cut=12),
    Column("last_seen", show=lambda job: away(job.last_seen_at)),
)


@app.command("list")
def list_(
    shell: Shell,
    prefix: Annotated[str, typer.Argument(help="Only names that begin so.")] = "",
) -> None:
    """List the jobs that workers know, with their queues and policies; with --json also the schemas of their payloads.

    A worker publishes its jobs when it starts, a Lambda environment after its first batch.
    """
    found = [job for job in shell.scheduler.jobs() if job.name.startswith(prefix)]
    if shell.as_json:
        for job in found:
            print_json(values(job) | {"retry": vars(job.retry)})
        return
    shell.list(found, _COLUMNS)
    if not found and not prefix:
        shell.remark("no worker has published its jobs yet: start one, or send a Lambda worker its first run")
