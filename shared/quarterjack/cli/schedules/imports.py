"""``quarterjack import``: converts schedules of other systems to a file for ``quarterjack apply`` and a file with their jobs.

Everything is read and reported before a file is written. Each file is written under a temporary name and then renamed, so that a crash
leaves no partial file. EventBridge can be asked itself; its answers are read as the AWS command line prints them.
"""

from __future__ import annotations

import importlib
import inspect
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from quarterjack.apply.schema import SCHEMA, published
from quarterjack.aws import Client
from quarterjack.cli.exits import ExitCode
from quarterjack.cli.parameters import Command, find_here, option, with_parameters
from quarterjack.cli.shell import Shell, pages, plain, print_json
from quarterjack.errors import InvalidInput
from quarterjack.importers.airflow.dags import read_airflow
from quarterjack.importers.celery import read_beat
from quarterjack.importers.celery_config import beat_of
from quarterjack.importers.cronlines import CrontabForm
from quarterjack.importers.crontab import read_crontab
from quarterjack.importers.eventbridge import read_eventbridge
from quarterjack.importers.jobs_file import with_names
from quarterjack.importers.kubernetes import read_kubernetes
from quarterjack.importers.report import Conversion, ImportReport
from quarterjack.importers.text import STANDARD_INPUT, text_of
from quarterjack.settings import Settings
from quarterjack.terminal import in_one_line
from quarterjack.values import replace

app = typer.Typer(no_args_is_help=True)

_SHOWN = 100  # characters of a line
_STYLES = {Conversion.EXACT: "green", Conversion.DIFFERS: "yellow", Conversion.LEFT: "red"}
_PAGE = 100  # schedules of one answer, the most
_MODE = 0o644  # of the files
Zone = Annotated[
    str | None, typer.Option(help="IANA time zone of times that name none, e.g. Europe/Berlin. Default: UTC.")
]
JobName = Annotated[str, typer.Option("--job", help="Name of the job that runs the commands.")]


def importer(function: Callable[..., ImportReport]) -> Command:
    """A command that reports and writes the import that ``function`` returns. It gets the options of all imports."""

    def call(
        *, shell: Shell, shadow: bool, output: Path, jobs_file: Path | None, dry_run: bool, force: bool, **own: Any
    ) -> None:
        report = function(shell=shell, **own)
        report = report.in_shadow() if shadow else report
        files: dict[Path, str] = {}
        if report.schedules and not dry_run:  # schedules last because they name the jobs
            jobs = jobs_file or output.parent / "jobs.py"
            files = {} if report.jobs is None else {jobs: with_names(report.jobs, output.name, jobs.stem)}
            files |= _schema(output.parent / SCHEMA, force=force)
            files[output] = report.yaml()
        _show(shell, report)
        _write(report.source, files, force=force)
        _sum_up(shell, report, files)
        if report.not_taken:
            raise typer.Exit(ExitCode.FAILED)

    shadow_help = "Let the schedules record their fires and start no run, for a comparison."
    jobs_help = "Python file for their jobs. Default: jobs.py beside the output."
    added = [
        option("output", Path, Path("schedules.yaml"), typer.Option(help="File for the schedules.")),
        option("jobs_file", Path | None, None, typer.Option(help=jobs_help)),
        option("shadow", bool, False, typer.Option("--shadow", help=shadow_help)),
        option("dry_run", bool, False, typer.Option("--dry-run", help="Print the report, and write no file.")),
        option("force", bool, False, typer.Option("--force", help="Overwrite existing files.")),
    ]
    return with_parameters(function, added, call)


@app.command("crontab")
@importer
def crontab(
    shell: Shell,  # noqa: ARG001 (every command has it)
    file: Annotated[str, typer.Argument(help="Crontab file; - for standard input, as from crontab -l.")],
    timezone: Zone = None,
    job: JobName = "command",
    *,
    system: Annotated[
        bool | None,
        typer.Option("--system/--user", help="Whether each entry names a user. Default: detected.", show_default=False),
    ] = None,
) -> ImportReport:
    """Turn a crontab into schedules of a job that runs its commands.

    It writes a file for quarterjack apply and a jobs.py for quarterjack worker, and reports for each line whether it converts. The exit
    code is 1 if an entry was not converted.
    """
    form = None if system is None else CrontabForm.SYSTEM if system else CrontabForm.USER
    return read_crontab(*_read(file), timezone=timezone, form=form, job=job)


