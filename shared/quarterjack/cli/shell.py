"""The base of all commands: settings, output as text or JSON on two consoles, confirmation, exit codes, signals.

rich is imported with the first styled line: JSON, ``--version`` and errors need none of it.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime, timedelta
from functools import cache, cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, TextIO

import typer

import quarterjack
from quarterjack.cli.exits import NotConfirmed, NothingMatched
from quarterjack.cli.moments import lateness, with_anchor
from quarterjack.cli.tables import Column, fitted
from quarterjack.cli.wording import Wording
from quarterjack.settings import Settings
from quarterjack.terminal import in_one_line, printable, printable_json, span

if TYPE_CHECKING:
    from rich.console import Console

    from quarterjack import Page, Scheduler, Tenants
    from quarterjack.aws import Client


Advance = Callable[[int], None]  # takes the number done so far


def values(item: Any) -> dict[str, Any]:
    """The fields of a view of the SDK, and the lateness of a run."""
    return _fields(item) | ({"lateness": item.lateness} if isinstance(item, quarterjack.Run) else {})


def _fields(record: Any) -> dict[str, Any]:
    """The fields that a dataclass's constructor takes, without derived ones."""
    return {field.name: getattr(record, field.name) for field in fields(record) if field.init}


def print_json(value: object, *, to: TextIO | None = None) -> None:
    """One line of JSON, in the form of ``plain``."""
    out = sys.stdout if to is None else to
    out.write(printable_json(json.dumps(value, ensure_ascii=False, default=plain)) + "\n")
    out.flush()  # a reader of the pipe gets each line at once


def text_of(value: Any) -> str:
    """A value for people; a list has a line for each."""
    match value:
        case None:
            return ""
        case datetime():
            return value.isoformat(sep=" ", timespec="seconds").replace("+00:00", "Z")
        case timedelta():
            return span(value)
        case list() | tuple():
            return "\n".join(map(text_of, value))
        case dict():
            return printable_json(json.dumps(value, ensure_ascii=False, default=plain))
        case _:
            text = str(value)
            if _is_record(value) and "__str__" not in vars(type(value)):  # its fields in one line
                cells = (text_of(getattr(value, field.name)).replace("\n", ", ") for field in fields(value))
                text = "  ".join(filter(None, cells))
            return printable(text)


def _cell(value: Any) -> str:
    return in_one_line(", ".join(map(text_of, value)) if isinstance(value, (list, tuple)) else text_of(value))


def _is_record(value: object) -> bool:
    return is_dataclass(value) and not isinstance(value, type)


def plain(value: Any) -> Any:
    """A value as JSON has it: ISO 8601 for times, seconds for durations, fields of records, and the text of anything else."""
    match value:
        case datetime():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case _:
            return _fields(value) if _is_record(value) else str(value)


@cache
def console(*, stderr: bool = False) -> Console:
    """The console of the answer, or that of questions, progress and warnings beside it."""
    made: Console = import_module("rich.console").Console(stderr=stderr)
    return made


