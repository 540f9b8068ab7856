"""``minutehand import``: what people already run, as a file of schedules for ``minutehand apply`` and the jobs that they name.

Everything is read and reported before anything is written. Both files are written beside their places and moved there: a crash leaves
none or whole ones.
"""

from __future__ import annotations

import importlib
import inspect
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from minutehand.cli.installation.packages import find_here
from minutehand.cli.schedules.eventbridge import listing
from minutehand.cli.shell import DryRun, Shell, of, print_json
from minutehand.errors import InvalidInput
from minutehand.importers import celery as tasks
from minutehand.importers import crontab as crontabs
from minutehand.importers import eventbridge as events
from minutehand.importers import kubernetes as manifests
from minutehand.importers.cronlines import CrontabForm
from minutehand.importers.names import STANDARD_INPUT
from minutehand.importers.report import Conversion, ImportedLine, ImportReport
from minutehand.importers.text import text_of

app = typer.Typer(
    help="Take over what runs elsewhere: a crontab, EventBridge, Kubernetes, Celery.", no_args_is_help=True
)

_SHOWN = 100  # characters of a line
_STYLES = {Conversion.EXACT: "green", Conversion.DIFFERS: "yellow", Conversion.LEFT: "red"}
_MODE = 0o644  # of the files

Output = Annotated[Path, typer.Option(help="The file of schedules to write.")]
JobsFile = Annotated[
    Path | None, typer.Option(help="The Python file with their jobs to write. Default: jobs.py beside the output.")
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite files that are there.")]
Zone = Annotated[
    str | None, typer.Option(help="IANA time zone of times that name none, e.g. Europe/Berlin. Default: UTC.")
]
Shadow = Annotated[
    bool, typer.Option("--shadow", help="Let the schedules record their fires and start nothing, to compare first.")
]
JobName = Annotated[str, typer.Option("--job", help="Name of the job that runs the commands.")]


@app.command("crontab")
def crontab(
    context: typer.Context,
    file: Annotated[str, typer.Argument(help="A crontab; - for standard input, as from crontab -l.")],
    output: Output = Path("schedules.yaml"),
    jobs_file: JobsFile = None,
    timezone: Zone = None,
    job: JobName = "command",
    *,
    system: Annotated[
        bool | None,
        typer.Option(
            "--system/--user", help="Whether each entry names a user. Default: as it looks.", show_default=False
        ),
    ] = None,
    shadow: Shadow = False,
    dry_run: DryRun = False,
    force: Force = False,
) -> None:
    """Turn a crontab into schedules of a job that runs its commands.

    It writes a file for minutehand apply and a jobs.py for minutehand worker, and says of each line what becomes of it. The exit
    code is 1 if an entry was not taken over.
    """
    form = None if system is None else CrontabForm.SYSTEM if system else CrontabForm.USER
    asked = crontabs.CrontabOptions(timezone=timezone, form=form, job=job)
    found = crontabs.read_crontab(_read(file), _named(file), asked)
    _finish(of(context), found.in_shadow() if shadow else found, output, jobs_file, dry_run=dry_run, force=force)


@app.command("kubernetes")
def kubernetes(
    context: typer.Context,
    file: Annotated[str, typer.Argument(help="Manifests in YAML or JSON; - for standard input.")],
    output: Output = Path("schedules.yaml"),
    jobs_file: JobsFile = None,
    timezone: Zone = None,
    job: JobName = "command",
    *,
    shadow: Shadow = False,
    dry_run: DryRun = False,
    force: Force = False,
) -> None:
    """Turn CronJob manifests into schedules of a job that runs their commands.

    It reads what kubectl get cronjobs -A -o yaml prints. Whatever a manifest says and a schedule cannot is named with its line.
    The exit code is 1 if a CronJob was not taken over.
    """
    asked = manifests.KubernetesOptions(timezone=timezone, job=job)
    found = manifests.read_kubernetes(_read(file), _named(file), asked)
    _finish(of(context), found.in_shadow() if shadow else found, output, jobs_file, dry_run=dry_run, force=force)


@app.command("eventbridge")
def eventbridge(
    context: typer.Context,
    file: Annotated[
        str | None, typer.Argument(help="What aws scheduler or events printed; - for standard input. Default: ask AWS.")
    ] = None,
    output: Output = Path("schedules.yaml"),
    jobs_file: JobsFile = None,
    region: Annotated[str | None, typer.Option(help="Of the schedules, if AWS is asked. Default: AWS_REGION.")] = None,
    group: Annotated[str | None, typer.Option(help="Only the schedules of this group, if AWS is asked.")] = None,
    *,
    shadow: Shadow = False,
    dry_run: DryRun = False,
    force: Force = False,
) -> None:
    """Turn schedules of EventBridge Scheduler and scheduled rules into schedules of jobs that call the same targets.

    It changes nothing there. The exit code is 1 if something that is still due was not taken over.
    """
    shell = of(context)
    if file is None:
        with shell.progress("Reading EventBridge") as advance:
            text = listing(shell.settings, region=region, group=group, on_found=advance)
        source = group or region or shell.settings.region or "eventbridge"
    else:
        text, source = _read(file), _named(file)
    found = events.read_eventbridge(text, source, events.EventBridgeOptions(now=datetime.now(UTC)))
    _finish(shell, found.in_shadow() if shadow else found, output, jobs_file, dry_run=dry_run, force=force)


@app.command("celery")
def celery(
    context: typer.Context,
    module: Annotated[str, typer.Argument(help="The module of the Celery app, or of the dict with its beat schedule.")],
    output: Output = Path("schedules.yaml"),
    jobs_file: JobsFile = None,
    timezone: Annotated[
        str | None, typer.Option(help="IANA time zone of the crontabs. Default: the app's timezone, else UTC.")
    ] = None,
    *,
    shadow: Shadow = False,
    dry_run: DryRun = False,
    force: Force = False,
) -> None:
    """Turn a beat schedule into schedules of jobs that call the same tasks.

    The module is imported, so run this where it can be. The exit code is 1 if an entry was not taken over.
    """
    loaded, beat = _beat(module)
    try:
        text = inspect.getsource(loaded)
    except (OSError, TypeError):
        text = ""  # no lines then
    found = tasks.read_beat(beat, module, text, tasks.CeleryOptions(timezone=timezone))
    _finish(of(context), found.in_shadow() if shadow else found, output, jobs_file, dry_run=dry_run, force=force)


# Reading.


def _beat(module: str) -> tuple[ModuleType, tasks.BeatConfig]:
    find_here([module])
    try:
        loaded = importlib.import_module(module)
        return loaded, tasks.beat_of(loaded)
    except InvalidInput:
        raise
    except Exception as problem:
        what = f"cannot be imported ({type(problem).__name__}: {problem})"
        raise InvalidInput("module", module, what, "run this in the environment of your Celery app") from problem


def _read(file: str) -> str:
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except (OSError, ValueError) as problem:  # ValueError: no file system has such a name
        why = getattr(problem, "strerror", None) or problem
        raise InvalidInput("file", file, f"cannot be read ({why})", "check the path") from None
    return text_of(data, _named(file))


def _named(file: str) -> str:
    return STANDARD_INPUT if file == "-" else file


# Reporting, then writing.


def _finish(
    shell: Shell, found: ImportReport, output: Path, jobs_file: Path | None, *, dry_run: bool, force: bool
) -> None:
    """Say what becomes of each line, then write. Ends with code 1 if something was not taken over."""
    _show(shell, found)
    files = {} if dry_run or not found.schedules else _files(found, output, jobs_file)
    _spare(found.source, files)
    _write(files, force=force)
    counts = {str(fit): found.count(fit) for fit in Conversion}
    if shell.as_json:
        summary = {"source": found.source, "read_as": found.read_as, "schedules": len(found.schedules), **counts}
        print_json({**summary, "remarks": list(found.remarks), "written": list(map(str, files))})
    else:
        told = ", ".join(f"{count} {fit}" for fit, count in counts.items() if count)
        shell.remark(f"{len(found.lines)} lines: {told}; {len(found.schedules)} schedules")
        for path in files:
            shell.remark(f"wrote {path}")
    if found.not_taken:
        raise typer.Exit(1)


def _show(shell: Shell, found: ImportReport) -> None:
    if shell.as_json:
        for line in found.lines:
            print_json({"source": found.source, **asdict(line)})
        return
    shell.say(f"{found.source}: {found.read_as}", style="bold")
    width = max((len(line.name or "") for line in found.lines), default=0)
    for line in found.lines:
        _show_line(shell, line, width)
    for remark in found.remarks:
        shell.say(f"  for all of them: {remark}")


def _show_line(shell: Shell, line: ImportedLine, width: int) -> None:
    text = _printable(" ".join(line.text.split()))
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    number = f"{line.line:>5}" if line.line else " " * 5
    shell.say(f"{number}  {line.fit:<10}  {(line.name or '-').ljust(width)}  {shown}", style=_STYLES[line.fit])
    for note in line.notes:
        shell.say(f"{' ' * 7}{_printable(note)}")


def _printable(text: str) -> str:
    """A text of the source without terminal control characters."""
    return text if text.isprintable() else "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def _files(found: ImportReport, output: Path, jobs_file: Path | None) -> dict[Path, str]:
    """The files to write, schedules last because they name the jobs."""
    jobs = {} if found.jobs is None else {jobs_file or output.parent / "jobs.py": found.jobs}
    return {**jobs, output: found.yaml()}


def _spare(source: str, files: Iterable[Path]) -> None:
    """Raises InvalidInput if an output is an input file, even with --force."""
    for path in files:
        if path.exists() and Path(source).exists() and path.samefile(source):
            raise InvalidInput("output", str(path), "is what was imported", "give another --output or --jobs-file")


def _write(files: dict[Path, str], *, force: bool) -> None:
    for path in list(files):
        if path.is_file() and path.read_bytes() == files[path].encode():
            del files[path]  # it is there as it shall be
        elif path.exists() and not force:
            field = "jobs-file" if path.suffix == ".py" else "output"
            raise InvalidInput(
                field, str(path), "is there already", f"give another --{field}, or --force to overwrite it"
            )
    prepared: dict[Path, str] = {}
    try:
        for path, text in files.items():
            with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, delete=False) as temporary:
                prepared[path] = temporary.name
                temporary.write(text)
        for path in list(prepared):
            Path(prepared[path]).chmod(_MODE)
            Path(prepared.pop(path)).replace(path)
    except OSError as problem:
        where = str(problem.filename or "")
        raise InvalidInput("output", where, f"cannot be written ({problem.strerror})", "check the folder") from None
    finally:
        for name in prepared.values():
            Path(name).unlink(missing_ok=True)
