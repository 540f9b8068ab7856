"""One expression of any kind: which reader takes it, and the timetable it makes in a zone."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache

from minutehand.errors import ExpressionError
from minutehand.schedule import cron, simple, zones
from minutehand.schedule.fields import Spread
from minutehand.schedule.pattern import CronPattern
from minutehand.schedule.tables import Every, Timetable
from minutehand.schedule.wall import Gap, Repeated, WallClock

_REMEMBERED = 8192  # parsed expressions kept by a process: a few KB each

Parsed = CronPattern | simple.Rate | simple.Moment


@dataclass(frozen=True, slots=True)
class Policy:
    """What a change of the clocks does to a fire; None is the default of the kind of expression."""

    gap: Gap | None = None
    repeated: Repeated | None = None


def parse(expression: str, key: str | None = "") -> Parsed:
    """Read an expression. ``key`` is the schedule's identity, for ``H``; None refuses ``H``."""
    return _parse(expression, key if "h" in expression.lower() else "")


@lru_cache(maxsize=_REMEMBERED)
def _parse(expression: str, key: str | None) -> Parsed:
    start = expression.strip()[:5].lower()
    if start.startswith("rate("):
        return simple.rate(expression)
    if start.startswith("at("):
        return simple.at(expression)
    return cron.parse(expression, _spread(expression, key))


def table(expression: str, zone: str, policy: Policy, *, anchor: int, key: str | None) -> Timetable:
    """The timetable of a valid expression; ``anchor`` (UTC milliseconds) is where a rate without its own origin begins."""
    parsed = parse(expression, key)
    if isinstance(parsed, simple.Rate):
        return _every(parsed, zone, policy, anchor)
    return _wall(parsed, zone, policy, cron.is_aws(expression))


def _every(parsed: simple.Rate, zone: str, policy: Policy, anchor: int) -> Every:
    period = parsed.period * 1000
    if parsed.origin is None:
        return Every(anchor, period, anchor + period)
    origin = _wall(parsed.origin, zone, Policy(), False).next(-(10**14))
    assert origin is not None
    return Every(origin, period, origin)


@lru_cache(maxsize=_REMEMBERED)
def _wall(parsed: CronPattern | simple.Moment, zone: str, policy: Policy, aws: bool) -> WallClock:
    if isinstance(parsed, simple.Moment) and parsed.absolute:
        zone = "UTC"
    fixed = isinstance(parsed, simple.Moment) or parsed.fixed
    gap: Gap = policy.gap or ("next_valid" if fixed and not aws else "skip")
    repeated: Repeated = policy.repeated or ("first" if fixed else "both")
    return WallClock(parsed, zones.table(zone), gap, repeated)


def _spread(expression: str, key: str | None) -> Spread:
    def spread(salt: str, width: int) -> int:
        if key is None:
            problem = "H spreads schedules by their identity, and there is none here"
            raise ExpressionError("expression", expression, problem, "give key=, for example the schedule's name")
        return stable(f"{key}\n{salt}") % width

    return spread


def stable(text: str) -> int:
    """A number that depends on nothing but ``text``: the same on every machine and in every version."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
