"""``minutehand submit``: run a job once."""

from __future__ import annotations

from typing import Annotated

import typer

from minutehand.cli.output import read_moment, read_payload
from minutehand.cli.parameters import Key, Payload
from minutehand.cli.shell import of
from minutehand.domain.policies import Retry


def run(
    context: typer.Context,
    job: Annotated[str, typer.Argument(help="Name of the job.")],
    payload: Payload = None,
    at: Annotated[str | None, typer.Option(help="When, e.g. 2026-12-24T18:00:00Z. Default: now.")] = None,
    delay: Annotated[float | None, typer.Option(help="Seconds from now, instead of --at.")] = None,
    key: Key = None,
    delivery: Annotated[
        str | None, typer.Option(help="at_least_once or at_most_once instead of the job's own.")
    ] = None,
    start: Annotated[str | None, typer.Option(help="prompt or exact instead of the job's own.")] = None,
    max_attempts: Annotated[int | None, typer.Option(help="Instead of the job's own.")] = None,
) -> None:
    """Run a job once: now, at a time, or after a delay."""
    shell = of(context)
    run = shell.scheduler().submit(
        job,
        None if payload is None else read_payload(payload),
        run_at=read_moment(at, "at"),
        delay=delay,
        idempotency_key=key,
        delivery=delivery,
        start=start,
        retry=None if max_attempts is None else Retry(max_attempts=max_attempts),
    )
    shell.show(run)
