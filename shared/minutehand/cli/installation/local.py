"""``minutehand local``: the whole scheduler on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from minutehand.cli.installation.signals import stop_on_signals
from minutehand.cli.shell import of
from minutehand.cli.terminal import console


def run(
    context: typer.Context,
    seconds: Annotated[float | None, typer.Option("--for", min=1, help="End after this many seconds.")] = None,
    data: Annotated[Path | None, typer.Option(file_okay=False, help="Keep the state in this directory.")] = None,
    jobs: Annotated[list[str] | None, typer.Option(help="A package with your own jobs; may be repeated.")] = None,
    *,
    examples: Annotated[bool, typer.Option(help="Schedule the examples.")] = True,
    tickers: Annotated[int, typer.Option(min=1, max=8, help="Ticker processes.")] = 1,
    workers: Annotated[int, typer.Option(min=1, max=32, help="Worker processes.")] = 2,
) -> None:
    """Run everything on this machine: an embedded cloud, a ticker, workers, and examples to watch.

    Ends at Ctrl-C, or after --for seconds, with a summary. The exit code is 1 if a fire was missing or double.
    """
    from minutehand.local.session import session  # noqa: PLC0415 (it loads boto3, which no other command needs)

    settings = of(context).settings
    options = session.LocalOptions(
        seconds=seconds,
        data=data,
        jobs=tuple(jobs or ()),
        examples=examples,
        tickers=tickers,
        workers=workers,
        tenant=settings.tenant,
        prefix=settings.prefix,
    )
    with stop_on_signals() as stop:
        try:
            session.run(options, console.console, stop)
        except session.UncleanSession as problem:
            console.print(f"[red]{problem}", soft_wrap=True)
            raise typer.Exit(1) from None
