"""The parts of the proof, each by itself: an error ends the part in which it came, and the report has all others."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from bench.aws_proof.report import Finding, unfinished
from bench.progress import say


@dataclass(frozen=True, kw_only=True)
class Part:
    """What is tried, and the names of its findings in their order: the report has each of them, whatever happens."""

    findings: Sequence[str]
    prove: Callable[[], Iterable[Finding]]


def proved(parts: Iterable[Part]) -> Iterator[Finding]:
    """The findings of all parts; those that a part did not reach are unfinished, with the error that ended it."""
    for part in parts:
        found = 0
        try:
            for finding in part.prove():
                found += 1
                yield finding
        except Exception as problem:  # noqa: BLE001 (any failure: the other parts are tried all the same)
            tell(problem)
            yield from (unfinished(name, problem) for name in part.findings[found:])


def prepared(what: str, prepare: Callable[[], object]) -> None:
    """Do early what a part needs later. An error is told only: the part does it again."""
    try:
        prepare()
    except Exception as problem:  # noqa: BLE001 (any failure: it is the part's own)
        tell(problem)
        say(f"{what} failed; its part tries again")


def tell(problem: Exception) -> None:
    """Where an error came from, on stderr: the report has its text alone."""
    traceback.print_exception(problem, file=sys.stderr)
