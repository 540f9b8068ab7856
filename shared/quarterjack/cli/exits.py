"""How a command ends: its exit code. The reference page has this table."""

from __future__ import annotations

from enum import IntEnum

from quarterjack.domain.run import RunState
from quarterjack.errors import (
    AlreadyExists,
    Conflict,
    Forbidden,
    LimitExceeded,
    Misconfigured,
    NotFinished,
    NotFound,
    QuarterjackError,
    Throttled,
    Unavailable,
)


class ExitCode(IntEnum):
    """How a command ended."""

    DONE = 0  # success
    FAILED = 1  # refused (the error names option and remedy), a part failed, or `apply`, `audit`, `doctor`, `import`, `local` found faults
    USAGE = 2  # there is no such command or option, or an argument is missing
    NOT_FOUND = 3  # there is no such schedule, run or backfill; or nothing matched, and `--expect` was given
    CONFLICT = 4  # another call was first, or the name or key is taken: read again, then decide
    UNAVAILABLE = (
        5  # AWS throttled, timed out or did not answer, or the tenant is throttled: the same command may succeed later
    )
    MISCONFIGURED = 6  # settings, credentials or permissions are wrong: `quarterjack doctor` names them
    NOT_FINISHED = 7  # `runs wait`: the run has not ended within the time
    NOT_CONFIRMED = 8  # what changes or destroys many things was not confirmed, and nothing was done: give --yes
    FORBIDDEN = (
        9  # the caller has no grant for it, or its tenant is suspended, or a limit refuses it: the error names it
    )
    RUN_DEAD = 10  # `runs wait` and `runs tail`: the run ended DEAD
    RUN_LOST = 11  # the same: LOST
    RUN_CANCELLED = 12  # the same: CANCELLED
    RUN_EXPIRED = 13  # the same: EXPIRED
    RUN_SUPERSEDED = 14  # the same: SUPERSEDED
    RUN_SKIPPED = 15  # the same: SKIPPED
    RUN_SHADOWED = 16  # the same: SHADOWED
    INTERRUPTED = 130  # Ctrl-C, in a command that it does not end normally


class NotConfirmed(QuarterjackError):
    """A destructive command was not confirmed; nothing was done."""


class NothingMatched(QuarterjackError):
    """A search found nothing, and the user expected something."""


_CODES: tuple[tuple[type[QuarterjackError], ExitCode], ...] = (
    (NotFound, ExitCode.NOT_FOUND),
    (NothingMatched, ExitCode.NOT_FOUND),
    (Conflict, ExitCode.CONFLICT),
    (AlreadyExists, ExitCode.CONFLICT),
    (Unavailable, ExitCode.UNAVAILABLE),
    (Throttled, ExitCode.UNAVAILABLE),
    (LimitExceeded, ExitCode.FORBIDDEN),
    (Misconfigured, ExitCode.MISCONFIGURED),
    (NotFinished, ExitCode.NOT_FINISHED),
    (NotConfirmed, ExitCode.NOT_CONFIRMED),
    (Forbidden, ExitCode.FORBIDDEN),
)


def code_of(problem: QuarterjackError) -> ExitCode:
    """The exit code of an error."""
    return next((code for kind, code in _CODES if isinstance(problem, kind)), ExitCode.FAILED)


def code_of_run(state: RunState) -> ExitCode:
    """The exit code for the state of an ended run."""
    return ExitCode.DONE if state is RunState.SUCCEEDED else ExitCode[f"RUN_{state}"]
