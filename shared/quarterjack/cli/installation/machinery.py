"""The installation at work: ``quarterjack doctor``, and its jobs, workers and queues."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from datetime import timedelta
from types import SimpleNamespace
from typing import Annotated

import typer

from quarterjack.cli.exits import ExitCode
from quarterjack.cli.moments import away
from quarterjack.cli.parameters import AllTenants, Cursor, Limit, find_here, load_jobs, matching
from quarterjack.cli.shell import Shell, print_json, values
from quarterjack.cli.tables import Column
from quarterjack.domain.policies import Delivery
from quarterjack.sdk.history.views import JobView, QueueView, Worker
from quarterjack.state.worker_record import OWN_QUEUE
from quarterjack.terminal import span

jobs = typer.Typer(no_args_is_help=True)
workers = typer.Typer(no_args_is_help=True)
queues = typer.Typer(no_args_is_help=True)

_COLOURS = {"ok": "green", "warn": "yellow", "fail": "bold red"}


def _attempts(job: JobView) -> str:
    return "1" if job.delivery is Delivery.AT_MOST_ONCE else str(job.retry.max_attempts)


def _timeout(job: JobView) -> str:
    return "" if job.timeout is None else span(timedelta(seconds=job.timeout))


def _unknown(worker: Worker) -> str:
    """How many messages the worker gave back, and of which jobs; empty: none."""
    return f"{worker.given_back}: {', '.join(worker.unknown_jobs)}" if worker.given_back else ""


_JOBS = (
    Column("name"),
    Column("queue", drop=1, cut=12),
    Column("delivery", drop=3),
    Column("attempts", drop=4, show=_attempts),
    Column("timeout", drop=5, show=_timeout),
    Column("version", drop=2, cut=12),
    Column("last_seen", show=lambda job: away(job.last_seen_at)),
)
_WORKERS = (
    Column("name", cut=24),
    Column("state"),
    Column("host", drop=2, cut=12),
    Column("queue", drop=1, cut=12),
    Column("runs", cut=12),
    Column("last_seen", show=lambda worker: away(worker.last_seen_at)),
    Column("unknown_jobs", drop=1, cut=16, show=_unknown),
    Column("version", drop=3),
)
_SQS_QUEUES = (
    Column("queue", cut=16),
    Column("lane", drop=3),
    Column("number", drop=2),
    Column("waiting"),
    Column("in_flight"),
    Column("delayed", drop=1),
    Column("oldest_age"),
    Column("held", cut=16),
)


def doctor(
    shell: Shell,
    jobs: Annotated[
        list[str] | None, typer.Option(help="Package whose jobs must be importable here. Repeatable.")
    ] = None,
    sample: Annotated[int, typer.Option(min=1, max=1000, help="Number of schedules whose chains are checked.")] = 50,
) -> None:
    """Check the installation from this machine: print each problem with its remedy. Writes nothing.

    It checks configuration, access, tables, queues, bucket, permissions, clock, ticker, chains, incidents, backlog, and with --jobs the
    jobs and the process that isolated jobs start from. The exit code is 1 if something does not work.
    """
    from quarterjack.doctor import Severity, run_checks  # noqa: PLC0415 (it loads boto3, which `--help` does not need)

    seen = Counter[Severity]()
    find_here(jobs or ())
    for finding in run_checks(shell.settings, jobs=jobs or (), sample=sample):
        seen[finding.verdict] += 1
        if shell.as_json:
            print_json(asdict(finding))
            continue
        shell.say(f"{finding.verdict:<5}", style=_COLOURS[finding.verdict], end=" ")
        shell.say(f"{finding.check:<14}", style="bold", end="")
        shell.say(finding.what)
        if finding.remedy is not None:
            shell.say(f"{'':<20}→ {shell.words.text(finding.remedy)}")
    if not shell.as_json:
        shell.say(f"{seen[Severity.OK]} checks passed, {seen[Severity.WARN]} warnings, {seen[Severity.FAIL]} problems")
    if seen[Severity.FAIL]:
        raise typer.Exit(ExitCode.FAILED)


@jobs.command("list")
@matching("no job matches, or no worker has published its jobs yet: start one, or send a Lambda worker its first run")
def list_jobs(
    shell: Shell,
    prefix: Annotated[str, typer.Argument(help="Prefix of the names.")] = "",
) -> None:
    """List the jobs that workers know, with their queues and policies; with --json also the schemas of their payloads.

    A worker publishes its jobs when it starts, a Lambda environment after its first batch.
    """
    found = [job for job in shell.scheduler.jobs() if job.name.startswith(prefix)]
    if shell.as_json:
        for job in found:
            print_json(values(job) | {"retry": vars(job.retry)})
    else:
        shell.list(found, _JOBS)
    shell.matched(len(found))


@jobs.command()
def publish(
    shell: Shell,
    packages: Annotated[list[str], typer.Argument(help="Packages with jobs, as the workers load them.")],
) -> None:
    """Publish the jobs of packages, as a worker does at its start. Lambda workers publish theirs only after their first batch.

    Call it after a deployment, with a role that may schedule for all tenants. Jobs that are published already are not written again.
    """
    from quarterjack.clock import system_clock  # noqa: PLC0415 (`jobs list` needs none of these)
    from quarterjack.daemon.worker_record import catalogue_of  # noqa: PLC0415
    from quarterjack.services import connect  # noqa: PLC0415

    registry = load_jobs(packages)
    publisher = catalogue_of(connect(shell.settings), registry)
    if publisher is not None:
        publisher.publish(system_clock())
    shell.answer({"published": registry.names()}, f"{len(registry)} jobs are known")


@workers.command("list")
@matching("no worker matches; --stopped includes workers that have stopped")
def list_workers(
    shell: Shell,
    queue: Annotated[str | None, typer.Option(help="Only workers that serve this queue.")] = None,
    job: Annotated[str | None, typer.Option(help="Only workers that know this job.")] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
    *,
    stopped: Annotated[bool, typer.Option("--stopped", help="Include workers that stopped in the last day.")] = False,
    all_tenants: AllTenants = False,
) -> None:
    """List the workers with their present runs, and the unknown jobs whose messages they gave back.

    A worker that vanished is shown for a day.
    """
    page = shell.scheduler.workers(
        queue=queue, job=job, stopped=stopped, all_tenants=all_tenants, limit=limit, cursor=cursor
    )
    shell.page(page, _WORKERS)
    if any(worker.given_back for worker in page.items):
        shell.remark(f"a run waits 30 s each time a worker gets it that does not know its job: {OWN_QUEUE}")


@queues.command("list")
@matching("there is no queue")
def list_queues(shell: Shell) -> None:
    """List the queues: messages in each SQS queue, age of the oldest one, and whether the ticker holds the queue back."""
    found = shell.scheduler.queues()
    if shell.as_json:
        shell.list(found, ())
    else:
        shell.list([row for queue in found for row in _rows(queue)], _SQS_QUEUES)
    shell.matched(len(found))


def _rows(queue: QueueView) -> list[SimpleNamespace]:
    """A row for each SQS queue; the first also has the age and the hold, which belong to the queue."""
    rows = [
        SimpleNamespace(
            queue=queue.name,
            lane=str(each.priority),
            number=each.number,
            waiting=_number(each.waiting),
            in_flight=_number(each.in_flight),
            delayed=_number(each.delayed),
            oldest_age="",
            held="",
        )
        for each in queue.sqs_queues
    ]
    for first in rows[:1]:
        first.oldest_age, first.held = _age(queue), _held(queue)
    return rows


def _number(count: int | None) -> str:
    return "unknown" if count is None else str(count)


def _age(queue: QueueView) -> str:
    if queue.oldest_age is None:
        return "unknown"
    return span(queue.oldest_age) if queue.oldest_age else ""


def _held(queue: QueueView) -> str:
    if queue.held is None:
        return "unknown"
    return f"{queue.held_why} since {queue.held_since:%Y-%m-%d %H:%M:%S}Z" if queue.held else ""