@app.command("kubernetes")
@importer
def kubernetes(
    shell: Shell,  # noqa: ARG001 (every command has it)
    file: Annotated[str, typer.Argument(help="File of manifests in YAML or JSON; - for standard input.")],
    timezone: Zone = None,
    job: JobName = "command",
) -> ImportReport:
    """Turn CronJob manifests into schedules of a job that runs their commands.

    It reads the output of kubectl get cronjobs -A -o yaml. Each field of a manifest that a schedule cannot have is reported with its
    line. The exit code is 1 if a CronJob was not converted.
    """
    return read_kubernetes(*_read(file), timezone=timezone, job=job)


@app.command("eventbridge")
@importer
def eventbridge(
    shell: Shell,
    file: Annotated[
        str | None, typer.Argument(help="Output of aws scheduler or events; - for standard input. Default: ask AWS.")
    ] = None,
    region: Annotated[
        str | None, typer.Option(help="Region of the schedules, if AWS is asked. Default: AWS_REGION.")
    ] = None,
    group: Annotated[str | None, typer.Option(help="Only the schedules of this group, if AWS is asked.")] = None,
) -> ImportReport:
    """Turn schedules of EventBridge Scheduler and scheduled rules into schedules of jobs that call the same targets.

    It changes nothing in EventBridge. The exit code is 1 if a schedule with further fires was not converted.
    """
    if file is None:
        with shell.progress("Reading EventBridge") as advance:
            text = listing(shell.settings, region=region, group=group, on_found=advance)
        source = group or region or shell.settings.region or "eventbridge"
    else:
        text, source = _read(file)
    return read_eventbridge(text, source, now=datetime.now(UTC))


@app.command("celery")
@importer
def celery(
    shell: Shell,  # noqa: ARG001 (every command has it)
    module: Annotated[
        str,
        typer.Argument(help="Module of the Celery app or its settings, or MODULE:NAME of an app, class or function."),
    ],
    timezone: Annotated[
        str | None, typer.Option(help="IANA time zone of the crontabs. Default: the app's timezone, else UTC.")
    ] = None,
) -> ImportReport:
    """Turn a beat schedule into schedules of jobs that call the same tasks.

    The module is imported, so run this in the environment of the Celery app. The exit code is 1 if an entry was not converted.
    """
    module, _, place = module.partition(":")
    find_here([module])
    try:
        loaded = importlib.import_module(module)
        beat = beat_of(loaded, place or None)
    except InvalidInput:
        raise
    except Exception as problem:
        what = f"cannot be imported ({type(problem).__name__}: {problem})"
        raise InvalidInput("module", module, what, "run this in the environment of your Celery app") from problem
    try:
        text = inspect.getsource(loaded)
    except (OSError, TypeError):
        text = ""  # then the report has no line numbers
    return read_beat(beat, module, text, timezone=timezone)


@app.command("airflow")
@importer
def airflow(
    shell: Shell,  # noqa: ARG001 (every command has it)
    file: Annotated[str, typer.Argument(help="Python file with DAGs; - for standard input.")],
) -> ImportReport:
    """Turn the DAGs of a file of Airflow into pipelines of jobs that are still to be written.

    The file is read and not run. The report has a line for each DAG, each task, and each place that only running the file would decide.
    The exit code is 1 if a DAG was not converted.
    """
    return read_airflow(*_read(file))


def _schema(path: Path, *, force: bool) -> dict[Path, str]:
    """The schema that the written schedules name, for editors. One that is there already stays: it may be of another release."""
    return {} if path.exists() and not force else {path: published()}


