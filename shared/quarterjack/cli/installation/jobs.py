"""``quarterjack jobs …``: the jobs that the installation's workers know, and their publication without a worker."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer

from quarterjack.cli.parameters import load_jobs, matching
from quarterjack.cli.shell import Shell, print_json, values
from quarterjack.cli.spoken import away
from quarterjack.cli.tables import Column
from quarterjack.domain.policies import Delivery
from quarterjack.sdk.history.worker_views import JobView
from quarterjack.terminal import span

app = typer.Typer(help="Show the jobs that workers know.", no_args_is_help=True)


def _attempts(job: JobView) -> str:
    return "1" if job.delivery is Delivery.AT_MOST_ONCE else str(job.retry.max_attempts)


def _timeout(job: JobView) -> str:
    return "" if job.timeout is None else span(timedelta(seconds=job.timeout))


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
@matching("no job matches, or no worker has published its jobs yet: start one, or send a Lambda worker its first run")
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
    else:
        shell.list(found, _COLUMNS)
    shell.matched(len(found))


@app.command()
def publish(
    shell: Shell,
    packages: Annotated[list[str], typer.Argument(help="Packages with jobs, as the workers load them.")],
) -> None:
    """Publish the jobs of packages as a worker does when it starts: for Lambda workers, which do so after their first batch only.

    Call it when they are deployed, by a role that may schedule for all tenants. It writes nothing that is known already.
    """
    from quarterjack.clock import system_clock  # noqa: PLC0415 (`jobs list` needs none of these)
    from quarterjack.daemon.worker_record import catalogue_of  # noqa: PLC0415
    from quarterjack.services import connect  # noqa: PLC0415

    registry = load_jobs(packages)
    publisher = catalogue_of(connect(shell.settings), registry)
    if publisher is not None:
        publisher.publish(system_clock())
    shell.answer({"published": registry.names()}, f"{len(registry)} jobs are known")
