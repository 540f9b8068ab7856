"""A tenant's bucket of tokens, as one number in one row, and what a process has leased of it. Pure.

    until      the microsecond up to which tokens are taken: one token is 1/rate of a second

                 until             now
      ────────────┼─────────────────┼────────►     what lies between is there to be taken, ``burst`` at the most

Whoever takes n tokens moves ``until`` by n of them, on condition that one is there. So processes do not contend for a version, whatever
is lost is some tokens of one second, and nothing has to be given back or counted anew. How many are there a process judges by the bucket
as it saw it last: where another one was faster, ``until`` passes ``now``, by a second at most, and nobody takes until that is made up.

A process leases many tokens with one write: as many as it was asked for within the last second, then twice as many each time. Once the
bucket has less than was wanted, it asks again in the next second. What it has not used by then it keeps, as far as two seconds need it.
"""

from __future__ import annotations

from dataclasses import dataclass

from quarterjack.domain.tenants.limits import AcceptedRate
from quarterjack.domain.times import MINUTE, SECOND
from quarterjack.state.lease import SKEW
from quarterjack.state.transition import Absent, Change, Compare, Condition, Plus, any_of

PERIOD = SECOND  # for which tokens are leased
_MICROS = 1_000_000
_MICROS_A_MS = 1_000
TOO_MUCH = 1 * _MICROS  # that a process may take of a bucket that others have emptied since it saw it
# A row that is further ahead was written by a clock that was wrong, and does not count: two clocks that are right are 2 SKEW apart.
AHEAD = 2 * SKEW * _MICROS_A_MS + TOO_MUCH


@dataclass(frozen=True)
class TokenWrite:
    """A conditional write of ``until`` that takes some tokens."""

    tokens: int
    until: Change
    only_if: Condition


@dataclass(frozen=True)
class SharedBucket:
    """A bucket at one moment (UTC ms)."""

    rate: AcceptedRate
    now: int

    @property
    def token(self) -> int:
        """Microseconds of one token."""
        return max(round(_MICROS / self.rate.per_second), 1)

    @property
    def _now(self) -> int:
        return self.now * _MICROS_A_MS

    @property
    def _full(self) -> int:
        """Where ``until`` is if all tokens are there."""
        return self._now - self.rate.burst * self.token

    def take_from(self, until: int | None, tokens: int) -> TokenWrite | None:
        """The write that takes so many tokens, or fewer, if the row is as it was seen (None: there was none); None: there is no token."""
        most = min(tokens, self.rate.burst)
        if until is None or until < self._full:
            is_full = any_of(Absent("until"), Compare("until", "<", self._full))
            return TokenWrite(most, self._full + most * self.token, is_full)
        if until > self._now + AHEAD:
            return TokenWrite(most, self._full + most * self.token, Compare("until", "=", until))
        there = min(self.there(until), most)
        if there <= 0:
            return None
        more = there * self.token
        is_there = Compare("until", "<=", self._now - max(more - TOO_MUCH, self.token))
        return TokenWrite(there, Plus(more), is_there)

    def there(self, until: int | None) -> int:
        """The tokens that can be taken."""
        if until is None or until > self._now + AHEAD:
            return self.rate.burst
        return max(min((self._now - until) // self.token, self.rate.burst), 0)

    def wait(self, until: int) -> int:
        """Milliseconds until the next token is there."""
        return max(-(-(until + self.token - self._now) // _MICROS_A_MS), 1)


@dataclass
class TokenLease:
    """What a process has leased of one bucket, or of another limit, for so many ms (``period``)."""

    period: int = PERIOD
    left: int = 0  # tokens
    is_open: bool = False  # the bucket did not answer: in this period everything is accepted
    size: int = 0  # of what was leased in this period
    demand: int = 1  # acts in the last period
    asked: int = 0  # acts in this one
    since: int = -MINUTE  # UTC ms: the beginning of this one
    refused_at: int = 0  # UTC ms at which the bucket had less than was wanted
    closed_until: int = 0  # UTC ms before which it is not asked again

    def take(self, now: int) -> int | None:
        """Milliseconds that an act has to wait: 0 with a token of the lease; None: the bucket has to be asked for ``wants``."""
        if not 0 <= now - self.since < self.period:
            self._begin(now)
        self.asked += 1
        if self.is_open:
            return 0
        if self.left > 0:
            self.left -= 1
            return 0
        return self.closed_until - now if self.refused_at <= now < self.closed_until else None

    def _begin(self, now: int) -> None:
        """A new period. What the last one left is kept as far as it is needed soon."""
        elapsed = now - self.since
        is_next = 0 < elapsed < 2 * self.period
        self.demand = max(self.asked * self.period // elapsed, 1) if is_next else 1
        self.left = min(self.left, 2 * self.demand) if is_next else 0
        self.since, self.asked, self.size, self.is_open = now, 0, 0, False

    def wants(self, most: int) -> int:
        """Tokens to ask for: those of the last period's acts, then twice as many each time."""
        return min(max(2 * self.size, self.demand), most)

    def leased(self, now: int, tokens: int, wait: int) -> int:
        """Note the answer: so many tokens, and ``wait`` ms until there may be more; 0: there is more already.

        Returns the milliseconds that the act has to wait; 0: it has one.
        """
        self.size, self.left = tokens, max(tokens - 1, 0)
        if wait:
            self.refused_at, self.closed_until = now, max(self.since + PERIOD, now + wait)
        return 0 if tokens else self.closed_until - now
