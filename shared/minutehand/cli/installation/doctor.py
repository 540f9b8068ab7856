"""``minutehand doctor``: problems of an installation, with their remedies."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from minutehand.cli.exits import ExitCode
from minutehand.cli.installation.packages import find_here
from minutehand.cli.output import print_json
from minutehand.cli.shell import Shell, of
from minutehand.cli.terminal import console

if TYPE_CHECKING:  # it loads boto3, which no other command needs
    from minutehand.doctor import Finding

_COLOURS = {"ok": "green", "warn": "yellow", "fail": "bold red"}


def run(
    context: typer.Context,
    jobs: Annotated[
        list[str] | None, typer.Option(help="A package whose jobs should be importable here; may be repeated.")
    ] = None,
    sample: Annotated[int, typer.Option(min=1, max=1000, help="Number of schedules whose chains are checked.")] = 50,
) -> None:
    """Check the installation from this machine: print each problem with its remedy. Writes nothing.

    It checks configuration, access, tables, queues, bucket, permissions, clock, ticker, chains, incidents, backlog, and with --jobs the
    jobs and the process that isolated jobs start from. The exit code is 1 if something does not work.
    """
    from minutehand.doctor import Severity, run_checks  # noqa: PLC0415 (see above)

    shell, seen = of(context), Counter[Severity]()
    find_here(jobs or ())
    for finding in run_checks(shell.settings, jobs=jobs or (), sample=sample):
        seen[finding.verdict] += 1
        _print(shell, finding)
    if not shell.as_json:
        shell.say(f"{seen[Severity.OK]} ok, {seen[Severity.WARN]} to look at, {seen[Severity.FAIL]} wrong")
    if seen[Severity.FAIL]:
        raise typer.Exit(ExitCode.FAILED)


def _print(shell: Shell, finding: Finding) -> None:
    if shell.as_json:
        print_json(asdict(finding))
        return
    colour = _COLOURS[finding.verdict]
    mark = f"[{colour}]{finding.verdict:<5}[/{colour}] [bold]{finding.check:<14}[/bold]"
    console.print(mark, end="", soft_wrap=True, highlight=False)
    shell.say(finding.what)
    if finding.remedy is not None:
        shell.say(f"{'':<20}→ {finding.remedy}")
