"""``quarterjack history …``: make the history again from the ledger."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from quarterjack.cli.moments import WORDS
from quarterjack.cli.shell import Shell, stop_on_signals, values
from quarterjack.cli.typed import PAST

app = typer.Typer(help="The history of runs as a whole.", no_args_is_help=True)


@app.callback()
def _group() -> None:  # with a callback it is a group, also of one command
    pass


@app.command()
def rebuild(
    shell: Shell,
    since: Annotated[
        datetime, PAST, typer.Option(help=f"Runs that ended from then on, e.g. 2026-12-24T18:00:00Z, or {WORDS}.")
    ],
    until: Annotated[datetime | None, PAST, typer.Option(help="And up to then. Default: all later ones.")] = None,
    *,
    all_tenants: Annotated[bool, typer.Option("--all-tenants", help="Of every tenant, not only of one.")] = False,
) -> None:
    """Fill the history from the ledger, after a gap in the stream of the runs. It may run beside the historian, and again."""
    with stop_on_signals() as stop, shell.progress("reading runs") as advance:
        done = shell.scheduler.rebuild_history(
            since=since,
            until=until,
            all_tenants=all_tenants,
            stop=stop,
            on_progress=advance,
        )
    rest = "; it was stopped: the same command does the rest" if done.stopped else ""
    text = f"{done.runs} runs read, {done.added} added to the history, {done.corrected} entries corrected{rest}"
    shell.answer(values(done), text)
