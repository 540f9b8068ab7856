"""Bytecode instructions that the interpreter executes for a fire: a measure of our code that the machine's load does not move.

python -m bench bytecode [--fires 500] [--rooms] [--dry]

A tick and a worker over a stubbed cloud, as ``tick`` and ``work`` run them. Counted are the instructions of this package's functions and
of the constructors that dataclasses generate. ``to_same_calls``: what boto3 and botocore execute for the same calls is counted in the
same way, so that the ratio is nearly the same on every version of Python. Time in C (JSON, hashes, sockets) does not show.

The program exits with 1 above a bound. A bound is raised by an ADR only: it is what a run pays for what it does not use.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import boto3
import botocore
import quarterjack

from bench import ratio, tick, work
from bench.report import Table, write
from bench.stub import Exchange, StubbedCloud

# Instructions of ours for each of boto3 for the same calls.
BOUNDS = {"tick": 0.335, "work": 0.465, "one-offs": 0.395}

_STUB: CodeType = StubbedCloud.post.__code__
_OURS, *_BOTO3 = (f"{Path(str(package.__file__)).parent}{os.sep}" for package in (quarterjack, boto3, botocore))
_GENERATED = "<string>"  # the file of constructors
_MEASURES: dict[str, Callable[..., Any]] = {
    "tick": partial(tick.measure, tick.CASES[0]),
    "work": partial(work.measure, work.CASES[0]),
    "one-offs": partial(work.measure, work.CASES[1]),
}

_WARM = 100  # fires

Counts = Counter[tuple[str, str]]  # instructions by file and function


@contextmanager
def counted(counts: Counts) -> Iterator[None]:
    """Count the instructions of this thread and of all that are started within. Those of the stub are left out."""
    within = threading.local()

    def leave(_: FrameType, event: str, __: object) -> Any:
        if event == "return":
            within.stub = False
        return leave

    def enter(frame: FrameType, _: str, __: object) -> Any:
        code = frame.f_code
        frame.f_trace_lines = False
        if code is _STUB:
            within.stub = True
            return leave
        if getattr(within, "stub", False):
            return None
        frame.f_trace_opcodes = True
        place = code.co_filename, code.co_name

        def step(_: FrameType, event: str, __: object) -> Any:
            if event == "opcode":
                counts[place] += 1
            return step

        return step

    before = sys.gettrace()
    threading.settrace(enter)
    sys.settrace(enter)
    try:
        yield
    finally:
        sys.settrace(before)
        threading.settrace(before)


def of_ours(counts: Counts) -> int:
    """The instructions of this package's functions and constructors."""
    return sum(count for (file, _), count in counts.items() if file.startswith((_OURS, _GENERATED)))


def of_boto3(counts: Counts) -> int:
    """The instructions of boto3 and botocore."""
    return sum(count for (file, _), count in counts.items() if file.startswith(tuple(_BOTO3)))


def by_room(counts: Counts) -> Counter[str]:
    """Of ours, by folder of the package, or module beside the folders."""
    rooms = Counter[str]()
    for (file, _), count in counts.items():
        if file.startswith(_OURS):
            rooms[file.removeprefix(_OURS).partition(os.sep)[0]] += count
        elif file == _GENERATED:
            rooms["constructors"] += count
    return rooms


@contextmanager
def _only(counts: Counts, kept: Counts) -> Iterator[None]:
    """What is counted within goes to ``kept``."""
    counts.clear()
    yield
    kept.update(counts)


def measure(part: str, fires: int) -> tuple[Counts, int]:
    """What a part executes for so many fires, and what boto3 executes for the same calls."""
    counts, ours, theirs = Counts(), Counts(), Counts()
    exchanges: list[Exchange] = []
    with counted(counts):  # from before the first thread on: pools keep theirs
        _MEASURES[part](_WARM)  # imports and caches are no part of it
        _MEASURES[part](fires, exchanges, around=_only(counts, ours))
        ratio.measure_boto3(exchanges[:1], fires)
        ratio.measure_boto3(exchanges, fires, around=_only(counts, theirs))
    return ours, of_boto3(theirs)


def row(part: str, fires: int, ours: int, theirs: int) -> dict[str, Any]:
    """A row of the table, a fire."""
    return {
        "part": part,
        "fires": fires,
        "ours": round(ours / fires),
        "boto3": round(theirs / fires),
        "to_same_calls": round(ours / theirs, 3),
        "at_most": BOUNDS[part],
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
    }


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="bench bytecode")
    parser.add_argument("--fires", type=int, default=500)
    parser.add_argument("--rooms", action="store_true", help="show instructions a fire by folder and by function")
    parser.add_argument("--dry", action="store_true", help="write no figures")
    given = parser.parse_args(arguments)
    os.environ.setdefault("AWS_EC2_METADATA_DISABLED", "true")
    rows = []
    for part in BOUNDS:
        ours, theirs = measure(part, given.fires)
        rows.append(row(part, given.fires, of_ours(ours), theirs))
        if given.rooms:
            _show_rooms(part, ours, given.fires)
    if not given.dry:
        write("bytecode", rows)
    Table("bytecode instructions a fire", rows).show()
    if any(each["to_same_calls"] > each["at_most"] for each in rows):
        raise SystemExit(1)


def _show_rooms(part: str, counts: Counts, fires: int) -> None:
    rooms = [{"room": name, "a fire": round(count / fires, 1)} for name, count in by_room(counts).most_common(20)]
    Table(f"{part}: by room", rows=rooms).show()
    functions = [
        {"file": "/".join(Path(file).parts[-2:]), "function": name, "a fire": round(count / fires, 1)}
        for (file, name), count in counts.most_common(40)
    ]
    Table(f"{part}: by function", rows=functions).show()
