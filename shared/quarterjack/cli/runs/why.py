"""``quarterjack why``: why a fire or a run ran, ran late, or did not run."""

from __future__ import annotations

import shutil
import textwrap
from datetime import datetime
from itertools import groupby
from typing import Annotated

import typer

from quarterjack.cli.shell import Shell, print_json, text_of, values
from quarterjack.cli.typed import PAST
from quarterjack.errors import InvalidInput
from quarterjack.why.answer import Answer

_WIDEST = 100  # characters of a line


def why(
    shell: Shell,
    name: Annotated[str, typer.Argument(metavar="NAME|RUN", help="Name of a schedule, with --at; or the id of a run.")],
    at: Annotated[
        datetime | None,
        PAST,
        typer.Option(
            help="When the fire was due, or should have been, e.g. 'yesterday 09:00', or 2026-12-24T18:00:00Z."
        ),
    ] = None,
) -> None:
    """Say why a fire or a run ran, ran late, or did not run, each sentence with its source."""
    if "#" in name:
        if at is not None:
            raise InvalidInput("--at", at, "was given with the id of a run", "leave it out, or give a schedule's name")
        answer = shell.scheduler.why_run(name)
    else:
        if at is None:
            raise InvalidInput("--at", at, "is missing", "say when the fire was due, e.g. --at 'yesterday 09:00'")
        answer = shell.scheduler.why(name, at)
    if shell.as_json:
        print_json(values(answer) | {"causes": [str(cause) for cause in answer.causes]})
    else:
        _print(shell, answer)


def _print(shell: Shell, answer: Answer) -> None:
    """The verdict, then the sentences, those of one source together and the source below them."""
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
