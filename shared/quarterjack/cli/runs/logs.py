"""``quarterjack runs logs``: the log lines of a run, from the files of processes here, or from CloudWatch Logs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from quarterjack.cli.parameters import RunId, matching
from quarterjack.cli.shell import Shell, print_json, text_of, values
from quarterjack.cli.tracebacks import of_the_job, show_traceback
from quarterjack.domain.run import RunState
from quarterjack.sdk.history.log_views import LogLine, LogPage
from quarterjack.terminal import in_one_line

_PAGE = 1_000  # lines of one call


@matching("nothing was logged about it yet, or it is gone already")
def logs(
    shell: Shell,
    run_id: RunId,
    folder: Annotated[
        Path | None,
        typer.Option(help="Folder with the log files of processes. Default: QUARTERJACK_LOGS, or CloudWatch Logs."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of lines, the first ones.")] = 10_000,
) -> None:
    """Print the log lines of a run, of its job and of Quarterjack: from CloudWatch Logs, or from files of processes on this machine.

    The job's lines are those of its loggers (`ctx.logger` or any other). Printed output has no run id and is not shown.
    If no line has a traceback, that of the last failed attempt follows from the ledger.
    """
    if folder is not None:
        shell = replace(shell, settings=replace(shell.settings, logs=str(folder)))
    shown, page, told = 0, None, False
    for page in _pages(shell, run_id, limit):
        for line in page.items:
            _print(shell, line)
            told = told or bool(line.traceback)
        shown += len(page.items)
        if shown >= limit:
            break
    if page is not None and page.missing is not None:
        shell.remark(page.missing)
    if not told:
        _traceback_of(shell, run_id)
    shell.matched(shown)
    if page is not None and page.cursor is not None:
        shell.remark(f"the first {limit} lines; there may be more: raise --limit")


def _pages(shell: Shell, run_id: str, limit: int) -> Iterator[LogPage]:
    cursor = None
    while True:
        page = shell.scheduler.run_logs(run_id, limit=min(limit, _PAGE), cursor=cursor)
        limit -= len(page.items)
        yield page
        if (cursor := page.cursor) is None:
            return


def _traceback_of(shell: Shell, run_id: str) -> None:
    """Workers log an error without its traceback, which the ledger has."""
    run = shell.scheduler.get_run(run_id)
    if run.state is not RunState.SUCCEEDED:
        show_traceback(shell, run)


def _print(shell: Shell, line: LogLine) -> None:
    if shell.as_json:
        print_json(values(line))
        return
    rest = "  ".join(f"{name}={text_of(value)}" for name, value in line.fields.items())
    at = line.at.isoformat(sep=" ", timespec="milliseconds").replace("+00:00", "Z")
    shell.say(in_one_line(f"{at}  {line.level or '':<7}  {line.source}  {line.event}  {rest}").rstrip())
    if line.traceback:
        shell.say(of_the_job(line.traceback))
