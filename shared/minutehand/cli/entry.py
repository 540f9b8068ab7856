"""Run one command line: its error messages and its exit code."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import typer

from minutehand.cli.app import app
from minutehand.cli.exits import ExitCode, NotConfirmed, code_of
from minutehand.errors import ExpressionError, InvalidInput, MinutehandError, shorten

# click's base class of usage errors. Some releases of typer contain a copy of click.
_USAGE: type[BaseException] = typer.BadParameter.__mro__[2]


def run(words: Sequence[str]) -> int:
    """Execute a command line. Returns its exit code. An error is one line on standard error, as JSON if ``--json`` is given."""
    as_json = "--json" in words
    for stream in (sys.stdout, sys.stderr):  # a job's result may have half of a character
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        for word in words:
            _check_word(word)
        code = app(list(words), prog_name="minutehand", standalone_mode=False)
    except MinutehandError as problem:
        return _failed(problem, as_json=as_json)
    except typer.Abort:
        return _failed(NotConfirmed("not confirmed: nothing was done"), as_json=as_json)
    except Exception as problem:
        if not isinstance(problem, _USAGE):
            raise
        _explain(problem, as_json=as_json)
        return ExitCode.USAGE
    return code if isinstance(code, int) else ExitCode.DONE


def _check_word(word: str) -> None:
    """Bytes that are no UTF-8 could be neither stored nor printed. Raises InvalidInput."""
    try:
        word.encode()
    except UnicodeEncodeError:
        raise InvalidInput("argument", word, "is no text in UTF-8", "check the encoding of your terminal") from None


def _failed(problem: MinutehandError, *, as_json: bool) -> ExitCode:
    code = code_of(problem)
    sys.stderr.write(
        (json.dumps(_described(problem, code), ensure_ascii=False) if as_json else f"error: {problem}") + "\n"
    )
    return code


def _described(problem: MinutehandError, code: ExitCode) -> dict[str, Any]:
    """An error as JSON: fields for programs, and the message."""
    described: dict[str, Any] = {"error": type(problem).__name__, "message": str(problem), "exit_code": int(code)}
    if isinstance(problem, InvalidInput):
        described |= {"field": problem.field, "value": shorten(problem.value), "remedy": problem.remedy}
    if isinstance(problem, ExpressionError):
        described |= {"position": problem.position}
    return described


def _explain(problem: Any, *, as_json: bool) -> None:
    """Print an error of the argument parser."""
    if as_json:
        described = {"error": "Usage", "message": problem.format_message(), "exit_code": int(ExitCode.USAGE)}
        sys.stderr.write(json.dumps(described, ensure_ascii=False) + "\n")
    else:
        import_module("typer.rich_utils").rich_format_error(problem)  # slow to import, and needed for nothing else here
