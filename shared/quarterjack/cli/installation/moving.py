"""``quarterjack move …``: write a tenant or an installation to a file, load such a file into another, and end the schedules there."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Annotated, Any

import typer

from quarterjack.cli.exits import ExitCode
from quarterjack.cli.moments import WORDS
from quarterjack.cli.parameters import DryRun, Strict
from quarterjack.cli.shell import Shell, text_of, values
from quarterjack.cli.typed import COMING, EITHER, PAST
from quarterjack.errors import InvalidInput
from quarterjack.moving.file import opened
from quarterjack.sdk.tenants.moving import Ended, Loaded
from quarterjack.terminal import in_one_line

app = typer.Typer(no_args_is_help=True)

_EVERY = 1_000  # lines between two steps of the progress bar


@app.command()
def dump(
    shell: Shell,
    file: Annotated[Path, typer.Argument(help="File to write, readable by you alone; compressed if it ends in .gz.")],
    since: Annotated[
        datetime | None, PAST, typer.Option(help=f"Earliest end of the runs, e.g. 2026-12-24T18:00:00Z, or {WORDS}.")
    ] = None,
    *,
    all_tenants: Annotated[
        bool, typer.Option("--all-tenants", help="Dump all tenants and the installation's own profiles and versions.")
    ] = False,
    no_history: Annotated[
        bool, typer.Option("--no-history", help="Leave out ended runs and their transitions.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Write everything of the tenant (--tenant) to a file of JSON lines, for another installation or for yourself.

    The file holds payloads, and neither API keys nor secrets. It appears under its name when it is complete.
    """
    if file.exists() and not force:
        raise InvalidInput("file", str(file), "exists already", "give another name, or --force to overwrite it")
    whose = None if all_tenants else shell.settings.tenant
    lines = shell.tenants.dump(whose, history=not no_history, since=since)
    try:
        with tempfile.NamedTemporaryFile(dir=file.parent, suffix=file.suffix, delete=False) as made:
            temporary = Path(made.name)
    except OSError as problem:
        raise InvalidInput("file", str(file), f"cannot be written ({problem.strerror})", "check the folder") from None
    written = count()
    try:
        with shell.progress("Lines") as advance, opened(temporary, "w") as stream:
            for line in lines:
                stream.write(f"{line}\n")
                if (number := next(written)) % _EVERY == 0:
                    advance(number)
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)
    number = next(written)
    shell.answer({"file": str(file), "lines": number}, f"{number:,} lines in {file}")


@app.command()
def load(
    shell: Shell,
    file: Annotated[Path, typer.Argument(help="File that `quarterjack move dump` wrote.")],
    start: Annotated[
        datetime | None,
        EITHER,
        typer.Option(
            help="Time from which active schedules fire here, the --at of `move end`. Default: they arrive paused."
        ),
    ] = None,
    *,
    dry_run: DryRun = False,
    skip: Annotated[bool, typer.Option("--skip", help="Load what is not refused.")] = False,
    without_grants: Annotated[
        bool, typer.Option("--without-grants", help="Load profiles without their grants.")
    ] = False,
    strict: Strict = False,
) -> None:
    """Load a dump into this installation. The whole file is checked first; if a line is refused, nothing is written.

    What is here already and equal stays as it is, so an interrupted load is repeated. The exit code is 1 if a line was refused.
    """
    with shell.progress("Lines") as advance:
        found = shell.tenants.load(
            file,
            start=start,
            dry_run=dry_run,
            skip=skip,
            strict=strict,
            grants=not without_grants,
            on_progress=lambda number: advance(number) if number % _EVERY == 0 else None,
        )
    _show(shell, found, dry_run=dry_run)
    if found.refused:
        raise typer.Exit(ExitCode.FAILED)


@app.command()
def end(
    shell: Shell,
    at: Annotated[datetime, COMING, typer.Option(help="Time of the last fires, e.g. 2026-12-24T18:00:00Z or 10m.")],
    *,
    undo: Annotated[bool, typer.Option("--undo", help="Let the schedules that end then go on.")] = False,
) -> None:
    """End the fires of all active schedules of the tenant (--tenant) at a time ahead: they are paused with it.

    Fires until then start here, later ones where the dump is loaded with this time as --start.
    """
    found = shell.tenants.end_schedules(shell.settings.tenant, at, undo=undo)
    shell.answer(values(found), _ended(found, undo=undo))
    for name, why in found.failed.items():
        shell.warn(f"{name}: {why}")
    if found.failed:
        raise typer.Exit(ExitCode.FAILED)


def _ended(found: Ended, *, undo: bool) -> str:
    what = "go on from" if undo else "end at"
    lines = [f"{found.schedules} schedules {what} {text_of(found.at)}"]
    lines += [f"{name} does not resume by itself at {text_of(until)} any more" for name, until in found.timers.items()]
    return "\n".join(lines)


def _show(shell: Shell, found: Loaded, *, dry_run: bool) -> None:
    if shell.as_json:
        shell.answer(values(found), "")
        return
    for one in found.problems:
        text = f"line {one.line}: {one.item or 'line'}: {one.field}={one.value!r}: {one.problem}; {one.remedy}"
        shell.say(in_one_line(text), style="red")
    for text, times in found.warnings.items():
        shell.warn(f"{text} ({times} lines)" if times > 1 else text)
    for what, counts in (
        ("would be created" if not found.written else "created", found.created),
        ("would start" if not found.written else "started", found.started),
        ("unchanged", found.unchanged),
        ("refused", found.refused),
    ):
        if counts:
            shell.say(f"{what}: {_listed(counts)}")
    if found.refused and not found.written and not dry_run:
        shell.remark("nothing was written; --skip loads the rest")


def _listed(counts: Mapping[str, Any]) -> str:
    return ", ".join(f"{number:,} {kind}" for kind, number in counts.items())
