"""``minutehand runs logs``: the log lines of a run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from minutehand.cli.output import print_json
from minutehand.cli.parameters import RunId
from minutehand.cli.runs.log_lines import LogLine, from_cloudwatch, from_folder
from minutehand.cli.shell import Shell, of
from minutehand.domain.run import TERMINAL
from minutehand.sdk.views import Run

_MARGIN = timedelta(minutes=1)  # clocks differ, and lines come late
_SHOWN_ELSEWHERE = frozenset({"time", "level", "event", "message", "logger", "run_id", "traceback", "exception"})


def run(
    context: typer.Context,
    run_id: RunId,
    folder: Annotated[
        Path | None,
        typer.Option(help="Folder with the log files of processes. Default: MINUTEHAND_LOGS, or CloudWatch Logs."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of lines, the first ones.")] = 10_000,
) -> None:
    """Print the log lines of a run, of its job and of Minutehand: from CloudWatch Logs, or from files of processes on this machine.

    The job's lines are those of its loggers (`ctx.logger` or any other). Printed output has no run id and is not shown.
    """
    shell = of(context)
    found = shell.scheduler().get_run(run_id)
    place = folder or (Path(shell.settings.logs) if shell.settings.logs else None)
    lines = from_folder(place, run_id) if place else from_cloudwatch(shell.settings, run_id, *_span(found))
    shown = 0
    for line in lines:
        if shown == limit:
            shell.remark(f"the first {limit} lines; there are more: raise --limit")
            return
        _print(shell, line)
        shown += 1
    if not shown:
        shell.remark(f"nothing was logged about it in {place or 'CloudWatch Logs'} yet, or it is gone already")


def _span(found: Run) -> tuple[datetime, datetime]:
    """The time span in which a run can have log lines."""
    begin = min(found.due, found.started_at or found.due)
    end = found.ended_at if found.state in TERMINAL and found.ended_at is not None else datetime.now(UTC)
    return begin - timedelta(minutes=15), max(end, begin) + _MARGIN


def _print(shell: Shell, line: LogLine) -> None:
    if shell.as_json:
        print_json({"source": line.source, **line.fields})
        return
    fields = line.fields
    event = fields.get("event") or fields.get("message") or ""
    rest = "  ".join(f"{name}={value}" for name, value in fields.items() if name not in _SHOWN_ELSEWHERE)
    at = line.at.isoformat(sep=" ", timespec="milliseconds").replace("+00:00", "Z")
    shell.say(f"{at}  {fields.get('level', ''):<7}  {line.source}  {event}  {rest}".rstrip())
    trace = fields.get("traceback") or fields.get("exception")
    if trace:
        shell.say(str(trace))
