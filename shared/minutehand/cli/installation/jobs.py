"""``minutehand jobs …``: the jobs that the installation's workers know."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

import typer

from minutehand.cli.shell import Shell, print_json, values
from minutehand.domain.policies import Delivery
from minutehand.sdk.history.worker_views import JobView

app = typer.Typer(help="Show the jobs that workers know.", no_args_is_help=True)

_COLUMNS = ("name", "queue", "delivery", "attempts", "timeout", "version", "last_seen_at")
_NARROW = {"name": True, "queue": False, "version": True, "last_seen_at": False}


@dataclass(frozen=True, kw_only=True)
class _Line:
    name: str
    queue: str
    delivery: Delivery
    attempts: int
    timeout: str
    version: str | None
    last_seen_at: datetime


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
            print_json(_record(job))
        return
    shell.list(map(_line, found), _COLUMNS, narrow=_NARROW)
    if not found and not prefix:
        shell.remark("no worker has published its jobs yet: start one, or send a Lambda worker its first run")


def _record(job: JobView) -> dict[str, Any]:
    return values(job) | {"retry": vars(job.retry)}


def _line(job: JobView) -> _Line:
    once = job.delivery is Delivery.AT_MOST_ONCE
    return _Line(
        name=job.name,
        queue=job.queue,
        delivery=job.delivery,
        attempts=1 if once else job.retry.max_attempts,
        timeout="" if job.timeout is None else f"{job.timeout:g} s",
        version=job.version,
        last_seen_at=job.last_seen_at,
    )
