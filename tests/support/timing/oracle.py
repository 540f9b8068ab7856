"""An independent, slow reading of the rules: every minute around a change of the clocks, by ``zoneinfo``'s wall clock.

Expressions are drawn as text together with the sets that the text means, so no parser stands between.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st
from quarterjack.timing.zones import zone as zones

MINUTE = timedelta(minutes=1)
DAY_MS = 86_400_000


@dataclass(frozen=True)
class Field:
    """One field of a cron expression: as written, and what it means."""

    text: str
    values: frozenset[int]


@dataclass(frozen=True)
class Cron:
    """A five-field expression: as written, and what it means (a weekday is 0 for Sunday)."""

    minute: Field
    hour: Field
    day: Field
    month: Field
    weekday: Field

    def _repr_pretty_(self, printer: Any, _cycle: object) -> None:
        printer.text(self.text)

    @property
    def text(self) -> str:
        return " ".join(field.text for field in (self.minute, self.hour, self.day, self.month, self.weekday))

    @property
    def fixed(self) -> bool:
        return not set("*/") & set(self.minute.text + self.hour.text)

    def matches(self, wall: datetime) -> bool:
        by_date = wall.day in self.day.values
        by_week = wall.isoweekday() % 7 in self.weekday.values
        both = self.day.text[0] == "*" or self.weekday.text[0] == "*"
        day = (by_date and by_week) if both else (by_date or by_week)
        return (
            day
            and wall.month in self.month.values
            and wall.hour in self.hour.values
            and wall.minute in self.minute.values
        )


@st.composite
def fields(draw: Callable[..., int], low: int, high: int, near: int | None = None) -> Field:
    """``near`` keeps the numbers small: most clocks change between 0 and 4."""
    a, b = sorted(draw(st.integers(low, near or high)) for _ in range(2))
    step = draw(st.integers(1, 7 if high == 7 else high - low + 1))
    every = range(low, high + 1)
    kinds = [
        ("*", every),
        ("*", every),
        (f"{a}", [a]),
        (f"{a}-{b}", range(a, b + 1)),
        (f"{b},{a}", [a, b]),
        (f"*/{step}", range(low, high + 1, step)),
        (f"{a}-{b}/{step}", range(a, b + 1, step)),
        (f"{b},{a}-{b}/{step}", [b, *range(a, b + 1, step)]),
    ]
    text, values = kinds[draw(st.integers(0, len(kinds) - 1))]
    return Field(text, frozenset(values))


def _weekday(field: Field) -> Field:
    """7 is Sunday as well."""
    return Field(field.text, frozenset(value % 7 for value in field.values))


crons = st.builds(
    Cron,
    minute=fields(0, 59),
    hour=st.one_of(fields(0, 23), fields(0, 23, 4)),
    day=st.one_of(st.just(Field("*", frozenset(range(1, 32)))), fields(1, 31)),
    month=st.one_of(st.just(Field("*", frozenset(range(1, 13)))), fields(1, 12)),
    weekday=st.one_of(st.just(Field("*", frozenset(range(7)))), fields(0, 7).map(_weekday)),
)
"""``*/2`` as a weekday means 0,2,4,6 with 7 folded onto 0; a range up to 7 likewise."""


def changes(since: int, until: int) -> list[tuple[str, int]]:
    """(zone, UTC second) of every change of a whole number of minutes in any zone between two years."""
    low, high = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) for year in (since, until))
    return [
        (name, instant)
        for name in sorted(zones.names())
        for instant, before, after in zones.table(name).changes(low, high)
        if before % 60 == after % 60 == instant % 60 == 0
    ]


@dataclass(frozen=True)
class Stretch:
    """Some days of a zone, minute by minute."""

    instants: dict[datetime, list[datetime]]  # wall clock → when it showed that
    gaps: list[tuple[datetime, datetime, timedelta]]  # skipped wall time, first instant after the gap, offset before it

    @classmethod
    def of(cls, zone: str, middle: int, days: int) -> Stretch:
        info = zones.packaged(zone)  # the engine reads the same file, but not with zoneinfo
        instants: dict[datetime, list[datetime]] = defaultdict(list)
        gaps = []
        start = datetime.fromtimestamp(middle, UTC) - timedelta(days=days)
        last = start.astimezone(info).replace(tzinfo=None)
        for n in range(days * 2 * 1440):
            now = start + n * MINUTE
            aware = now.astimezone(info)
            wall = aware.replace(tzinfo=None)
            skipped = last + MINUTE
            while skipped < wall:
                gaps.append((skipped, now, last - (now - MINUTE).replace(tzinfo=None)))
                skipped += MINUTE
            instants[wall].append(now)
            last = wall
        return cls(dict(instants), gaps)

    def fires(self, cron: Cron, gap: str | None = None, repeated: str | None = None) -> list[int]:
        """What is due, UTC milliseconds."""
        gap = gap or ("next_valid" if cron.fixed else "skip")
        repeated = repeated or ("first" if cron.fixed else "both")
        picks = {"first": slice(0, 1), "second": slice(-1, None), "both": slice(None)}
        due = {now for wall, nows in self.instants.items() if cron.matches(wall) for now in nows[picks[repeated]]}
        for wall, valid, offset in self.gaps:
            if gap != "skip" and wall not in self.instants and cron.matches(wall):
                due.add(valid if gap == "next_valid" else wall.replace(tzinfo=UTC) - offset)
        return sorted(int(now.timestamp()) * 1000 for now in due)


WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
FREQUENCIES = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY")


@st.composite
def recurrence_rules(draw: Callable[..., Any]) -> str:
    """An RRULE that RFC 5545 allows."""
    freq = draw(st.sampled_from(FREQUENCIES))
    parts = [f"FREQ={freq}"]
    if draw(st.booleans()):
        parts.append(f"INTERVAL={draw(st.integers(1, 12))}")
    if draw(st.integers(0, 3)) == 0:
        parts.append(f"WKST={draw(st.sampled_from(WEEKDAYS))}")
    chosen = []

    def maybe(name: str, values: st.SearchStrategy[object], odds: int = 3) -> None:
        if draw(st.integers(0, odds)) == 0:
            chosen.append(f"{name}={','.join(map(str, draw(st.lists(values, min_size=1, max_size=4, unique=True))))}")

    maybe("BYMONTH", st.integers(1, 12))
    if freq == "YEARLY":
        maybe("BYWEEKNO", st.one_of(st.integers(1, 53), st.integers(-51, -1)), 7)
    if freq in ("YEARLY", "HOURLY", "MINUTELY", "SECONDLY"):
        maybe("BYYEARDAY", st.one_of(st.integers(1, 366), st.integers(-366, -1)), 7)
    if freq != "WEEKLY":
        maybe("BYMONTHDAY", st.one_of(st.integers(1, 31), st.integers(-31, -1)), 4)
    numbered = freq in ("YEARLY", "MONTHLY") and not any("BYWEEKNO" in part for part in chosen) and draw(st.booleans())
    days = st.sampled_from(WEEKDAYS)
    maybe(
        "BYDAY",
        st.tuples(st.sampled_from((-2, -1, 1, 2, 4)), days).map(lambda d: f"{d[0]}{d[1]}") if numbered else days,
    )
    maybe("BYHOUR", st.integers(0, 23), 4)
    maybe("BYMINUTE", st.integers(0, 59), 4)
    maybe("BYSECOND", st.integers(0, 59), 6)
    if chosen and freq != "WEEKLY":
        maybe("BYSETPOS", st.one_of(st.integers(1, 4), st.integers(-4, -1)), 4)
    return ";".join(parts + chosen)


def plain_fields(low: int, high: int, names: tuple[str, ...] = (), *, sign: str = "*") -> st.SearchStrategy[str]:
    """One field as people write it: numbers and names in any case, ranges, steps, lists, and what may stand for all values."""

    def named(value: int) -> str:
        return names[value - low] if value - low < len(names) else str(value)

    value = st.integers(low, high)
    span = st.tuples(value, value).map(sorted)
    item = st.one_of(
        st.sampled_from(sign),
        value.map(str),
        value.map(named),
        value.map(named).map(str.lower),
        span.map(lambda ends: "-".join(map(str, ends))),
        span.map(lambda ends: "-".join(map(named, ends))),
    )
    stepped = st.tuples(item, st.integers(1, high - low + 1).map("/{}".format)).map("".join)
    return st.one_of(item, item, stepped, st.lists(item | stepped, min_size=2, max_size=3).map(",".join))


_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")

plain_texts = st.tuples(
    plain_fields(0, 59),
    plain_fields(0, 23),
    plain_fields(1, 31, sign="*?"),
    plain_fields(1, 12, _MONTHS),
    plain_fields(0, 7, _DAYS, sign="*?"),
).map(" ".join)
"""Five fields of plain cron, nearly all of them valid; what a text means is not said."""
