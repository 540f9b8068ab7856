"""The API's own limit: requests a second of one caller in one process. RateLimit headers are a draft of the IETF: a convention here."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from quarterjack.errors import Throttled

_CALLERS = 10_000  # that are remembered


@dataclass(frozen=True)
class TokenResult:
    """Whether a request is within the limit of its caller, and the rest of the limit."""

    taken: bool  # whether this request is within the limit
    left: int  # requests that it may send at once
    wait: int  # whole seconds until it may send the next one; 0: now


class RequestLimit:
    """``rate`` requests a second for each caller, ``burst`` of them at once. ``clock`` counts seconds."""

    def __init__(self, rate: float, burst: int, clock: Callable[[], float]) -> None:
        self.rate, self.burst, self._clock = rate, burst, clock
        self._lock = threading.Lock()
        self._tokens: OrderedDict[str, tuple[float, float]] = OrderedDict()  # by caller: tokens, and when that was

    @property
    def policy(self) -> str:
        """As the header RateLimit-Policy says it."""
        return f'"requests";q={self.burst};w={math.ceil(self.burst / self.rate)}'

    def take(self, caller: str) -> TokenResult:
        """Count a request of a caller."""
        with self._lock:
            now = self._clock()
            tokens, since = self._tokens.pop(caller, (float(self.burst), now))
            tokens = min(tokens + max(now - since, 0.0) * self.rate, float(self.burst))
            taken = tokens >= 1
            tokens -= taken
            self._tokens[caller] = tokens, now
            if len(self._tokens) > _CALLERS:
                self._tokens.popitem(last=False)
        wait = 0 if tokens >= 1 else math.ceil((1 - tokens) / self.rate)
        return TokenResult(taken, int(tokens), wait)


def add_tenant_rate(problem: Throttled, headers: dict[str, str]) -> str:
    """Add a tenant's limit to the headers that are lists, beside the caller's. Returns Retry-After: whole seconds."""
    seconds = math.ceil(problem.seconds)
    policy = f'"{problem.limit}";q={problem.most if problem.burst is None else problem.burst}'
    if problem.burst is not None and problem.per_second is not None:
        policy += f";w={math.ceil(problem.burst / problem.per_second)}"
    for name, value in (("RateLimit-Policy", policy), ("RateLimit", f'"{problem.limit}";r=0;t={seconds}')):
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return str(seconds)
