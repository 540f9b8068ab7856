"""A rule: when a schedule is due, as data, and its parts as layers of one timetable."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from functools import lru_cache
from itertools import islice
from typing import Any, get_args

from minutehand.errors import ExpressionError
from minutehand.timing import exclusions, expressions
from minutehand.timing.cron.fields import about
from minutehand.timing.exclusions import MOVE, Excluding, Exclusions, MovedToBusinessDay, OnExcluded
from minutehand.timing.expressions import Expression, Policy, read
from minutehand.timing.instants import milliseconds, moment
from minutehand.timing.rrule.parser import Recurrences
from minutehand.timing.timetables import EARLIEST, LATEST, Bounded, SpreadFires, Timetable, fires, union
from minutehand.timing.timetables import LONGEST as LONGEST_WINDOW
from minutehand.timing.zones import zone as zones
from minutehand.timing.zones.zone import Gap, Repeated

_SLOW = 4  # a step of a recurrence rule takes as long as four steps of a cron expression
_KEPT = 4096  # last fires of schedules with max_fires that a process caches, where they are not stored


@dataclass(frozen=True, slots=True)
class RulePlan:
    """The fields of a rule, parsed and checked. Times are UTC milliseconds."""

    expressions: tuple[Expression, ...]
    zone: str
    policy: Policy
    exclusions: Exclusions
    on_excluded: OnExcluded
    first: int = EARLIEST  # no fire before
    end: int = LATEST  # no fire after
    last: int | None = None  # the last of ``max_fires``, if it is stored
    max_fires: int | None = None
    window: int = 0  # milliseconds
    jitter: int = 0  # milliseconds
    seed: str | None = None  # of the jitter
    # The timetable, if it depends on the rule alone: not on anchor, key or seed.
    _steady: Timetable | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        relative = any(e.anchored or e.hashed for e in self.expressions) or self.max_fires or self.window or self.jitter
        object.__setattr__(self, "_steady", None if relative else self._planned(0, None))

    def timetable(self, anchor: int, key: str | None) -> Timetable:
        """All layers. ``anchor`` is when the schedule became active, ``key`` its identity."""
        if self._steady is not None:
            return self._steady
        table = self.uncounted(anchor, key)
        return table if self.max_fires is None else Bounded(table, last=self.final(anchor, key))

    def uncounted(self, anchor: int, key: str | None) -> Timetable:
        """The fires without the limit of ``max_fires``."""
        table = self._planned(anchor, key)
        if self.window or self.jitter:
            return SpreadFires(table, self.window or self.jitter, self._seed(key), self.end)
        return table

    def final(self, anchor: int, key: str | None) -> int:
        """The last of ``max_fires``; ``LATEST`` if there are fewer."""
        return self.last if self.last is not None else _count(self, anchor, key)

    def _planned(self, anchor: int, key: str | None) -> Timetable:
        """The fires before they are spread."""
        table = union([expressions.table(e, self.zone, self.policy, anchor=anchor, key=key) for e in self.expressions])
        table = self._clear_of_exclusions(table)
        return Bounded(table, self.first, self.end) if (self.first, self.end) != (EARLIEST, LATEST) else table

    def _clear_of_exclusions(self, table: Timetable) -> Timetable:
        exclusions, zone = self.exclusions, zones.table(self.zone)
        weights = [_SLOW if isinstance(e.parsed, Recurrences) else 1 for e in self.expressions]
        weight = sum(weights) + len(exclusions.days) + len(exclusions.times)
        if self.on_excluded == "skip":
            return Excluding(table, zone, exclusions, weight, days=True) if exclusions != Exclusions() else table
        forward = self.on_excluded == "next_business_day"
        gap: Gap = "skip" if self.policy.gap == "skip" else "next_valid"
        table = MovedToBusinessDay(table, zone, exclusions, forward, gap)
        return Excluding(table, zone, exclusions, weight * MOVE, days=False) if exclusions.times else table

    def _seed(self, key: str | None) -> str:
        if self.window:
            if key is None:
                raise ExpressionError(
                    "window", self.window // 1000, "a window spreads by identity, and there is none here", "give key="
                )
            return key
        if self.seed is None:
            raise ExpressionError(
                "jitter", self.jitter // 1000, "jitter needs the seed that the revision stores", "give seed="
            )
        return self.seed


@lru_cache(maxsize=_KEPT)
def _count(plan: RulePlan, anchor: int, key: str | None) -> int:
    assert plan.max_fires
    table = plan.uncounted(anchor, key)
    if isinstance(table, SpreadFires):
        last = table.nth(anchor, plan.max_fires)
    else:
        last = next(islice(fires(table, anchor, LATEST), plan.max_fires - 1, None), None)
    return LATEST if last is None else last


MOST_EXPRESSIONS = 20  # in one schedule
MOST_FIRES = 1000  # that max_fires may ask for: they are counted one by one
_DATES = ("start", "end")  # fields that are UTC milliseconds in JSON
_CHOICES = {
    "gap": (None, *get_args(Gap)),
    "repeated": (None, *get_args(Repeated)),
    "on_excluded": get_args(OnExcluded),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """When a schedule is due. Checked on construction: an ``ExpressionError`` names field, position and remedy.

    >>> Rule(expression="0 9 * * 1-5", timezone="Europe/Berlin", calendar="DE-BY").as_dict()
    {'expression': '0 9 * * 1-5', 'timezone': 'Europe/Berlin', 'calendar': 'DE-BY'}
    """

    expression: str  # cron, cron(…), rate(…), at(…) or an RFC 5545 recurrence
    timezone: str = "UTC"  # an IANA name
    also: tuple[str, ...] = ()  # further expressions; each instant counts once
    gap: Gap | None = None  # a wall time that the clocks skip: next_valid, skip, shift; None: by the kind of expression
    repeated: Repeated | None = None  # a wall time that comes twice: first, second, both; None: likewise
    exclude: tuple[str, ...] = ()  # dates, ranges 2026-12-24/2026-12-31, "weekends", cron expressions
    calendar: str | None = None  # public holidays to exclude, by country and subdivision: DE, DE-BY
    on_excluded: OnExcluded = "skip"  # skip a fire on an excluded day, or move it to a business day
    start: datetime | None = None  # no fire before
    end: datetime | None = None  # no fire after
    max_fires: int | None = None  # fires in all, counted from when the schedule became active
    window: int = 0  # seconds: each fire is moved later by less, stable by schedule and fire
    jitter: int = 0  # seconds: the same, by a random seed
    seed: str | None = None  # of the jitter, stored with the revision
    last: int | None = None  # UTC ms: the last of max_fires, if it is stored; see ``pin``
    plan: RulePlan = field(init=False, repr=False, compare=False)  # the parsed rule

    def __post_init__(self) -> None:
        zones.check_name(self.timezone)
        read(self.expression)
        for name in ("also", "exclude"):
            object.__setattr__(self, name, _texts(name, getattr(self, name)))
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                remedy = "give one of " + ", ".join(map(repr, choices))
                raise ExpressionError(name, getattr(self, name), "not a known choice", remedy)
        check_whole("window", self.window, 0, LONGEST_WINDOW)
        check_whole("jitter", self.jitter, 0, LONGEST_WINDOW)
        if self.window and self.jitter:
            raise ExpressionError(
                "jitter", self.jitter, "a window spreads already", "give window= or jitter=, not both"
            )
        if self.max_fires is not None:
            check_whole("max_fires", self.max_fires, 1, MOST_FIRES)
        for name, kind in (("calendar", str), ("seed", str), ("last", int)):
            if not isinstance(getattr(self, name), (kind, type(None))):
                raise ExpressionError(
                    name, getattr(self, name), f"not of type {kind.__name__}", f"give a {kind.__name__} or None"
                )
        object.__setattr__(self, "plan", self._plan())

    def _plan(self) -> RulePlan:
        start = EARLIEST if self.start is None else milliseconds("start", self.start)
        end = LATEST if self.end is None else milliseconds("end", self.end)
        if self.start is not None and self.end is not None and start > end:
            raise ExpressionError("end", self.end, "before start", "give an end later than the start")
        return RulePlan(
            expressions=self._expressions(),
            zone=self.timezone,
            policy=Policy(self.gap, self.repeated),
            exclusions=exclusions.parse(self.exclude, self.calendar),
            on_excluded=self.on_excluded,
            first=start,
            end=end,
            last=self.last,
            max_fires=self.max_fires,
            window=self.window * 1000,
            jitter=self.jitter * 1000,
            seed=self.seed,
        )

    def _expressions(self) -> tuple[Expression, ...]:
        if len(self.also) >= MOST_EXPRESSIONS:
            raise ExpressionError(
                "also", len(self.also), f"more than {MOST_EXPRESSIONS} expressions", "make several schedules"
            )
        found = [read(self.expression)]
        for number, text in enumerate(self.also):
            with about(f"also[{number}]"):
                found.append(read(text))
        return tuple(found)

    def as_dict(self) -> dict[str, Any]:
        """The fields that differ from their defaults, as JSON values."""
        given = {f.name: getattr(self, f.name) for f in fields(self) if f.init and getattr(self, f.name) != f.default}
        return {name: _to_json(value) for name, value in given.items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Rule:
        """The inverse of ``as_dict``; ``ExpressionError`` for an unknown key."""
        known = [f.name for f in fields(cls) if f.init]
        unknown = [name for name in values if name not in known]
        if unknown or "expression" not in values:
            problem = f"no rule has {unknown}" if unknown else "there is no expression"
            raise ExpressionError("rule", dict(values), problem, "give expression and any of " + ", ".join(known[1:]))
        dates: dict[str, Any] = {name: _date(name, values[name]) for name in _DATES if name in values}
        return cls(**{**values, **dates})

    @classmethod
    def of(cls, expression: Any, **policies: Any) -> Rule:
        """A rule of one expression or a list of them."""
        if isinstance(expression, (list, tuple)) and expression:
            expression, *rest = expression
            policies["also"] = (*rest, *policies.get("also", ()))
        return cls(expression=expression, **policies)

    def __reduce__(self) -> tuple[Any, ...]:
        return Rule.from_dict, (self.as_dict(),)


@lru_cache(maxsize=4096)
def from_json(text: str) -> Rule:
    """A rule stored as JSON; the same text is read once."""
    return Rule.from_dict(json.loads(text))


def _to_json(value: object) -> object:
    if isinstance(value, datetime):
        return milliseconds("start", value)
    return list(value) if isinstance(value, tuple) else value


def _date(name: str, value: object) -> datetime:
    if not isinstance(value, int) or not EARLIEST <= value <= LATEST:
        raise ExpressionError(name, value, "not an instant in UTC milliseconds", "store what as_dict gave")
    return moment(value)


def _texts(name: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)) or not all(isinstance(text, str) for text in value):
        raise ExpressionError(name, value, "not a list of texts", f"give {name}=['…', '…']")
    return tuple(value)


def check_whole(name: str, value: object, low: int, high: int) -> None:
    """``ExpressionError`` unless ``value`` is a whole number from ``low`` to ``high``."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ExpressionError(name, value, f"not a whole number from {low} to {high}", f"give {low} to {high}")