def _read(file: str) -> tuple[str, str]:
    """The text of a file, and the file's name in the report."""
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except (OSError, ValueError) as problem:  # ValueError: no file system has such a name
        what = f"cannot be read ({getattr(problem, 'strerror', None) or problem})"
        raise InvalidInput("file", file, what, "check the path") from None
    name = STANDARD_INPUT if file == "-" else file
    return text_of(data, name), name


def _show(shell: Shell, found: ImportReport) -> None:
    if shell.as_json:
        for line in found.lines:
            print_json({"source": found.source, **asdict(line)})
        return
    shell.say(f"{found.source}: {found.read_as}", style="bold")
    width = max((len(line.name or "") for line in found.lines), default=0)
    for line in found.lines:
        text = in_one_line(" ".join(line.text.split()))
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
        name = (line.name or "-").ljust(width)
        shell.say(f"{line.line or '':>5}  {line.fit:<10}  {name}  {shown}", style=_STYLES[line.fit])
        for note in line.notes:
            shell.say(f"{' ' * 7}{in_one_line(note)}")
    for remark in found.remarks:
        shell.say(f"  for all of them: {remark}")


def _sum_up(shell: Shell, found: ImportReport, files: dict[Path, str]) -> None:
    counts = {str(fit): found.count(fit) for fit in Conversion}
    if shell.as_json:
        summary = {"source": found.source, "read_as": found.read_as, "schedules": len(found.schedules), **counts}
        print_json({**summary, "remarks": list(found.remarks), "written": list(map(str, files))})
        return
    shown = ", ".join(f"{count} {fit}" for fit, count in counts.items() if count)
    shell.remark(f"{len(found.lines)} lines: {shown}; {len(found.schedules)} schedules")
    for path in files:
        shell.remark(f"wrote {path}")


def _write(source: str, files: dict[Path, str], *, force: bool) -> None:
    """Write the files that are not up to date, and drop the others from ``files``. Raises InvalidInput before anything is written."""
    for path in list(files):
        if path.exists() and Path(source).exists() and path.samefile(source):  # refused with --force, too
            remedy = "give another --output or --jobs-file"
            raise InvalidInput("output", str(path), "is the file that was imported", remedy)
        if path.is_file() and path.read_bytes() == files[path].encode():
            del files[path]
        elif path.exists() and not force:
            field = "jobs-file" if path.suffix == ".py" else "output"
            raise InvalidInput(
                field, str(path), "exists already", f"give another --{field}, or --force to overwrite it"
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


def listing(settings: Settings, *, region: str | None, group: str | None, on_found: Callable[[int], None]) -> str:
    """The schedules (of a group) and, without a group, the rules that have an expression, with their targets. Reads only.

    ``on_found`` is told how many there are by now. Raises Misconfigured without credentials, region or permission, Unavailable.
    """
    there = replace(settings, region=region or settings.region)
    lines = list[str]()
    for found in [*_schedules(there, group), *([] if group else _rules(there))]:
        lines.append(json.dumps(found, default=plain, ensure_ascii=False))
        on_found(len(lines))
    return "\n".join(lines)


def _schedules(settings: Settings, group: str | None) -> Iterator[dict[str, Any]]:
    client = Client("scheduler", settings)
    asked: dict[str, Any] = {"MaxResults": _PAGE} | ({"GroupName": group} if group else {})
    for one in pages(client, "list_schedules", "Schedules", "NextToken", **asked):
        answer = client.call("get_schedule", Name=one["Name"], GroupName=one["GroupName"])
        yield {name: value for name, value in answer.items() if name != "ResponseMetadata"}


def _rules(settings: Settings) -> Iterator[dict[str, Any]]:
    client = Client("events", settings)
    for rule in pages(client, "list_rules", "Rules", "NextToken", Limit=_PAGE):
        if rule.get("ScheduleExpression"):
            targets = pages(client, "list_targets_by_rule", "Targets", "NextToken", Rule=rule["Name"])
            yield {**rule, "Targets": list(targets)}