@dataclass(frozen=True)
class Shell:
    """The global options, as ``context.obj``; the first parameter of every command."""

    settings: Settings
    as_json: bool = False
    reason: str | None = None  # of the acts, for the audit
    local: str | None = None  # prefix or port of a local installation, or "", if --local was given
    words: Wording = field(default_factory=Wording)  # of the command
    nothing: str = "nothing matches"  # what it says if its search finds nothing
    expects: bool = False  # whether that is an error
    anchor: int | None = None  # UTC ms from which its relative times count, if it has any

    @cached_property
    def scheduler(self) -> Scheduler:
        """The SDK. A job that no worker knows is accepted with a warning on standard error."""
        return quarterjack.Scheduler(settings=self.settings, via="cli").acting_as(reason=self.reason)

    @cached_property
    def tenants(self) -> Tenants:
        """The SDK for operators of the installation."""
        return quarterjack.Tenants(settings=self.settings, via="cli").acting_as(reason=self.reason)

    def show(self, item: Any, said: Mapping[str, str] | None = None) -> None:
        """Print one object: a line for each field, or one JSON object. ``said``: texts in place of fields; an empty text hides one."""
        found = values(item)
        if self.as_json:
            print_json(found)
            return
        late = {"lateness": lateness(item)} if isinstance(item, quarterjack.Run) else {}
        shown = {
            name.replace("_", " "): text_of(value)
            for name, value in (found | late | dict(said or {})).items()
            if value is not None and value is not False and value not in ("", {}, [], ())
        }
        width = max(map(len, shown), default=0) + 2
        for name, text in shown.items():  # never cut or wrapped, so that values can be copied
            self.say(name.ljust(width), style="bold", end="")
            self.say(text.replace("\n", "\n" + " " * width))

    def list(self, items: Iterable[Any], columns: Sequence[Column | str]) -> None:
        """Some objects: a table with these columns, or one JSON object a line with all fields.

        A terminal that is too narrow gets what ``tables.fitted`` leaves, and is told what it does not see.
        """
        if self.as_json:
            for item in items:
                print_json(values(item))
            return
        items = [*items]
        if not items:
            return
        wanted = [Column(column) if isinstance(column, str) else column for column in columns]
        table = fitted(items, wanted, _cell, console().width if console().is_terminal else None)
        for number, line in enumerate(table.lines):
            self.say(line, style=None if number else "bold")
        if table.remark is not None:
            self.remark(table.remark)

    def page(self, page: Page, columns: Sequence[Column | str]) -> None:
        """A page of objects as ``list`` shows them, and on standard error how to list further ones, or that there are none."""
        self.list(page.items, columns)
        if unreadable := getattr(page, "unreadable", ()):
            self.warn(f"{len(unreadable)} could not be read: {', '.join(unreadable)}; `quarterjack doctor` says why")
        is_last = page.cursor is None and not getattr(page, "unlisted", 0)
        self.matched(len(page.items) if is_last else 1)
        if page.cursor is not None and self.as_json:
            print_json({"cursor": with_anchor(page.cursor, self.anchor)}, to=sys.stderr)
        elif page.cursor is not None:
            self.remark(f"there are more: {self.continued(page.cursor)}, or raise --limit")

    def matched(self, number: int) -> None:
        """Say so if a search has found nothing. Raises NothingMatched with ``--expect``."""
        if not number and self.expects:
            raise NothingMatched(self.nothing)
        if not number:
            self.remark(self.nothing)

    def continued(self, cursor: str) -> str:
        """The option that continues the command."""
        return f"--cursor '{with_anchor(cursor, self.anchor)}'"

    def answer(self, record: Any, text: str) -> None:
        """A line of text, or the record as JSON."""
        if self.as_json:
            print_json(record)
        else:
            self.say(text)

    def say(self, text: str, *, style: str | None = None, end: str = "\n", stderr: bool = False) -> None:
        """Print text without interpreting its markup or control characters."""
        console(stderr=stderr).print(
            printable(text), soft_wrap=True, markup=False, highlight=False, style=style, end=end
        )

    def remark(self, text: str) -> None:
        """A remark on standard error; not with --json."""
        if not self.as_json:
            self.say(text, style="dim", stderr=True)

    def warn(self, text: str) -> None:
        """A warning on standard error, with --json as JSON."""
        if self.as_json:
            print_json({"warning": text}, to=sys.stderr)
        else:
            self.say(f"warning: {text}", style="yellow", stderr=True)

    @property
    def can_ask(self) -> bool:
        """Whether somebody is at a terminal to answer."""
        return not self.as_json and sys.stdin.isatty()

    def confirm(self, what: str, *, yes: bool) -> None:
        """Ask the user for confirmation. Raises NotConfirmed, or typer.Abort at Ctrl-C."""
        if yes:
            return
        if not self.can_ask:
            raise NotConfirmed(f"{what}: there is no terminal to confirm it; give --yes")
        try:
            agreed = typer.confirm(f"{printable(what)}?", err=True)
        except typer.Abort:
            typer.echo(err=True)  # the cursor stands behind the question
            raise
        if not agreed:
            raise NotConfirmed(f"{what}: not confirmed, nothing was changed")

    @contextmanager
    def progress(self, title: str, total: int | None = None) -> Iterator[Advance]:
        """A progress bar on a terminal. Yields a function that takes the number done so far."""
        rich = import_module("rich.progress")  # slow to import: only commands with a progress bar need it
        screen = console(stderr=True)
        columns = (
            rich.TextColumn("{task.description}"),
            rich.BarColumn(),
            rich.MofNCompleteColumn(),
            rich.TimeRemainingColumn(),
        )
        with rich.Progress(
            *columns, console=screen, transient=True, disable=self.as_json or not screen.is_terminal or total == 0
        ) as bar:
            task = bar.add_task(title, total=total)
            yield lambda done: bar.update(task, completed=done)


def pages(client: Client, operation: str, key: str, token: str, **asked: Any) -> Iterator[Any]:
    """The items under ``key`` in all pages of an answer of AWS, which names the next page by ``token``."""
    while True:
        page = client.call(operation, **asked)
        yield from page.get(key, [])
        if not page.get(token):
            return
        asked[token] = page[token]


@contextmanager
def stop_on_signals(stop: threading.Event | None = None) -> Iterator[threading.Event]:
    """An event that the first SIGINT or SIGTERM sets; the second one has its default effect.

    Until then Ctrl-C is a KeyboardInterrupt, which ends a start at once and is reported by ``cli.main``.
    """
    stop = stop or threading.Event()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def on_signal(number: int, _: object) -> None:
        stop.set()
        signal.signal(number, before[signal.Signals(number)])

    for number in before:
        signal.signal(number, on_signal)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
