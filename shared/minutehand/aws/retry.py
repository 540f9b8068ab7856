"""Retries: how many attempts a request has, how long the waits between them are, and a quota that ends retries of a failing service."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from threading import Event

from minutehand.errors import Misconfigured
from minutehand.settings import SdkVariables

ATTEMPTS = 4  # of one request, in all; AWS_MAX_ATTEMPTS goes before it
_BASE, _CAP = 0.05, 2.0  # seconds: full-jitter waits before each further attempt
_QUOTA = 100  # tokens of a full quota
_COST = 5  # tokens of one retry: against constant errors 100 requests are repeated 20 times in all


class RetryQuota:
    """Tokens that retries of one service take and successes give back, as in botocore's standard mode.

    The tokens are in a bounded deque, whose operations are atomic: there is no lock that a fork could copy while it is held.
    """

    def __init__(self) -> None:
        self._tokens: deque[None] = deque([None] * _QUOTA, maxlen=_QUOTA)

    @property
    def is_empty(self) -> bool:
        """Whether no further retry may be sent."""
        return len(self._tokens) < _COST

    def take(self) -> bool:
        """Pay for one retry; False if it may not be sent."""
        if self.is_empty:
            return False
        for _ in range(_COST):
            if self._tokens:
                self._tokens.pop()
        return True

    def succeeded(self, *, after_retry: bool) -> None:
        """Give back what the retry took, or one token for a request that needed none."""
        self._tokens.extend([None] * (_COST if after_retry else 1))


def attempts_of(variables: SdkVariables) -> int:
    """Attempts of one request. Raises Misconfigured for a retry mode of the SDKs that these requests do not have."""
    if variables.retry_mode not in (None, "standard"):
        raise Misconfigured(
            f"AWS_RETRY_MODE={variables.retry_mode!r} is not a mode of Minutehand's own requests; use 'standard', leave it out, "
            "or set MINUTEHAND_AWS_CLIENT=botocore"
        )
    return variables.max_attempts or ATTEMPTS


def wait_before(attempt: int) -> float:
    """Seconds before the attempt after the given one."""
    return random.uniform(0, min(_CAP, _BASE * 2.0**attempt))


@dataclass(frozen=True, kw_only=True)
class BatchBackoff:
    """Full-jitter exponential waits between the rounds of a batch: each round asks again for the items without an answer."""

    rounds: int = 7  # in all; the last answer is final
    base: float = 0.05  # seconds
    cap: float = 2.0  # seconds
    wait: Callable[[float], object] = field(default_factory=lambda: Event().wait)
    random: random.Random = field(default_factory=random.Random)

    def rounds_with_waits(self, is_over: Callable[[], bool] = lambda: False) -> Iterator[int]:
        """0, 1, 2 …, waiting before each but the first; ends early once ``is_over``."""
        for number in range(self.rounds):
            if number:
                if is_over():
                    return
                self.wait(self.random.uniform(0, min(self.cap, self.base * 2.0**number)))
            yield number
