"""``quarterjack why``: why a fire or a run ran, ran late, or did not run."""

from __future__ import annotations

import shutil
import textwrap
from datetime import datetime, timedelta
from itertools import groupby
from typing import Annotated, cast

import typer

from quarterjack.cli.runs.logs import show_traceback
from quarterjack.cli.shell import Shell, print_json, text_of, values
from quarterjack.cli.typed import PAST_FIRE
from quarterjack.domain.run import RunState
from quarterjack.errors import InvalidInput
from quarterjack.why.answer import Answer, Verdict
from quarterjack.why.delay import LATE

_TROUBLE = frozenset(
    {RunState.DEAD, RunState.LOST, RunState.EXPIRED, RunState.SKIPPED, RunState.RETRYING}
)  # CANCELLED and SUPERSEDED are an owner's acts
_WITH_TRACEBACK = frozenset({Verdict.DEAD, Verdict.WAITING, Verdict.RUNNING})
_LATE = timedelta(milliseconds=LATE)
_READ = 1_000  # fires that are looked through
_PAGE = 200
_WIDEST = 100  # characters of a line


def why(
    shell: Shell,
    name: Annotated[str, typer.Argument(metavar="NAME|RUN", help="Name of a schedule, or id of a run.")],
    at: Annotated[
        datetime | None,
        PAST_FIRE,
        typer.Option(
            help="Due time of the fire, e.g. 09:00 or 'yesterday 09:00' in the schedule's zone, "
            "or 2026-12-24T18:00:00Z. Default: the last fire that failed, was late or was skipped, else the last one."
        ),
    ] = None,
    task: Annotated[
        str | None, typer.Option(help="Name of a task: explain that task of the run of a pipeline.")
    ] = None,
) -> None:
    """Explain why a fire or a run ran, ran late, or did not run. Each sentence names its source."""
    if task is not None and "#" not in name:
        raise InvalidInput("--task", task, "was given without the id of a run", "give a run of the pipeline: runs list")
    if "#" in name:
        if at is not None:
            raise InvalidInput("--at", at, "was given with the id of a run", "leave it out, or give a schedule's name")
        answer = shell.scheduler.why_run(name, task=task)
    else:
        answer = shell.scheduler.why_run(_last_trouble(shell, name)) if at is None else shell.scheduler.why(name, at)
    if shell.as_json:
        print_json(values(answer) | {"causes": [str(cause) for cause in answer.causes]})
    else:
        _print(shell, answer)
        if answer.run_id is not None and answer.verdict in _WITH_TRACEBACK:
            show_traceback(shell, shell.scheduler.get_run(answer.run_id))


def _last_trouble(shell: Shell, name: str) -> str:
    """The run of the last fire that failed, was late or was skipped, else of the last fire. Raises InvalidInput before the first one."""
    read, cursor, last = 0, cast("str | None", None), cast("str | None", None)
    while read < _READ:
        page = shell.scheduler.list_runs(name, upcoming=False, newest_first=True, limit=_PAGE, cursor=cursor)
        for run in page.items:
            last = last or str(run.id)
            if run.state in _TROUBLE or (run.lateness is not None and run.lateness > _LATE):
                return str(run.id)
        read, cursor = read + len(page.items), page.cursor
        if cursor is None:
            break
    if last is None:
        raise InvalidInput(
            "name", name, "has had no fire yet", "wait for the first one, or see when it is due: schedules get"
        )
    return last


def _print(shell: Shell, answer: Answer) -> None:
    """Print the verdict, then the sentences in groups of one source, with the source below each group."""
    about = f"{answer.tenant}/{answer.schedule}" if answer.schedule is not None else answer.run_id
    when = "" if answer.at is None else f" at {text_of(answer.at)}"
    shell.say(f"{answer.verdict.replace('_', ' ')}", style="bold", end="")
    shell.say(f"  {about}{when}")
    width = min(shutil.get_terminal_size().columns, _WIDEST)
    for source, sentences in groupby(answer.sentences, key=lambda sentence: sentence.source):
        text = " ".join(text_of(sentence.text) for sentence in sentences)
        shell.say("")
        shell.say(textwrap.fill(text, width, initial_indent="  ", subsequent_indent="  "))
        shell.say(textwrap.fill(f"({source})", width, initial_indent="    ", subsequent_indent="    "), style="dim")
    if answer.run_id is not None:
        shell.remark(f"\nrun {answer.run_id}")
