"""Runs to start again: ``quarterjack dead …`` for runs that failed for good, ``quarterjack resend`` for waiting runs without a message."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import typer

from quarterjack.cli.moments import in_short
from quarterjack.cli.parameters import AllTenants, Cursor, DryRun, Limit, Payload, Yes, matching, payload_of
from quarterjack.cli.schedules.options import with_dead_filters, with_purge_filters
from quarterjack.cli.shell import Advance, Shell, stop_on_signals, values
from quarterjack.cli.tables import Column
from quarterjack.cli.typed import EITHER
from quarterjack.errors import QuarterjackError
from quarterjack.sdk.history.workers import Resent

app = typer.Typer(no_args_is_help=True)

_ENDED = (
    Column("ended_at", short=in_short("ended_at")),
    Column("state", drop=7),
    Column("job", drop=4, cut=12),
    Column("error_type", drop=3, cut=12),
)
_COLUMNS = (
    *_ENDED,
    Column("error", cut=16),
    Column("reason", drop=5, cut=12),
    Column("attempts", drop=6),
    Column("id"),
)
_COLUMNS_REDRIVEN = (*_ENDED, Column("id"), Column("redriven_as", drop=2))


@app.command("list")
@matching("no dead run matches; without --since only the last 24 hours are searched")
@with_dead_filters
def list_(
    shell: Shell,
    limit: Limit = 100,
    cursor: Cursor = None,
    *,
    include_redriven: Annotated[bool, typer.Option("--include-redriven", help="Include redriven runs.")] = False,
    **conditions: Any,
) -> None:
    """List the runs of all jobs that failed for good, newest first."""
    page = shell.scheduler.list_dead(**conditions, include_redriven=include_redriven, limit=limit, cursor=cursor)
    shell.page(page, (*_COLUMNS, Column("redriven_as", drop=6)) if include_redriven else _COLUMNS)


@app.command()
@matching("no dead run matches; without --since only the last 24 hours are searched")
@with_dead_filters
def redrive(
    shell: Shell,
    run_id: Annotated[
        str | None, typer.Argument(metavar="RUN", help="Id of one run. Without it, give filter options.")
    ] = None,
    payload: Payload = None,
    rate: Annotated[float, typer.Option(help="Maximum number of runs per second.")] = 50.0,
    limit: Annotated[int | None, typer.Option(help="Maximum number of runs.")] = None,
    *,
    allow_repeat: Annotated[
        bool, typer.Option("--allow-repeat", help="Include LOST runs, which may have done their work.")
    ] = False,
    as_it_was: Annotated[bool, typer.Option("--as-it-was", help="Keep the application versions of the runs.")] = False,
    dry_run: DryRun = False,
    **conditions: Any,
) -> None:
    """Repeat dead runs, each once. Ctrl-C ends it between two runs; the same command continues."""
    conditions |= {
        "allow_repeat": allow_repeat,
        "as_it_was": as_it_was,
        "dry_run": dry_run,
        "rate": rate,
        "limit": limit,
    }
    conditions |= payload_of(payload)
    with stop_on_signals() as stop, shell.progress("redriving") as advance:
        done = shell.scheduler.redrive(run_id, **conditions, stop=stop, on_progress=advance)
    seen = done.count + len(done.failed) if done.cursor is None else 1
    if shell.as_json:
        shell.show(done)
        shell.matched(seen)
        return
    shell.list(done.runs, _COLUMNS_REDRIVEN)
    for problem in done.failed.values():
        shell.say(f"not repeated: {shell.words.text(problem)}", style="red")
    rest = "" if done.cursor is None else "; there are more: the same command continues"
    verb = "would be" if dry_run else "are"
    shell.say(f"{done.count} {verb} repeated, {len(done.failed)} cannot be{rest}", style="dim")
    shell.matched(seen)


@app.command()
@matching("no dead run matches")
@with_purge_filters
def purge(
    shell: Shell,
    run_id: Annotated[
        str | None, typer.Argument(metavar="RUN", help="Id of one run. Without it, give filter options.")
    ] = None,
    *,
    dry_run: DryRun = False,
    yes: Yes = False,
    **conditions: Any,
) -> None:
    """Remove dead runs from the list; the runs themselves stay in the ledger."""
    count = shell.scheduler.purge(run_id, **conditions, dry_run=True)
    if count and not dry_run:
        shell.confirm(f"Remove {count} {'run' if count == 1 else 'runs'} from the list of dead runs", yes=yes)
        count = shell.scheduler.purge(run_id, **conditions)
    shell.answer(
        {"count": count, "dry_run": dry_run}, f"{count} {'would be' if dry_run else 'are'} removed from the list"
    )
    shell.matched(count)


@matching("no run should have a message in a queue now: nothing was lost, or it ended")
def resend(
    shell: Shell,
    queue: Annotated[str | None, typer.Option(help="Only runs of this queue, e.g. default.")] = None,
    job: Annotated[str | None, typer.Option(help="Only runs of this job.")] = None,
    due_before: Annotated[
        datetime | None, EITHER, typer.Option(help="Only runs that are due before this time, e.g. now.")
    ] = None,
    rate: Annotated[float, typer.Option(help="Maximum number of messages per second.")] = 50.0,
    limit: Annotated[int | None, typer.Option(help="Maximum number of messages.")] = None,
    cursor: Cursor = None,
    *,
    all_tenants: AllTenants = False,
    dry_run: DryRun = False,
) -> None:
    """Send waiting runs to the work queues again, after a queue was purged, deleted or recreated.

    It reads the whole ledger. No run starts twice. Ctrl-C ends it between two messages; the printed cursor continues.
    """
    with stop_on_signals() as stop, shell.progress("sending") as advance:
        last = _Last(advance)
        try:
            done = shell.scheduler.resend(
                all_tenants=all_tenants,
                queue=queue,
                job=job,
                due_before=due_before,
                dry_run=dry_run,
                rate=rate,
                limit=limit,
                cursor=cursor,
                stop=stop,
                on_progress=last,
            )
        except QuarterjackError:
            if last.seen is not None and last.seen.cursor is not None:
                shell.warn(f"{last.seen.count:,} messages were sent; {shell.continued(last.seen.cursor)} goes on")
            raise
    shell.answer(values(done) | {"count": done.count}, _told(done))
    if done.cursor is not None:
        shell.remark(f"the ledger is not read to its end: {shell.continued(done.cursor)} goes on")
    if done.refused or done.unread:
        shell.warn("some were left out, and still wait: the same command without --cursor sends them")
    shell.matched(done.count + done.queued + sum(done.refused.values()))


class _Last:
    """Keeps the last progress, and shows it."""

    def __init__(self, advance: Advance) -> None:
        self._advance = advance
        self.seen: Resent | None = None

    def __call__(self, progress: Resent) -> None:
        self.seen = progress
        self._advance(progress.count)


def _told(done: Resent) -> str:
    verb = "would be sent" if done.dry_run else "sent"
    lines = [f"{count:>12,}  {verb} to queue {name}" for name, count in sorted(done.sent.items())]
    lines += [f"{count:>12,}  not accepted by queue {name}" for name, count in sorted(done.refused.items())]
    counts = {"wait for a permit of a concurrency cap": done.queued, "could not be read": done.unread}
    lines += [f"{count:>12,}  {what}" for what, count in counts.items() if count]
    return "\n".join(lines or [f"{0:>12,}  {verb}"])
