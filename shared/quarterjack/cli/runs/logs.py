"""``quarterjack runs logs``: the log lines of a run, from files on this machine or from CloudWatch Logs; and its traceback.

A traceback is printed as the author of a job reads it: without the frames of this package, which called the job.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

import quarterjack
from quarterjack.cli.parameters import RunId, matching
from quarterjack.cli.shell import Shell, print_json, text_of, values
from quarterjack.domain.run import RunState
from quarterjack.sdk.history.views import LogLine, LogPage
from quarterjack.sdk.views import Run
from quarterjack.terminal import in_one_line
from quarterjack.values import replace

_PACKAGE = Path(quarterjack.__file__).parent
_FRAME = re.compile(r'(?P<indent>[ |+]*)  File "(?P<path>[^"]+)", line \d+')
_HEADER = "Traceback (most recent call last):"
_PAGE = 1_000  # lines of one call


def show_traceback(shell: Shell, run: Run) -> None:
    """The traceback of the last failed attempt, if there is one; with --json the run has it."""
    last = run.failed_attempts[-1] if run.failed_attempts else None
    if last is None or not last.traceback or shell.as_json:
        return
    shell.say("")
    shell.say(f"attempt {last.number}:", style="bold")
    shell.say(of_the_job(last.traceback))


def of_the_job(text: str) -> str:
    """The traceback without our frames; of an error that our frames alone raised, its last lines."""
    kept, skipping = list[str](), None
    for line in text.rstrip().splitlines():
        frame = _FRAME.match(line)
        if frame is not None:
            skipping = frame["indent"] if _is_ours(frame["path"]) else None
        elif skipping is not None and not line.startswith(f"{skipping}    "):
            skipping = None
        if skipping is None:
            kept.append(line)
    return "\n".join(line for at, line in enumerate(kept) if not _is_empty(kept, at))


def _is_ours(path: str) -> bool:
    """Whether the file is one of this package, wherever the worker has it installed."""
    _, found, inside = path.replace("\\", "/").rpartition("/quarterjack/")
    return bool(found) and (_PACKAGE / inside).is_file()


def _is_empty(lines: list[str], at: int) -> bool:
    """Whether a line announces frames, and none are left."""
    return lines[at].endswith(_HEADER) and not (at + 1 < len(lines) and _FRAME.match(lines[at + 1]))


@matching("no log line of the run was found: none was written yet, or they have expired")
def logs(
    shell: Shell,
    run_id: RunId,
    folder: Annotated[
        Path | None,
        typer.Option(help="Folder with the log files of processes. Default: QUARTERJACK_LOGS, or CloudWatch Logs."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of lines, from the first.")] = 10_000,
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
            _print_line(shell, line)
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


def _print_line(shell: Shell, line: LogLine) -> None:
    if shell.as_json:
        print_json(values(line))
        return
    rest = "  ".join(f"{name}={text_of(value)}" for name, value in line.fields.items())
    at = line.at.isoformat(sep=" ", timespec="milliseconds").replace("+00:00", "Z")
    shell.say(in_one_line(f"{at}  {line.level or '':<7}  {line.source}  {line.event}  {rest}").rstrip())
    if line.traceback:
        shell.say(of_the_job(line.traceback))
