"""``minutehand runs cancel``: one run, or the runs of a schedule that were due in a span of time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from minutehand.cli.installation.signals import stop_on_signals
from minutehand.cli.output import print_json, read_moment, text_of
from minutehand.cli.parameters import DryRun, Yes
from minutehand.cli.shell import Shell, of
from minutehand.errors import InvalidInput

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_AHEAD = timedelta(days=1)  # runs are claimed a quarter of an hour ahead at the most


def run(
    context: typer.Context,
    run_id: Annotated[str | None, typer.Argument(help="One run; or give --schedule.")] = None,
    schedule: Annotated[str | None, typer.Option(help="All runs of this schedule that have not ended.")] = None,
    after: Annotated[
        str | None, typer.Option(help="Of these, those due later than, e.g. 2026-12-24T18:00:00Z.")
    ] = None,
    before: Annotated[str | None, typer.Option(help="Of these, those due up to then.")] = None,
    *,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Cancel a run, or the runs of a schedule. A waiting run never starts; a running one is asked to end.

    Later fires still start: to stop these, too, pause the schedule first.
    """
    shell = of(context)
    if (run_id is None) == (schedule is None):
        raise InvalidInput("run_id", run_id, "say which runs", "give the id of a run, or --schedule and a span")
    if schedule is not None:
        span = (read_moment(after, "after"), read_moment(before, "before"))
        _of_schedule(shell, schedule, span, dry_run=dry_run, yes=yes)
        return
    if dry_run or after is not None or before is not None:
        raise InvalidInput(
            "run_id", run_id, "was given with an option for many", "leave --after, --before and --dry-run"
        )
    shell.show(shell.scheduler().cancel_run(str(run_id)))


def _of_schedule(
    shell: Shell, name: str, span: tuple[datetime | None, datetime | None], *, dry_run: bool, yes: bool
) -> None:
    scheduler = shell.scheduler()
    between = (span[0] or _EPOCH, span[1] or datetime.now(UTC) + _AHEAD)
    total = scheduler.cancel_runs(name, between=between, dry_run=True)
    which = f"{name}{_describe(span)}"
    done = 0
    if total and not dry_run:
        shell.confirm(f"Cancel {total} runs of {which}", yes=yes)
        with stop_on_signals() as stop, shell.progress("cancelling", total) as advance:
            done = scheduler.cancel_runs(name, between=between, on_progress=advance, stop=stop)
    count = total if dry_run else done
    if shell.as_json:
        print_json({"count": count, "dry_run": dry_run})
    else:
        shell.say(f"{count} runs of {which} {'would be' if dry_run else 'are'} cancelled or asked to end")


def _describe(span: tuple[datetime | None, datetime | None]) -> str:
    after, before = span
    return (f" due after {text_of(after)}" if after else "") + (f" due up to {text_of(before)}" if before else "")
