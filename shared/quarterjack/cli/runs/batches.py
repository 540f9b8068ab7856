"""``quarterjack runs submit-all``: many runs from a file or standard input, JSON lines or CSV."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from quarterjack.cli.exits import ExitCode
from quarterjack.cli.parameters import Strict
from quarterjack.cli.shell import Shell
from quarterjack.cli.tables import Column
from quarterjack.domain.payload import parse_json
from quarterjack.errors import InvalidInput, Throttled, Unavailable
from quarterjack.sdk.submissions.documents import FIELDS, submit_documents

_NUMBERS = ("delay", "timeout", "deadline")
_MEMBER = "payload."  # before the name of a member of the payload, in the heading of a column
_NO_RETRY = tuple(name for name in FIELDS if name != "retry")
_COLUMNS = ("number", Column("error", cut=60))


class BatchFormat(StrEnum):
    """The form of a file of items."""

    JSONL = "jsonl"  # a JSON object in each line
    CSV = "csv"  # columns named as the fields, `payload` as JSON, or `payload.NAME` for each member of the payload


def submit_all(
    shell: Shell,
    file: Annotated[
        str, typer.Argument(help="File with an item in each line, .jsonl or .csv, or - for standard input.")
    ],
    job: Annotated[str | None, typer.Option(help="Name of the job of items that name none.")] = None,
    on_end: Annotated[
        str | None, typer.Option(help="Job of one run that starts when the last item has ended, with the counts.")
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="Idempotency key: the same items with the same key are submitted once.")
    ] = None,
    form: Annotated[
        BatchFormat | None, typer.Option("--format", help="Form of the items. Default: by the file's name, else jsonl.")
    ] = None,
    *,
    strict: Strict = False,
) -> None:
    """Submit up to 10,000 runs in few requests, and one more when the last of them has ended.

    An item has the fields job, payload, run_at, delay, priority, queue and so on. One that is refused does not stop the others.
    """
    text, kind = _read(file), form or _form_of(file)
    documents = [*(_csv(file, text) if kind is BatchFormat.CSV else _lines(file, text))]
    if job is not None:
        documents = [{"job": job} | each if isinstance(each, dict) else each for each in documents]
    done = submit_documents(shell.scheduler.strictly(strict=strict), documents, idempotency_key=key, on_end=on_end)
    if not shell.as_json:
        shell.say(f"{len(done.items) - len(done.refused)} of {len(done.items)} runs submitted as batch {done.id}")
        if done.on_end is not None:
            shell.say(f"when all have ended: {done.on_end}")
    shell.list(done.refused if not shell.as_json else done.items, _COLUMNS)
    if done.refused:
        is_passing = all(isinstance(item.error, (Throttled, Unavailable)) for item in done.refused)
        if is_passing:
            shell.remark(f"to submit the refused items: repeat it with --key {done.id}")
        raise typer.Exit(ExitCode.UNAVAILABLE if is_passing else ExitCode.FAILED)


def _read(file: str) -> str:
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        return data.decode("utf-8-sig")
    except (OSError, ValueError) as problem:  # ValueError: not UTF-8, or a name that no file has
        raise InvalidInput("file", file, f"cannot be read ({problem})", "check the path and the encoding") from None


def _form_of(file: str) -> BatchFormat:
    return BatchFormat.CSV if file.lower().endswith(".csv") else BatchFormat.JSONL


def _lines(file: str, text: str) -> Iterator[Any]:
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                yield parse_json(line)
            except (ValueError, RecursionError) as problem:
                remedy = 'write an object in each line, e.g. {"job": "mails.send", "payload": {"to": "Ada"}}'
                raise InvalidInput(
                    "file", file, f"line {number} is not JSON ({problem}); nothing was submitted", remedy
                ) from None


def _csv(file: str, text: str) -> Iterator[dict[str, Any]]:
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        heading = next(rows, [])
        _check_heading(file, heading)
        for cells in rows:
            if cells:
                yield _item(file, rows.line_num, heading, cells)
    except csv.Error as problem:
        remedy = "correct it, or give --format jsonl"
        raise InvalidInput(
            "file", file, f"line {rows.line_num} is not CSV ({problem}); nothing was submitted", remedy
        ) from None


def _check_heading(file: str, heading: Sequence[str]) -> None:
    if not heading:
        raise InvalidInput(
            "file", file, "has no heading", f"name the columns in the first line: {', '.join(_NO_RETRY)}"
        )
    for name in heading:
        if name not in _NO_RETRY and not (name.startswith(_MEMBER) and name != _MEMBER):
            remedy = f"use some of {', '.join(_NO_RETRY)}, and {_MEMBER}NAME for a member of the payload"
            raise InvalidInput("file", file, f"has a column {name!r}, which no item has", remedy)
        if heading.count(name) > 1:
            raise InvalidInput("file", file, f"has two columns {name!r}", "leave one out")
    if "payload" in heading and any(name.startswith(_MEMBER) for name in heading):
        raise InvalidInput("file", file, f"has columns payload and {_MEMBER}NAME", "give one or the other")


def _item(file: str, line: int, heading: Sequence[str], cells: Sequence[str]) -> dict[str, Any]:
    """An empty cell is a field that is left out; members of the payload are texts."""
    if len(cells) != len(heading):
        problem = f"line {line} has {len(cells)} cells, and the heading {len(heading)}; nothing was submitted"
        raise InvalidInput("file", file, problem, "give as many, and quote cells with a comma")
    found: dict[str, Any] = {}
    for name, cell in zip(heading, cells, strict=True):
        if name.startswith(_MEMBER):
            found.setdefault("payload", {})[name.removeprefix(_MEMBER)] = cell
        elif cell:
            found[name] = _value(file, line, name, cell)
    return found


def _value(file: str, line: int, name: str, cell: str) -> Any:
    if name in _NUMBERS:
        with suppress(ValueError):
            return float(cell)  # else the item is refused
    if name == "payload":
        try:
            return parse_json(cell)
        except (ValueError, RecursionError) as problem:
            remedy = f"write JSON, or a column {_MEMBER}NAME for each member of the payload"
            raise InvalidInput(
                "file", file, f"payload in line {line} is not JSON ({problem}); nothing was submitted", remedy
            ) from None
    return cell
