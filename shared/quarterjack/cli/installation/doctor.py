"""``doctor``: checks the installation from this machine, with a line for each finding."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import Annotated

import typer

from quarterjack.cli.exits import ExitCode
from quarterjack.cli.parameters import find_here
from quarterjack.cli.shell import Shell, print_json

_COLOURS = {"ok": "green", "warn": "yellow", "fail": "bold red"}


def doctor(
    shell: Shell,
    jobs: Annotated[
        list[str] | None, typer.Option(help="A package whose jobs should be importable here; may be repeated.")
    ] = None,
    sample: Annotated[int, typer.Option(min=1, max=1000, help="Number of schedules whose chains are checked.")] = 50,
) -> None:
    """Check the installation from this machine: print each problem with its remedy. Writes nothing.

    It checks configuration, access, tables, queues, bucket, permissions, clock, ticker, chains, incidents, backlog, and with --jobs the
    jobs and the process that isolated jobs start from. The exit code is 1 if something does not work.
    """
    from quarterjack.doctor import Severity, run_checks  # noqa: PLC0415 (it loads boto3, which `--help` does not need)

    seen = Counter[Severity]()
    find_here(jobs or ())
    for finding in run_checks(shell.settings, jobs=jobs or (), sample=sample):
        seen[finding.verdict] += 1
        if shell.as_json:
            print_json(asdict(finding))
            continue
        shell.say(f"{finding.verdict:<5}", style=_COLOURS[finding.verdict], end=" ")
        shell.say(f"{finding.check:<14}", style="bold", end="")
        shell.say(finding.what)
        if finding.remedy is not None:
            shell.say(f"{'':<20}→ {shell.words.text(finding.remedy)}")
    if not shell.as_json:
        shell.say(f"{seen[Severity.OK]} ok, {seen[Severity.WARN]} to look at, {seen[Severity.FAIL]} wrong")
    if seen[Severity.FAIL]:
        raise typer.Exit(ExitCode.FAILED)
