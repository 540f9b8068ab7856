"""The long-running processes: ``worker``, ``ticker``, ``undertaker``, and the ``audit``.

They run until SIGTERM or Ctrl-C, and log JSON lines to standard error.
"""

from __future__ import annotations

import logging
import os
import sys
from dataclasses import replace
from typing import Annotated

import typer

from minutehand import logs
from minutehand.cli.installation.packages import load_jobs
from minutehand.cli.installation.signals import stop_on_signals
from minutehand.cli.shell import of
from minutehand.daemon.roles import run_auditor, run_ticker, run_undertaker, run_worker


def worker(
    context: typer.Context,
    jobs: Annotated[
        list[str] | None, typer.Option(help="A package with jobs; may be repeated. Default: MINUTEHAND_JOBS.")
    ] = None,
    queue: Annotated[
        str | None,
        typer.Option(help="The declared queue to serve. Default: MINUTEHAND_WORK_QUEUE, or the default queue."),
    ] = None,
    concurrency: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=1000,
            help="Maximum number of concurrent runs, in threads. Default: what the queue declares, or 10.",
        ),
    ] = None,
    grace: Annotated[
        float, typer.Option(min=0, help="Seconds for running attempts after SIGTERM; then their runs are released.")
    ] = 10.0,
) -> None:
    """Run jobs: receive messages of a work queue by long polling."""
    settings = of(context).settings
    if queue is not None:
        settings = replace(settings, work_queue=queue)
    registry = load_jobs(jobs or ([settings.jobs] if settings.jobs else []))
    logs.configure()
    with stop_on_signals() as stop:
        recycle = run_worker(settings, registry, stop=stop, concurrency=concurrency, grace=grace)
    if recycle:  # the same process number, a new interpreter: whoever supervises it sees no exit
        os.execv(sys.executable, sys.orig_argv)  # noqa: S606  # ourselves, however we were started
    end_process()


def ticker(
    context: typer.Context,
    period: Annotated[float, typer.Option(min=0.1, max=120, help="Seconds between ticks.")] = 60.0,
) -> None:
    """Run the ticker: send the runs that are due within the look-ahead to the work queue. Several may run at once."""
    logs.configure()
    with stop_on_signals() as stop:
        run_ticker(of(context).settings, stop=stop, period=period)


def undertaker(context: typer.Context) -> None:
    """Record dead runs: read the dead-letter queue."""
    logs.configure()
    with stop_on_signals() as stop:
        run_undertaker(of(context).settings, stop=stop)


def audit(context: typer.Context) -> None:
    """Check the invariants on the live data once, and repair violations."""
    logs.configure()
    of(context).show(run_auditor(of(context).settings))


def end_process() -> None:
    """End the process at once: threads with released runs must stop before other workers take these runs."""
    logging.shutdown()
    os._exit(0)
