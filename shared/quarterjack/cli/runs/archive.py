"""``quarterjack archive …``: read the transitions of runs from the archive in the bucket."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice
from typing import Annotated, Any, cast

import typer

from quarterjack.cli.parameters import matching
from quarterjack.cli.shell import Shell, stop_on_signals, text_of, values
from quarterjack.cli.typed import PAST
from quarterjack.sdk.views import RunTransition
from quarterjack.terminal import in_one_line

app = typer.Typer(help="Read the archive of all transitions of runs.", no_args_is_help=True)


@app.callback()
def _group() -> None:  # with a callback it is a group, also of one command
    pass


@app.command()
@matching("no transition matches")
def read(
    shell: Shell,
    since: Annotated[datetime, PAST, typer.Option(help="From then on, e.g. -3d, or 2026-12-24T18:00:00Z.")],
    until: Annotated[datetime | None, PAST, typer.Option(help="Before then. Default: now.")] = None,
    schedule: Annotated[str | None, typer.Option(help="Of the runs of this schedule.")] = None,
    job: Annotated[str | None, typer.Option(help="Of the runs of this job.")] = None,
    run_id: Annotated[str | None, typer.Option("--run", help="Of this run.")] = None,
    kind: Annotated[str | None, typer.Option(help="Only these: claimed, leased, retried, succeeded, dead …")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Maximum number of lines. Default: all.")] = None,
) -> None:
    """Print what happened to runs, oldest first, as it is read; Ctrl-C ends it."""
    found = shell.scheduler.archive(
        since=since,
        until=until,
        schedule=schedule,
        job=job,
        run_id=run_id,
        kind=cast(Any, kind),
    )
    with stop_on_signals() as stop:
        printed = 0
        for transition in islice(found, limit):
            if stop.is_set():
                return
            print_transition(shell, transition)
            printed += 1
    shell.matched(printed)


def print_transition(shell: Shell, transition: RunTransition) -> None:
    """A line of text, or of JSON with all fields."""
    states = " → ".join(state or "-" for state in (transition.before, transition.after))
    about = ", ".join(filter(None, _parts(transition)))
    text = f"{text_of(transition.at)}  {transition.kind:<16}  {states:<22}  {transition.run}  {about}"
    shell.answer(values(transition), in_one_line(text).rstrip())


def _parts(transition: RunTransition) -> tuple[str | None, ...]:
    waits = transition.not_before if transition.kind in ("retried", "continued", "hastened") else None
    return (
        f"worker {transition.worker}" if transition.kind == "leased" else None,
        f"fence {transition.fence}" if transition.fence else None,
        f"attempt {transition.attempt}" if transition.attempt > 1 else None,
        f"next at {text_of(waits.astimezone(UTC))}" if isinstance(waits, datetime) else None,
        transition.reason,
        " ".join(filter(None, (transition.error_type, transition.error_code))),
        f"{transition.skipped} fires" if transition.skipped else None,
    )
