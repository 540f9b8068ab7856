"""``minutehand runs logs``: the log lines of a run, from the files of processes here, or from the functions' groups in CloudWatch."""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any

import typer

from minutehand.aws import Client
from minutehand.cli.parameters import RunId, matching
from minutehand.cli.shell import Shell, pages, print_json
from minutehand.domain.run import TERMINAL
from minutehand.domain.times import from_ms, to_ms
from minutehand.errors import Misconfigured
from minutehand.local.processes import parse
from minutehand.sdk.views import Run
from minutehand.settings import Settings
from minutehand.terminal import in_one_line

_EARLIER, _LATER = timedelta(minutes=15), timedelta(minutes=1)  # runs are claimed early; clocks differ, lines come late
_SHOWN_ELSEWHERE = frozenset({"time", "level", "event", "message", "logger", "run_id", "traceback", "exception"})
_BY_TIME = attrgetter("at")
_PARTS = ("worker", "undertaker", "ticker", "auditor")  # functions; a declared queue's is `worker-<name>`


@dataclass(frozen=True, kw_only=True)
class LogLine:
    at: datetime  # aware
    source: str  # process or function
    fields: Mapping[str, Any]  # as logged


@matching("nothing was logged about it yet, or it is gone already")
def logs(
    shell: Shell,
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
    run = shell.scheduler.get_run(run_id)
    place = folder or (Path(shell.settings.logs) if shell.settings.logs else None)
    lines = _from_folder(place, run_id) if place else _from_cloudwatch(shell.settings, run)
    shown = 0
    for line in islice(lines, limit):
        _print(shell, line)
        shown += 1
    shell.matched(shown)
    if shown and next(lines, None) is not None:
        shell.remark(f"the first {limit} lines; there are more: raise --limit")


def _print(shell: Shell, line: LogLine) -> None:
    fields = line.fields
    if shell.as_json:
        print_json({"source": line.source, **fields})
        return
    event = fields.get("event") or fields.get("message") or ""
    rest = "  ".join(f"{name}={value}" for name, value in fields.items() if name not in _SHOWN_ELSEWHERE)
    at = line.at.isoformat(sep=" ", timespec="milliseconds").replace("+00:00", "Z")
    shell.say(in_one_line(f"{at}  {fields.get('level') or ''!s:<7}  {line.source}  {event}  {rest}").rstrip())
    trace = fields.get("traceback") or fields.get("exception")
    if trace:
        shell.say(str(trace))


def _from_folder(folder: Path, run_id: str) -> Iterator[LogLine]:
    """The lines of a run in all ``*.log`` files of a folder, in order of time. Raises Misconfigured if it is none."""
    if not folder.is_dir():
        raise Misconfigured(f"MINUTEHAND_LOGS={str(folder)!r} is no folder; give the one that `minutehand local` names")
    yield from heapq.merge(*(_of_file(log, run_id) for log in sorted(folder.glob("*.log"))), key=_BY_TIME)


def _of_file(log: Path, run_id: str) -> Iterator[LogLine]:
    with log.open("rb") as file:
        for raw in file:
            fields = parse(raw) if run_id.encode() in raw else None
            if fields is not None and fields.get("run_id") == run_id:
                try:
                    at = datetime.fromisoformat(str(fields.get("time")))
                except ValueError:
                    at = datetime.fromtimestamp(0, UTC)
                yield LogLine(at=at, source=log.stem, fields=fields)


def _from_cloudwatch(settings: Settings, run: Run) -> Iterator[LogLine]:
    """The lines of a run in the groups of an installation's functions, in order of time."""
    client = Client("logs", settings)
    prefix = f"/aws/lambda/{settings.prefix}-"
    listed = pages(client, "describe_log_groups", "logGroups", "nextToken", logGroupNamePrefix=prefix)
    parts = (str(group["logGroupName"]).removeprefix(prefix) for group in listed)
    # Another installation's prefix may begin as ours does.
    sources = [part for part in parts if part in _PARTS or part.startswith("worker-")]
    if not sources:
        raise Misconfigured(f"no log groups {prefix}…; if its workers are processes, give --folder or MINUTEHAND_LOGS")
    begin = min(run.due, run.started_at or run.due)
    end = run.ended_at if run.state in TERMINAL and run.ended_at is not None else datetime.now(UTC)
    span = {"startTime": to_ms(begin - _EARLIER, "begin"), "endTime": to_ms(max(end, begin) + _LATER, "end")}

    def lines_of(source: str) -> Iterator[LogLine]:
        group = {"logGroupName": prefix + source, "filterPattern": f'"{run.id}"', **span}
        for event in pages(client, "filter_log_events", "events", "nextToken", **group):
            try:
                fields = json.loads(event["message"])
            except ValueError:
                continue
            if isinstance(fields, dict) and fields.get("run_id") == run.id:  # the filter also finds ids that begin so
                yield LogLine(at=from_ms(event["timestamp"]), source=source, fields=fields)

    yield from heapq.merge(*map(lines_of, sources), key=_BY_TIME)
