"""One expression of any kind: its parser, and its timetable in a zone."""

from __future__ import annotations

import re
from functools import lru_cache

from quarterjack.errors import ExpressionError
from quarterjack.timing.cron import expression as cron
from quarterjack.timing.cron.fields import FieldToken
from quarterjack.timing.cron.pattern import CronPattern
from quarterjack.timing.exclusions import without_days
from quarterjack.timing.moments import Moment, Rate, parse_at, parse_rate
from quarterjack.timing.rrule.parser import Recurrences, is_rrule, parse_rrule
from quarterjack.timing.rrule.recurrence import recurrence
from quarterjack.timing.timetables import (
    EARLIEST,
    LATEST,
    MANUAL,
    Bounded,
    EveryInterval,
    Listed,
    Manual,
    Timetable,
    Without,
    fires,
    stable,
    union,
)
from quarterjack.timing.zones.zone import Gap, Repeated, WallClock, table
from quarterjack.values import value

LONGEST = 512  # characters of an expression
LONGEST_RRULE = 2048
_KEPT = 4096  # expressions that a process caches, up to 20 KB each

_PLAIN = re.compile(r"[0-9A-Z*?,/\s-]+", re.IGNORECASE)
_EXTENSIONS = re.compile(r"\b(H|L|LW|WL|[0-9]+W|\w+L|L-[0-9]+)\b", re.IGNORECASE)

MANUALLY = "manual"  # the expression of a schedule that starts only when it is triggered
Parsed = CronPattern | Rate | Moment | Recurrences | Manual


@value(slots=True)
class Expression:
    text: str
    parsed: Parsed
    hashed: bool  # H was used: the times depend on the schedule's identity

    @property
    def anchored(self) -> bool:
        """The times depend on when the schedule became active."""
        if isinstance(self.parsed, Recurrences):
            return self.parsed.start is None
        return isinstance(self.parsed, Rate) and self.parsed.origin is None

    def timetable(
        self, zone: str, gap: Gap | None, repeated: Repeated | None, *, anchor: int, key: str | None
    ) -> Timetable:
        """A rate or recurrence without an origin begins at ``anchor`` (UTC ms); H spreads by ``key``.

        ``gap`` and ``repeated``: how a change of the clocks affects a fire; None: the default of the expression's kind.
        """
        parsed = self.parsed
        if isinstance(parsed, Rate):
            first = parsed.origin.instant(zone) if parsed.origin else anchor + parsed.period * 1000
            assert first is not None, "under next_valid every wall time has an instant"
            return EveryInterval(first, parsed.period * 1000)
        if isinstance(parsed, Recurrences):
            start = parsed.start or Moment(table(zone).local(anchor // 1000))
            return _recurring(self.text, start, start.zone or zone, gap or "shift", repeated or "first")
        if isinstance(parsed, Manual):
            return parsed
        if isinstance(parsed, Moment):
            return parsed.table(zone, gap or "next_valid", repeated or "first")
        return _cron(self.text, zone, gap, repeated, key if self.hashed else "")

    def check_portable(self) -> None:
        """Refuse a plain five-field expression that croniter cannot read: two independent readers must agree on it."""
        from croniter import croniter  # noqa: PLC0415 (only the creation of a schedule needs it; its import would delay the start of functions)

        plain = isinstance(self.parsed, CronPattern) and len(self.text.split()) == 5 and _PLAIN.fullmatch(self.text)
        if plain and not _EXTENSIONS.search(self.text) and not croniter.is_valid(self.text):
            raise ExpressionError("expression", self.text, "croniter does not read this", "write it in plain cron")


def read(text: object) -> Expression:
    """Parse an expression of any kind; ``ExpressionError`` if it is none."""
    if not isinstance(text, str):
        remedy = "write '*/5 * * * *', rate(5 minutes) or at(2026-12-24T18:00:00)"
        raise ExpressionError("expression", text, "not a text", remedy)
    return _read(text)


@lru_cache(maxsize=_KEPT)
def _read(text: str) -> Expression:
    longest = LONGEST_RRULE if is_rrule(text) else LONGEST
    if len(text) > longest:
        raise ExpressionError(
            "expression", text, f"longer than {longest} characters", "split it into several expressions"
        )
    if not text.isascii():
        position = next(number for number, letter in enumerate(text) if not letter.isascii())
        FieldToken(text, position, text).fail(f"the character {text[position]!r}", "use plain ASCII characters")
    if text.strip() == MANUALLY:
        return Expression(text, MANUAL, hashed=False)
    start = text.lstrip()[:5].lower()
    if start == "rate(":
        return Expression(text, parse_rate(text), hashed=False)
    if start.startswith("at("):
        return Expression(text, parse_at(text), hashed=False)
    if is_rrule(text):
        return Expression(text, parse_rrule(text), hashed=False)
    hashed: list[str] = []

    def note(field: str, _: int) -> int:
        hashed.append(field)
        return 0

    return Expression(text, cron.parse_cron(text, note), bool(hashed))


@lru_cache(maxsize=_KEPT)
def _cron(text: str, zone: str, gap: Gap | None, repeated: Repeated | None, key: str | None) -> WallClock:
    known = pattern(text, key)
    usual: Gap = "next_valid" if known.fixed and not cron.is_aws(text) else "skip"
    return WallClock(known, table(zone), gap or usual, repeated or ("first" if known.fixed else "both"))


def pattern(text: str, key: str | None) -> CronPattern:
    """The pattern of a cron expression. H has its value for ``key``."""

    def hash_value(field: str, width: int) -> int:
        if key is None:
            problem = "H spreads schedules by their identity, and there is none here"
            FieldToken(text, text.upper().find("H"), text).fail(problem, "give key=, for example the schedule's name")
        return stable(f"{key}\n{field}") % width

    known = _read(text)
    found = cron.parse_cron(text, hash_value) if known.hashed else known.parsed
    assert isinstance(found, CronPattern)
    return found


@lru_cache(maxsize=_KEPT)
def _recurring(text: str, start: Moment, zone: str, gap: Gap, repeated: Repeated) -> Timetable:
    """RFC 5545: a skipped wall time takes the offset before the gap, a repeated one is its first occurrence."""
    parsed = parse_rrule(text)
    tables: list[Timetable] = []
    for token, recur in parsed.rules:
        rule = WallClock(recurrence(token, recur, start.second), table(zone), gap, repeated)
        last = recur.until.instant(zone, "shift") if recur.until else LATEST
        assert last is not None, "under shift every wall time has an instant"
        tables.append(Bounded(rule, last=last))
    # Without a rule DTSTART is an occurrence itself; with one, it is if it matches.
    moments = parsed.added if parsed.rules or parsed.start is None else (start, *parsed.added)
    time = start.second % 86400
    moments = (*moments, *(Moment(day * 86400 + time, start.zone) for day in parsed.days_added))
    instants = {due for moment in moments for due in fires(moment.table(zone, gap, repeated), EARLIEST, LATEST)}
    tables.append(Listed(tuple(sorted(instants))))
    removed = {due for moment in parsed.removed for due in fires(moment.table(zone, gap, "both"), EARLIEST, LATEST)}
    found = Without(union(tables), frozenset(removed)) if removed else union(tables)
    if not parsed.days_removed:
        return found
    return without_days(found, table(zone), parsed.days_removed)
