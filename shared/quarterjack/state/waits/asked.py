"""What a job asks for, in its order: sleeps, signals, children. A job that is called again must ask for the same in the same order.

    request        its text in the record
    ctx.sleep      sleep 1                  the number of the sleep
    ctx.wait_for   signal approval          the name of the signal
    ctx.submit     child pay                the step of the child; the first one has number 1
    ctx.gather     gather pay, ship         the steps of the children
    ctx.map        map thumbs of 9 items …  its step, number and digest of the items, their job: see ``window``

The latest requests are in the run's row, the earlier ones beside it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from quarterjack.domain.names import RunRef, one_off_ref
from quarterjack.errors import Diverged

CHILD = "child "
MAPPED = "map "  # before the step of a map
REFUSED = "refused "  # before the step of a child that could not be submitted, and the class of the error
MAX_CHILDREN = 1_000  # of a run, directly
_NAMED = 60  # characters of steps that a request for many children names
_KEY = 32  # characters of a child's id


def check_order(known: Sequence[str], place: int, request: str) -> None:
    """Raises Diverged if the record has another request at this place (from 0)."""
    if place < len(known) and known[place] != request:
        raise Diverged(place + 1, known[place], request)


def check_all_asked(known: Sequence[str], count: int) -> None:
    """Raises Diverged for a job that returns after ``count`` requests although the record has more."""
    if count < len(known):
        raise Diverged(count + 1, known[count], None)


def gathered(steps: Sequence[str]) -> str:
    """The request for the ends of some children."""
    text = ", ".join(steps)
    if len(text) <= _NAMED:
        return f"gather {text}"
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"gather {len(steps)} from {steps[0][:_NAMED]} ({digest})"


def child_ref(parent: RunRef, step: str) -> RunRef:
    """The key of a child, which follows from its parent and its step: repeated, the request names the same run."""
    return one_off_ref(parent.tenant, hashlib.sha256(f"{parent}\n{step}".encode()).hexdigest()[:_KEY])


def steps_of(asked: Sequence[str]) -> dict[int, str]:
    """The steps of the children that a run has asked for, by their numbers."""
    return dict(enumerate((request.removeprefix(CHILD) for request in asked if request.startswith(CHILD)), 1))


def map_steps(asked: Sequence[str]) -> list[str]:
    """The steps of the maps that a run has asked for."""
    return [request.split(" ", 2)[1] for request in asked if request.startswith(MAPPED)]
