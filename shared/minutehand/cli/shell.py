"""What every command shares: settings from options and environment, and output for people or for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from minutehand.client import Scheduler
from minutehand.errors import InvalidInput
from minutehand.settings import Settings
from minutehand.views import FailedAttempt, Run

console = Console()


@dataclass(frozen=True)
class Shell:
    """The global options, as ``context.obj``."""

    settings: Settings
    as_json: bool = False

    def scheduler(self) -> Scheduler:
        """The SDK. Which jobs there are is the workers' business: the command line does not check their names."""
        return Scheduler(settings=self.settings, check_jobs=False)

    def show(self, item: Any) -> None:
        """One object: its fields below each other, or one JSON object."""
        if self.as_json:
            print_json(values(item))
            return
        table = Table.grid(padding=(0, 2))
        for name, value in values(item).items():
            if value not in (None, "", {}, [], ()):
                table.add_row(f"[bold]{name.replace('_', ' ')}", escape(_text(value)))
        console.print(table)

    def list(self, items: Iterable[Any], columns: Sequence[str]) -> None:
        """Some objects: a table with these fields, or one JSON object a line with all fields."""
        if self.as_json:
            for item in items:
                print_json(values(item))
            return
        rows = [[_text(getattr(item, column)) for column in columns] for item in items]
        heading = [column.replace("_", " ") for column in columns]
        widths = [max(map(len, cells)) for cells in zip(heading, *rows, strict=True)]
        for row in (heading, *rows):  # never cut: what one sees here one copies
            line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            console.print(line, soft_wrap=True, markup=False, highlight=False, style="bold" if row is heading else None)


def of(context: typer.Context) -> Shell:
    """The shell of a running command."""
    shell = context.obj
    assert isinstance(shell, Shell)
    return shell


def values(item: Any) -> dict[str, Any]:
    """The fields of what the SDK returned, and a run's lateness."""
    found = {field.name: getattr(item, field.name) for field in fields(item)}
    return found | ({"lateness": item.lateness} if isinstance(item, Run) else {})


def print_json(value: object) -> None:
    """One line of JSON: ISO 8601 for moments, seconds for durations."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, default=_plain) + "\n")


def read_payload(text: str) -> Any:
    """A ``--payload`` argument: JSON text, or ``-`` for standard input."""
    try:
        return json.loads(sys.stdin.read() if text == "-" else text)
    except ValueError as problem:
        raise InvalidInput(
            "payload", text, f"is not JSON ({problem})", """write e.g. --payload '{"day": 1}'"""
        ) from None


def read_moment(text: str | None, field: str) -> datetime | None:
    """A moment argument: ISO 8601 with an offset or ``Z``."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(field, text, "is not a date and time", "write e.g. 2026-12-24T18:00:00Z") from None
    if moment.tzinfo is None:
        raise InvalidInput(field, text, "has no time zone", f"write e.g. {text}Z or {text}+01:00")
    return moment


def _plain(value: Any) -> Any:
    match value:
        case datetime():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case _ if is_dataclass(value) and not isinstance(value, type):
            return asdict(value)
        case _:
            return str(value)


def _text(value: Any) -> str:
    match value:
        case datetime():
            return value.isoformat(sep=" ", timespec="seconds").replace("+00:00", "Z")
        case timedelta():
            return f"{value.total_seconds():.3f} s"
        case list() | tuple():
            return "\n".join(map(_text, value))
        case dict():
            return json.dumps(value, ensure_ascii=False, default=_plain)
        case FailedAttempt():
            return f"{value.number}  {_text(value.ended_at)}  {value.error_type}: {value.error}"
        case _:
            return "" if value is None else str(value)


Name = Annotated[str, typer.Argument(help="Name of the schedule.")]
