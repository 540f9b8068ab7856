"""State that commands share: settings, output as text or JSON, confirmation."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import typer

import minutehand
from minutehand.cli.exits import NotConfirmed
from minutehand.cli.output import print_json, text_of, values
from minutehand.cli.terminal import aside, console
from minutehand.settings import Settings

if TYPE_CHECKING:
    from minutehand import Page, Scheduler

Advance = Callable[[int], None]  # takes the number done so far


@dataclass(frozen=True)
class Shell:
    """The global options, as ``context.obj``."""

    settings: Settings
    as_json: bool = False

    def scheduler(self) -> Scheduler:
        """The SDK. It does not check names of jobs: the command line does not load the workers' jobs."""
        return minutehand.Scheduler(settings=self.settings, check_jobs=False)

    def show(self, item: Any) -> None:
        """One object: its fields below each other, or one JSON object."""
        found = values(item)
        if self.as_json:
            print_json(found)
            return
        shown = {name.replace("_", " "): text_of(value) for name, value in found.items() if not _is_nothing(value)}
        width = max(map(len, shown), default=0) + 2
        for name, text in shown.items():  # never cut or wrapped, so that values can be copied
            console.print(f"[bold]{name.ljust(width)}[/bold]", end="", soft_wrap=True, highlight=False)
            self.say(text.replace("\n", "\n" + " " * width))

    def list(self, items: Iterable[Any], columns: Sequence[str]) -> None:
        """Some objects: a table with these fields, or one JSON object a line with all fields."""
        if self.as_json:
            for item in items:
                print_json(values(item))
            return
        rows = [[text_of(getattr(item, column)) for column in columns] for item in items]
        heading = [column.replace("_", " ") for column in columns]
        widths = [max(map(len, cells)) for cells in zip(heading, *rows, strict=True)]
        for row in (heading, *rows):
            line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            self.say(line, style="bold" if row is heading else None)

    def more(self, page: Page) -> None:
        """Print that there are further items, and how to list them."""
        if page.cursor is not None:
            self.remark(f"there are more: --cursor '{page.cursor}', or raise --limit")

    def say(self, text: str, *, style: str | None = None) -> None:
        """Print text without interpreting its markup."""
        console.print(text, soft_wrap=True, markup=False, highlight=False, style=style)

    def remark(self, text: str) -> None:
        """A remark on standard error; not with --json."""
        if not self.as_json:
            aside.print(text, soft_wrap=True, markup=False, highlight=False, style="dim")

    def warn(self, text: str) -> None:
        """A warning on standard error, with --json as JSON."""
        if self.as_json:
            print_json({"warning": text}, to=sys.stderr)
        else:
            aside.print(f"warning: {text}", soft_wrap=True, markup=False, highlight=False, style="yellow")

    def confirm(self, what: str, *, yes: bool) -> None:
        """Ask the user for confirmation. Raises NotConfirmed, or typer.Abort at Ctrl-C."""
        if yes:
            return
        if self.as_json or not sys.stdin.isatty():
            raise NotConfirmed(f"{what}: there is no terminal to confirm it; give --yes")
        if not typer.confirm(f"{what}?", err=True):
            raise NotConfirmed(f"{what}: not confirmed, nothing was changed")

    @contextmanager
    def progress(self, title: str, total: int | None = None) -> Iterator[Advance]:
        """A progress bar on a terminal. Yields a function that takes the number done so far."""
        rich = import_module("rich.progress")  # slow to import: only commands with a progress bar need it
        shown = aside.console.is_terminal and not self.as_json
        look = (
            rich.TextColumn("{task.description}"),
            rich.BarColumn(),
            rich.MofNCompleteColumn(),
            rich.TimeRemainingColumn(),
        )
        with rich.Progress(*look, console=aside.console, transient=True, disable=not shown) as bar:
            task = bar.add_task(title, total=total)
            yield lambda done: bar.update(task, completed=done)


def of(context: typer.Context) -> Shell:
    """The shell of a running command."""
    shell = context.obj
    assert isinstance(shell, Shell)
    return shell


def _is_nothing(value: object) -> bool:
    return value is None or value is False or value in ("", {}, [], ())
