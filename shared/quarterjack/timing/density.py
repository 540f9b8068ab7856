"""The most fires that a rule has in an hour, by arithmetic on its expressions: no fire is stepped through."""

from __future__ import annotations

from quarterjack.timing.cron.pattern import CronPattern
from quarterjack.timing.expressions import Parsed
from quarterjack.timing.moments import Rate
from quarterjack.timing.rrule.parser import Recur, Recurrences
from quarterjack.timing.rule import Rule

HOUR = 3600  # seconds
_CLOCK = (("SECONDLY", 1), ("MINUTELY", 60), ("HOURLY", 3600))  # frequencies shorter than a day, and their seconds


def densest_hour(rule: Rule) -> int:
    """How many fires the rule can have within an hour: the sum over its expressions, ``max_fires`` at most.

    Never too few, but for what a window or jitter moves from one hour into the next. Too many where expressions name the same
    instants, where exclusions take fires away, and where expressions are dense at different times of the day.
    """
    found = sum(map(_in_an_hour, (expression.parsed for expression in rule.plan.expressions)))
    return found if rule.max_fires is None else min(found, rule.max_fires)


def _in_an_hour(parsed: Parsed) -> int:
    if isinstance(parsed, CronPattern):
        return parsed.clock.minutes.bit_count() * parsed.clock.seconds.bit_count()
    if isinstance(parsed, Rate):
        return -(-HOUR // parsed.period)
    if isinstance(parsed, Recurrences):
        own = 0 if parsed.start is None else 1  # DTSTART is an occurrence, where no rule is given
        return sum(_recurs(recur) for _, recur in parsed.rules) + len(parsed.added) + (0 if parsed.rules else own)
    return 1


def _recurs(recur: Recur) -> int:
    """Each part multiplies or limits: in an hour are at most so many minutes, seconds, and periods of the frequency."""
    seconds, minutes = recur.by.get("BYSECOND", ()), recur.by.get("BYMINUTE", ())
    period = dict(_CLOCK).get(recur.freq)
    if period is None or period == HOUR:
        found = max(len(minutes), 1) * max(len(seconds), 1)
    elif period == 1:
        found = min(-(-HOUR // recur.interval), (len(minutes) or 60) * (len(seconds) or 60))
    else:
        found = min(-(-60 // recur.interval), len(minutes) or 60) * max(len(seconds), 1)
    return found if recur.count is None else min(found, recur.count)
