"""The roles as processes on this machine: ``worker``, ``ticker``, ``undertaker``, ``historian``.

The roles run until SIGTERM or Ctrl-C, and log to standard error: JSON lines, at a terminal lines for people below a banner.
"""

from __future__ import annotations

import logging
import os
import sys
from datetime import timedelta
from typing import Annotated

import typer

from quarterjack.cli.installation.banner import configure_logs, metric_lines, names_of, show_banner
from quarterjack.cli.parameters import load_jobs
from quarterjack.cli.shell import Shell, stop_on_signals
from quarterjack.cli.typed import Duration
from quarterjack.daemon.health import HealthServer
from quarterjack.daemon.roles import (
    HISTORIAN_PERIOD,
    run_historian,
    run_ticker,
    run_undertaker,
    service_of,
    worker_process,
)
from quarterjack.daemon.worker_process import WorkerProcess
from quarterjack.errors import Misconfigured
from quarterjack.jobs import Registry
from quarterjack.posix import check_posix
from quarterjack.settings import Settings
from quarterjack.signals.sinks import PrometheusFigures, Sink
from quarterjack.terminal import span
from quarterjack.values import replace

EmbeddedMetrics = Annotated[
    bool,
    typer.Option("--embedded-metrics", help="Write metrics to standard output in CloudWatch's embedded format."),
]


def worker(
    shell: Shell,
    jobs: Annotated[
        list[str] | None, typer.Option(help="Package with jobs. Repeatable. Default: QUARTERJACK_JOBS.")
    ] = None,
    queue: Annotated[
        str | None,
        typer.Option(help="Declared queue to serve. Default: QUARTERJACK_WORK_QUEUE, or the default queue."),
    ] = None,
    concurrency: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=1000,
            help="Maximum number of concurrent runs, in threads. Default: the queue's declared number, or 10.",
        ),
    ] = None,
    grace: Annotated[
        float,
        Duration(least=0),
        typer.Option(help="Time for running attempts after SIGTERM, after which their runs are released."),
    ] = 10.0,
    max_memory: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Resident memory in MB beyond which the worker ends as after SIGTERM and restarts. Default: no limit.",
        ),
    ] = None,
    *,
    apply: Annotated[
        bool | None,
        typer.Option(
            "--apply/--no-apply",
            help="Apply the schedules that the packages declare, once for all workers. Default: QUARTERJACK_APPLY_DECLARATIONS, or not.",
        ),
    ] = None,
    health: Annotated[
        str | None,
        typer.Option(
            metavar="PORT",
            help="Loopback port, or address as 0.0.0.0:8080, of /healthz, /readyz and /metrics.",
        ),
    ] = None,
    embedded_metrics: EmbeddedMetrics = False,
) -> None:
    """Run jobs: receive messages of a work queue by long polling."""
    check_posix("quarterjack worker")
    settings = shell.settings if queue is None else replace(shell.settings, work_queue=queue)
    packages = jobs or ([settings.jobs] if settings.jobs else [])
    registry = load_jobs(packages)
    at_terminal = configure_logs(shell)
    applies = settings.apply_declarations if apply is None else apply
    scraped = None if health is None else _scraped(settings)
    sinks: list[Sink] = [] if scraped is None else [scraped]
    sinks += metric_lines(settings, "worker", wanted=embedded_metrics)
    process = worker_process(
        settings,
        registry,
        concurrency=concurrency,
        max_memory=max_memory,
        apply=packages if applies else None,
        sinks=sinks,
    )
    if health is not None:
        text = None if scraped is None else scraped.text
        HealthServer(health, alive=process.find_ailment, ready=process.find_obstacle, figures=text).start()
    with stop_on_signals() as stop:
        if at_terminal:
            _show_worker(shell, process, registry, grace)
        recycle = process.run(stop=stop, grace=grace)
    if recycle:  # the same process number, a new interpreter: a supervisor sees no exit
        os.execv(sys.executable, sys.orig_argv)  # noqa: S606  # ourselves, however we were started
    logging.shutdown()
    os._exit(0)  # at once: threads with released runs must stop before other workers take these runs


def _scraped(settings: Settings) -> PrometheusFigures | None:
    """The figures of /metrics; None without the library: health probes do not need it, and /metrics names it."""
    try:
        return PrometheusFigures(service_of(settings))
    except Misconfigured:
        return None


def _show_worker(shell: Shell, process: WorkerProcess, jobs: Registry, grace: float) -> None:
    serves = {"queue": process.queue, "jobs": names_of(jobs.names()), "concurrency": f"{process.concurrency} runs"}
    stop = f"Ctrl-C, or SIGTERM: runs get {span(timedelta(seconds=grace))} to end; a second Ctrl-C does not wait"
    show_banner(shell, "worker", serves, stop=stop)


def ticker(
    shell: Shell,
    period: Annotated[float, Duration(least=0.1, most=120), typer.Option(help="Time between ticks.")] = 60.0,
    *,
    embedded_metrics: EmbeddedMetrics = False,
) -> None:
    """Run the ticker: send the runs that are due within the look-ahead to the work queue. Several may run at once."""
    at_terminal = configure_logs(shell)
    with stop_on_signals() as stop:
        if at_terminal:
            show_banner(shell, "ticker", {"period": span(timedelta(seconds=period))})
        sinks = metric_lines(shell.settings, "ticker", wanted=embedded_metrics)
        run_ticker(shell.settings, stop=stop, period=period, sinks=sinks)


def undertaker(shell: Shell, *, embedded_metrics: EmbeddedMetrics = False) -> None:
    """Record dead runs: read the dead-letter queue."""
    at_terminal = configure_logs(shell)
    with stop_on_signals() as stop:
        if at_terminal:
            show_banner(shell, "undertaker", {"reads": "the dead-letter queue"})
        sinks = metric_lines(shell.settings, "undertaker", wanted=embedded_metrics)
        run_undertaker(shell.settings, stop=stop, sinks=sinks)


def historian(
    shell: Shell,
    period: Annotated[
        float, Duration(least=0.1, most=60), typer.Option(help="Time between two reads of the stream.")
    ] = HISTORIAN_PERIOD,
    *,
    embedded_metrics: EmbeddedMetrics = False,
) -> None:
    """Write the history: follow the stream of runs. One is enough; on AWS the Lambda function does it."""
    at_terminal = configure_logs(shell)
    with stop_on_signals() as stop:
        if at_terminal:
            show_banner(shell, "historian", {"reads": "the stream of runs", "period": span(timedelta(seconds=period))})
        run_historian(
            shell.settings,
            stop=stop,
            period=period,
            sinks=metric_lines(shell.settings, "historian", wanted=embedded_metrics),
            event_sinks=metric_lines(shell.settings, "events", wanted=embedded_metrics),
        )
