"""Rows without what a job was given, what it returned, and what its errors say: for callers who may not read payloads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from quarterjack.domain.run import DeadRunRow, FailedAttemptRow, Failure, RunRow, SiblingRows


def masked_run(run: RunRow) -> RunRow:
    """A run without payload, result and the texts of its failure. The class and the code of the error stay."""
    failure = None if run.failure is None else _masked_failure(run.failure)
    return replace(run, payload=None, payload_ref=None, result=None, result_ref=None, failure=failure)


def masked_siblings(rows: SiblingRows) -> SiblingRows:
    """The rows beside a run without results and the texts of failures."""
    return replace(rows, result=None, steps={}, checkpoint=None, attempts=masked_attempts(rows.attempts))


def masked_attempts(attempts: Iterable[FailedAttemptRow]) -> tuple[FailedAttemptRow, ...]:
    """Failed attempts without the texts of their failures."""
    return tuple(replace(attempt, failure=_masked_failure(attempt.failure)) for attempt in attempts)


def masked_dead(dead: DeadRunRow) -> DeadRunRow:
    """A line of the list of dead runs without the text of its error."""
    return replace(dead, error=None)


def _masked_failure(failure: Failure) -> Failure:
    return replace(failure, message="", traceback="")
