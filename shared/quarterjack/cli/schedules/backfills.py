"""``quarterjack schedules backfill`` and ``quarterjack backfills …``: run past fires, and show the progress."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import typer

from quarterjack.cli.moments import lateness
from quarterjack.cli.parameters import (
    ClientToken,
    Cursor,
    DryRun,
    ExpectedRevision,
    Limit,
    Name,
    Payload,
    RunTags,
    Yes,
    matching,
    payload_of,
    tags_given,
)
from quarterjack.cli.shell import Shell, stop_on_signals
from quarterjack.cli.tables import Column
from quarterjack.cli.typed import PAST
from quarterjack.errors import InvalidInput
from quarterjack.sdk.backfills import Backfill
from quarterjack.state.backfill import ENDED, BackfillState
from quarterjack.values import replace

app = typer.Typer(no_args_is_help=True)

Id = Annotated[str, typer.Argument(help="Id of the backfill, as `backfills list` prints it.")]
Watch = Annotated[
    bool, typer.Option("--watch", help="Show the progress until the backfill ends; after Ctrl-C it continues.")
]

_LISTED = (
    Column("id"),
    Column("state"),
    Column("total", drop=2),
    Column("done"),
    Column("skipped", drop=3),
    Column("failed"),
    Column("start", drop=1),
    Column("end", drop=1),
)
_OF_ALL = (Column("schedule"), *_LISTED)
_RUNS = (
    Column("due"),
    Column("state"),
    Column("lateness", drop=2, show=lateness),
    Column("reason", drop=1, cut=16),
    Column("id"),
)
_POLL = 1.0  # seconds between reads of its progress


@matching("there is nothing to run")
def start(
    shell: Shell,
    name: Name,
    begin: Annotated[
        datetime, PAST, typer.Argument(metavar="START", help="Start of the span, e.g. -3d, or 2026-12-01T00:00:00Z.")
    ],
    end: Annotated[datetime, PAST, typer.Argument(metavar="END", help="End of the span, exclusive, e.g. now.")],
    order: Annotated[str, typer.Option(help="Order of the fires: oldest or newest first.")] = "oldest",
    concurrency: Annotated[int, typer.Option(help="Maximum number of concurrent runs, 1 to 100.")] = 10,
    payload: Payload = None,
    tags: RunTags = None,
    expected_revision: ExpectedRevision = None,
    client_token: ClientToken = None,
    *,
    current: Annotated[bool, typer.Option("--current", help="Use the current definition for all fires.")] = False,
    allow_repeat: Annotated[
        bool,
        typer.Option("--allow-repeat", help="Include fires older than the ledger's retention, which may have run."),
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    watch: Watch = False,
) -> None:
    """Run the fires of a span that have no run yet. It prints their number and asks first; then the workers run them."""
    how: dict[str, Any] = {"order": order, "concurrency": concurrency, "current": current, "allow_repeat": allow_repeat}
    how |= {
        "expected_revision": expected_revision,
        "client_token": client_token,
        **payload_of(payload),
        **tags_given(tags),
    }
    planned = shell.scheduler.backfill(name, begin, end, **how, dry_run=True)
    missing = planned.total - (planned.there or 0)
    planned = replace(planned, why_nothing=[shell.words.text(reason) for reason in planned.why_nothing])
    if dry_run or not (missing or client_token):  # with a token the backfill may have been started before
        shell.show(planned)
        shell.matched(missing)
        return
    shell.confirm(f"Run {missing} fires of {name} ({planned.there} of {planned.total} have run already)", yes=yes)
    started = shell.scheduler.backfill(name, begin, end, **how, dry_run=False)
    shell.show(_watched(shell, started) if watch else started)


@app.command("list")
@matching("there is no such backfill")
def list_(
    shell: Shell,
    name: Annotated[str | None, typer.Argument(help="Name of the schedule. Default: all schedules.")] = None,
    state: Annotated[
        str | None,
        typer.Option(
            help="Only backfills in this state: RUNNING, PAUSED, CANCELLED or DONE. Without a schedule's name."
        ),
    ] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> None:
    """List the backfills of a schedule, oldest first, or of all schedules, newest first."""
    if name is None:
        shell.page(shell.scheduler.backfills(state=state, limit=limit, cursor=cursor), _OF_ALL)  # type: ignore[arg-type]
        return
    if state is not None or cursor is not None:
        given = ("state", state) if state is not None else ("cursor", cursor)
        raise InvalidInput(*given, "is for the backfills of all schedules", "leave it or the schedule's name out")
    found = shell.scheduler.list_backfills(name)
    shell.list(found, _LISTED)
    shell.matched(len(found))


@app.command()
def get(shell: Shell, name: Name, backfill: Id, *, watch: Watch = False) -> None:
    """Show a backfill and its progress."""
    found = shell.scheduler.get_backfill(name, backfill)
    shell.show(_watched(shell, found) if watch else found)


@app.command()
def pause(shell: Shell, name: Name, backfill: Id) -> None:
    """Pause a backfill. When the command has returned, none of its runs starts."""
    shell.show(shell.scheduler.pause_backfill(name, backfill))


@app.command()
def resume(shell: Shell, name: Name, backfill: Id) -> None:
    """Resume a backfill."""
    shell.show(shell.scheduler.resume_backfill(name, backfill))


@app.command()
def cancel(shell: Shell, name: Name, backfill: Id, *, yes: Yes = False) -> None:
    """Cancel a backfill. When the command has returned, none of its runs starts."""
    shell.confirm(f"Cancel backfill {backfill} of {name}", yes=yes)
    shell.show(shell.scheduler.cancel_backfill(name, backfill))


@app.command()
@matching("the backfill has no run")
def runs(shell: Shell, name: Name, backfill: Id, limit: Limit = 100, cursor: Cursor = None) -> None:
    """List the runs of a backfill."""
    shell.page(shell.scheduler.backfill_runs(name, backfill, limit=limit, cursor=cursor), _RUNS)


def _watched(shell: Shell, backfill: Backfill) -> Backfill:
    """Show a progress bar until the backfill ends or is paused, or until Ctrl-C."""
    assert backfill.id is not None
    with stop_on_signals() as stop, shell.progress(f"backfill of {backfill.schedule}", backfill.total) as advance:
        while not stop.is_set():
            advance(backfill.done + backfill.skipped)
            if backfill.state in ENDED or backfill.state is BackfillState.PAUSED:
                break
            stop.wait(_POLL)
            backfill = shell.scheduler.get_backfill(backfill.schedule, backfill.id)
    return backfill
