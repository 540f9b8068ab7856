"""Errors come whole out of a copy, and out of a process."""

from __future__ import annotations

import pickle
from copy import copy

import pytest
import quarterjack.errors as module
from quarterjack.errors import (
    CallbackFailed,
    ChildFailed,
    Diverged,
    EventFailed,
    ExpressionError,
    Forbidden,
    InvalidInput,
    ItemRefused,
    JobNotGranted,
    LimitExceeded,
    QuarterjackError,
    RetryAfter,
    Throttled,
    UnexpectedStatus,
)

MADE = [
    InvalidInput("job", 1, "is none", "give one"),
    ExpressionError("expression", "x", "is none", "give one", position=3),
    Forbidden("no", principal="app:a", verb="submit", tenant="acme", job="a"),
    JobNotGranted("no", tenant="acme", job="a"),
    LimitExceeded("no", tenant="acme", limit="schedules", value=3, most=2, remedy="delete some"),
    Throttled("no", tenant="acme", limit="runs_per_second", per_second=0.5, burst=1, seconds=1.5),
    EventFailed("no", is_outage=True),
    ItemRefused(0, "Put", "t"),
    Diverged(2, "sleep 1", "signal a"),
    CallbackFailed("no"),
    ChildFailed("acme/~c#once", "pay", "DEAD", "boom"),
    RetryAfter(3, "later"),
    UnexpectedStatus(503, "no", permanent=False, seconds=3),
]
KINDS = [kind for kind in vars(module).values() if isinstance(kind, type) and issubclass(kind, QuarterjackError)]


@pytest.mark.parametrize("error", MADE, ids=lambda error: type(error).__name__)
def test_an_error_is_copied_and_pickled_with_what_it_knows(error: QuarterjackError) -> None:
    for again in (copy(error), pickle.loads(pickle.dumps(error))):
        assert (type(again), str(again), again.args, vars(again)) == (type(error), str(error), error.args, vars(error))


def test_whatever_takes_more_than_a_message_is_tried() -> None:
    assert {kind for kind in KINDS if "__init__" in vars(kind)} <= {type(error) for error in MADE}
