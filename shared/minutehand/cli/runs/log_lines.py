"""Log lines of one run: from the files of processes on this machine, or from the functions' groups in CloudWatch Logs."""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path
from typing import Any

from minutehand.aws import Client
from minutehand.domain.times import from_ms, to_ms
from minutehand.errors import Misconfigured
from minutehand.local.processes import parse
from minutehand.settings import Settings

_PARTS = ("worker", "undertaker", "ticker", "auditor")  # functions; a declared queue's is `worker-<name>`


@dataclass(frozen=True, kw_only=True)
class LogLine:
    """One line."""

    at: datetime  # aware
    source: str  # process or function
    fields: Mapping[str, Any]  # as logged


_BY_TIME = attrgetter("at")


def from_folder(folder: Path, run_id: str) -> Iterator[LogLine]:
    """The lines of a run in all ``*.log`` files of a folder, in order of time. Raises Misconfigured if it is none."""
    if not folder.is_dir():
        raise Misconfigured(f"MINUTEHAND_LOGS={str(folder)!r} is no folder; give the one that `minutehand local` names")
    yield from heapq.merge(*(_of_file(log, run_id) for log in sorted(folder.glob("*.log"))), key=_BY_TIME)


def _of_file(log: Path, run_id: str) -> Iterator[LogLine]:
    with log.open("rb") as file:
        for raw in file:
            if run_id.encode() not in raw:
                continue
            fields = parse(raw)
            if fields is not None and fields.get("run_id") == run_id:
                yield LogLine(at=_time(fields.get("time")), source=log.stem, fields=fields)


def from_cloudwatch(settings: Settings, run_id: str, begin: datetime, end: datetime) -> Iterator[LogLine]:
    """The lines of a run in the groups of an installation's functions, in order of time."""
    logs = Client("logs", settings)
    groups = _groups(logs, settings.prefix)
    if not groups:
        raise Misconfigured(
            f"no log groups /aws/lambda/{settings.prefix}-…; if its workers are processes, give --folder or MINUTEHAND_LOGS"
        )
    span = {"startTime": to_ms(begin, "begin"), "endTime": to_ms(end, "end")}
    yield from heapq.merge(*(_of_group(logs, group, settings.prefix, run_id, span) for group in groups), key=_BY_TIME)


def _groups(logs: Client, prefix: str) -> list[str]:
    """The groups of the functions: another installation's prefix may begin as ours does."""
    begin, token, names = f"/aws/lambda/{prefix}-", dict[str, str](), list[str]()
    while True:
        page = logs.call("describe_log_groups", logGroupNamePrefix=begin, **token)
        names += [str(group["logGroupName"]) for group in page.get("logGroups", [])]
        if "nextToken" not in page:
            break
        token = {"nextToken": page["nextToken"]}
    parts = {name: name.removeprefix(begin) for name in names}
    return [name for name, part in parts.items() if part in _PARTS or part.startswith("worker-")]


def _of_group(logs: Client, group: str, prefix: str, run_id: str, span: Mapping[str, int]) -> Iterator[LogLine]:
    token: dict[str, str] = {}
    while True:
        page = logs.call("filter_log_events", logGroupName=group, filterPattern=f'"{run_id}"', **span, **token)
        for event in page.get("events", []):
            fields = _fields(event["message"], run_id)
            if fields is not None:
                source = group.rpartition("/")[2].removeprefix(f"{prefix}-")
                yield LogLine(at=from_ms(event["timestamp"]), source=source, fields=fields)
        if not page.get("nextToken"):
            return
        token = {"nextToken": page["nextToken"]}


def _fields(text: str, run_id: str) -> Mapping[str, Any] | None:
    """The fields of a line that is this run's: the filter also finds ids that begin with this one."""
    try:
        fields = json.loads(text)
    except ValueError:
        return None
    return fields if isinstance(fields, dict) and fields.get("run_id") == run_id else None


def _time(text: object) -> datetime:
    try:
        return datetime.fromisoformat(str(text))
    except ValueError:
        return datetime.fromtimestamp(0, UTC)
