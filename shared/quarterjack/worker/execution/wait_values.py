"""Values of waits: times as a job gives them and texts show them, and what came of children."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from quarterjack import errors
from quarterjack.domain.job import Child
from quarterjack.domain.run import RunState
from quarterjack.domain.times import SECOND, from_ms
from quarterjack.errors import ChildFailed, InvalidInput, QuarterjackError
from quarterjack.state.waits.park import MAX_WAIT

Seconds = float | timedelta
_A_YEAR = f"use 0 to {MAX_WAIT // SECOND:,} seconds (366 days), or a timedelta"


def heartbeat_ms(given: Seconds) -> int:
    found = wait_ms("heartbeat", given)
    if found <= 0:
        raise InvalidInput("heartbeat", given, "is no time between two heartbeats", "use a number of seconds over 0")
    return found


def wait_ms(field: str, seconds: Any) -> int:
    """Milliseconds from now. Raises InvalidInput."""
    value = seconds.total_seconds() if isinstance(seconds, timedelta) else seconds
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= MAX_WAIT / SECOND:
        remedy = f"{_A_YEAR}; give a point in time as until=" if field == "seconds" else _A_YEAR
        raise InvalidInput(field, seconds, "is not a time to wait", remedy)
    return round(value * SECOND)


def too_far(until: object) -> InvalidInput:
    return InvalidInput("until", until, "is more than 366 days ahead", "sleep until an earlier time, and then again")


def iso(ms: int) -> str:
    return from_ms(ms).isoformat(timespec="seconds")


def refused_before(step: str, kind: str) -> QuarterjackError:
    """The error of a child that was refused before the run parked: of the same class, as far as that is known."""
    if kind == InvalidInput.__name__:
        return InvalidInput("step", step, "names a child that was refused before", "leave it out, or give another step")
    known = getattr(errors, kind, QuarterjackError)
    made: QuarterjackError = known.__new__(known, f"child {step!r} was refused when this run asked for it first")
    return made


def result_of(child: Child, end: Mapping[str, Any], return_exceptions: bool) -> Any:  # noqa: FBT001
    """The result of a child that has ended. Raises ChildFailed, or returns it, if that was without success."""
    if end["state"] == RunState.SUCCEEDED:
        return None if end["result"] is None else json.loads(end["result"])
    failed = ChildFailed(child.run_id, child.step, end["state"], end["error"])
    if return_exceptions:
        return failed
    raise failed


def waits_for(steps: Sequence[str], children: int) -> str:
    """The reason of a run that waits for so many children, of which these are still open."""
    text = f"waits for {len(steps):,} of {children:,} children" if children > 1 else "waits for child"
    return f"{text}: {', '.join(steps[:3])}{' …' if len(steps) > 3 else ''}"
