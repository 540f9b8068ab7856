"""A rule: when a schedule is due, as data, its parts as layers of one timetable; and the rule as a revision stores it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from functools import lru_cache
from itertools import islice
from typing import Any, get_args

from quarterjack.errors import ExpressionError
from quarterjack.timing import exclusions
from quarterjack.timing.cron.fields import about
from quarterjack.timing.exclusions import MOVE, Excluding, Exclusions, MovedToBusinessDay, OnExcluded
from quarterjack.timing.expressions import read
from quarterjack.timing.rrule.parser import Recurrences
from quarterjack.timing.timetables import (
    EARLIEST,
    LATEST,
    LONGEST,
    MANUAL,
    Bounded,
    Manual,
    SpreadFires,
    Timetable,
    Without,
    WithPending,
    fires,
    milliseconds,
    moment,
    union,
)
from quarterjack.timing.zones import zone as zones
from quarterjack.timing.zones.zone import Gap, Repeated

MOST_EXPRESSIONS = 20  # in one schedule
MOST_FIRES = 1000  # that max_fires may ask for: they are counted one by one
TAKEN = ("decided", "pending")  # fields that say what a rule took over from an earlier one; see ``pinning``
STORED = ("seed", "last", *TAKEN)  # fields that a revision stores beside what its owner gave
_SLOW = 4  # a step of a recurrence rule takes as long as four steps of a cron expression
_KEPT = 4096  # rules, and last fires of schedules with max_fires, that a process caches
_CHOICES = {"gap": (None, *get_args(Gap)), "repeated": (None, *get_args(Repeated)), "on_excluded": get_args(OnExcluded)}


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
    last: int | None = None  # UTC ms: the last of max_fires, if it is stored; see ``pinning``
    decided: int | None = (
        None  # UTC ms: up to here an earlier rule decided when its instants are due; see ``pinning.Taken``
    )
    pending: tuple[
        tuple[int, int], ...
    ] = ()  # UTC ms: instants that it decided and that were to come, and when they are due
    plan: RulePlan = field(init=False, repr=False, compare=False)  # the parsed rule

    def __post_init__(self) -> None:
        zones.check_name(self.timezone)
        read(self.expression)
        for name in ("also", "exclude"):
            texts = getattr(self, name)
            if not isinstance(texts, (list, tuple)) or not all(isinstance(text, str) for text in texts):
                raise ExpressionError(name, texts, "not a list of texts", f"give {name}=['…', '…']")
            object.__setattr__(self, name, tuple(texts))
        object.__setattr__(self, "pending", _pairs(self.pending))
        self._check()
        object.__setattr__(self, "plan", RulePlan(self))

    def _check(self) -> None:
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                remedy = "give one of " + ", ".join(map(repr, choices))
                raise ExpressionError(name, getattr(self, name), "not a known choice", remedy)
        check_whole("window", self.window, 0, LONGEST)
        check_whole("jitter", self.jitter, 0, LONGEST)
        if self.window and self.jitter:
            raise ExpressionError(
                "jitter", self.jitter, "a window spreads already", "give window= or jitter=, not both"
            )
        if self.max_fires is not None:
            check_whole("max_fires", self.max_fires, 1, MOST_FIRES)
        for name, kind in (("calendar", str), ("seed", str), ("last", int), ("decided", int)):
            if not isinstance(getattr(self, name), (kind, type(None))):
                raise ExpressionError(
                    name, getattr(self, name), f"not of type {kind.__name__}", f"give a {kind.__name__} or None"
                )

    def as_dict(self) -> dict[str, Any]:
        """The fields that differ from their defaults, as JSON values."""
        given = ((f.name, getattr(self, f.name), f.default) for f in fields(self) if f.init)
        return {name: _to_json(value) for name, value, default in given if value != default}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Rule:
        """The inverse of ``as_dict``; ``ExpressionError`` for an unknown key."""
        known = [f.name for f in fields(cls) if f.init]
        unknown = [name for name in values if name not in known]
        if unknown or "expression" not in values:
            problem = f"no rule has {unknown}" if unknown else "there is no expression"
            raise ExpressionError("rule", dict(values), problem, "give expression and any of " + ", ".join(known[1:]))
        dates: dict[str, Any] = {}
        for name in filter(values.__contains__, ("start", "end")):
            value = values[name]
            if not isinstance(value, int) or not EARLIEST <= value <= LATEST:
                raise ExpressionError(name, value, "not an instant in UTC milliseconds", "store what as_dict gave")
            dates[name] = moment(value)
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


def _check_manual(rule: Rule) -> None:
    """Raises ExpressionError for a rule that says more of when it is due than that it is never."""
    given = [name for name in rule.as_dict() if name not in ("expression", "timezone", *STORED)]
    if given:
        problem = "a manual schedule is never due by itself"
        raise ExpressionError(
            given[0], getattr(rule, given[0]), problem, f"leave {given[0]} out, or give another expression"
        )


class RulePlan:
    """A rule, parsed, and its timetable layer by layer. ``anchor`` (UTC ms): when it became active; ``key``: its identity."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self._first = EARLIEST if rule.start is None else milliseconds("start", rule.start)
        self._end = LATEST if rule.end is None else milliseconds("end", rule.end)
        if rule.start is not None and rule.end is not None and self._first > self._end:
            raise ExpressionError("end", rule.end, "before start", "give an end later than the start")
        if len(rule.also) >= MOST_EXPRESSIONS:
            raise ExpressionError(
                "also", len(rule.also), f"more than {MOST_EXPRESSIONS} expressions", "make several schedules"
            )
        self.expressions = [read(rule.expression)]
        for number, text in enumerate(rule.also):
            with about(f"also[{number}]"):
                self.expressions.append(read(text))
        self.is_manual = any(isinstance(each.parsed, Manual) for each in self.expressions)
        if self.is_manual:
            _check_manual(rule)
        self._exclusions = exclusions.parse_exclusions(rule.exclude, rule.calendar)
        self._apart = frozenset(instant for instant, _ in rule.pending)
        spread = rule.window or rule.jitter or rule.pending
        relative = any(e.anchored or e.hashed for e in self.expressions) or rule.max_fires or spread
        # The timetable, if it depends on the rule alone: not on anchor, key or seed.
        self._steady = MANUAL if self.is_manual and not rule.pending else None if relative else self._unspread(0, None)

    def timetable(self, anchor: int, key: str | None) -> Timetable:
        """The fires in all layers."""
        if self._steady is not None:
            return self._steady
        table = self.uncounted(anchor, key)
        return table if self.rule.max_fires is None else Bounded(table, last=self.final(anchor, key))

    def final(self, anchor: int, key: str | None, since: int | None = None) -> int:
        """The last of ``max_fires`` (UTC ms), counted from ``since`` (None: from the anchor); ``LATEST`` if there are fewer."""
        if self.rule.last is not None:
            return self.rule.last
        return _count(self.rule, anchor, key, anchor if since is None else since)

    def uncounted(self, anchor: int, key: str | None) -> Timetable:
        """The fires without the limit of ``max_fires``."""
        table = self.own(anchor, key)
        return WithPending(table, self._unspread(anchor, key), self.rule.pending) if self.rule.pending else table

    def own(self, anchor: int, key: str | None) -> Timetable:
        """The fires that this rule alone decides, without the limit of ``max_fires``."""
        return self._spread(self._unspread(anchor, key), key)

    def on_their_way(self, at: int, soon: int, anchor: int, key: str | None) -> list[tuple[int, int]]:
        """The instants (UTC ms) up to ``soon`` that are due later than ``at``, with the times at which they are due."""
        base = self._unspread(anchor, key)
        table = self._spread(base, key)
        coming = [due for due in fires(base, at, soon) if due not in self._apart]
        if isinstance(table, SpreadFires):
            early = table.on_its_way(at)
            found = [(due, table.moved(due)) for due in (early, *coming) if due is not None]
        else:
            found = [(due, due) for due in coming]
        found += [pair for pair in self.rule.pending if pair[1] > at]
        return [pair for pair in found if pair[1] <= self.final(anchor, key)] if self.rule.max_fires else found

    def _spread(self, base: Timetable, key: str | None) -> Timetable:
        """The fires of ``base``, moved by the window or the jitter."""
        rule, decided = self.rule, EARLIEST if self.rule.decided is None else self.rule.decided
        if rule.window:
            if key is None:
                problem = "a window spreads by identity, and there is none here"
                raise ExpressionError("window", rule.window, problem, "give key=")
            return SpreadFires(base, rule.window * 1000, key, self._end, decided, self._apart)
        if rule.jitter:
            if rule.seed is None:
                problem = "jitter needs the seed that the revision stores"
                raise ExpressionError("jitter", rule.jitter, problem, "give seed=")
            return SpreadFires(base, rule.jitter * 1000, rule.seed, self._end, decided, self._apart)
        return Without(base, self._apart) if self._apart else base

    def _unspread(self, anchor: int, key: str | None) -> Timetable:
        zone, gap, repeated = self.rule.timezone, self.rule.gap, self.rule.repeated
        table = union([e.timetable(zone, gap, repeated, anchor=anchor, key=key) for e in self.expressions])
        table = self._clear_of_exclusions(table)
        bounds = self._first, self._end
        return Bounded(table, *bounds) if bounds != (EARLIEST, LATEST) else table

    def _clear_of_exclusions(self, table: Timetable) -> Timetable:
        excluded, zone = self._exclusions, zones.table(self.rule.timezone)
        weights = [_SLOW if isinstance(e.parsed, Recurrences) else 1 for e in self.expressions]
        weight = sum(weights) + len(excluded.days) + len(excluded.times)
        if self.rule.on_excluded == "skip":
            return Excluding(table, zone, excluded, weight, days=True) if excluded != Exclusions() else table
        forward = self.rule.on_excluded == "next_business_day"
        table = MovedToBusinessDay(table, zone, excluded, forward, "skip" if self.rule.gap == "skip" else "next_valid")
        return Excluding(table, zone, excluded, weight * MOVE, days=False) if excluded.times else table


@lru_cache(maxsize=_KEPT)
def _count(rule: Rule, anchor: int, key: str | None, since: int) -> int:
    """The last of ``max_fires`` later than ``since`` (UTC ms)."""
    assert rule.max_fires
    table = rule.plan.uncounted(anchor, key)
    if isinstance(table, SpreadFires):
        last = table.nth(since, rule.max_fires)
    else:
        last = next(islice(fires(table, since, LATEST), rule.max_fires - 1, None), None)
    return LATEST if last is None else last


@lru_cache(maxsize=_KEPT)
def from_json(text: str) -> Rule:
    """A rule stored as JSON; the same text is read once."""
    return Rule.from_dict(json.loads(text))


def _pairs(value: object) -> tuple[tuple[int, int], ...]:
    """Pending fires, also as JSON has them. Raises ExpressionError."""
    pairs = (
        [tuple(pair) if isinstance(pair, (list, tuple)) else () for pair in value]
        if isinstance(value, (list, tuple))
        else [()]
    )
    if not all(len(pair) == 2 and all(type(at) is int for at in pair) for pair in pairs):
        raise ExpressionError("pending", value, "not a list of pairs of instants in UTC milliseconds", "leave it out")
    return tuple((instant, at) for instant, at in pairs)


def _to_json(value: object) -> object:
    if isinstance(value, datetime):
        return milliseconds("start", value)
    return [_to_json(each) for each in value] if isinstance(value, tuple) else value


def check_whole(name: str, value: object, low: int, high: int) -> None:
    """``ExpressionError`` unless ``value`` is a whole number from ``low`` to ``high``."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ExpressionError(name, value, f"not a whole number from {low} to {high}", f"give {low} to {high}")


def timetable(rule: Rule, *, anchor: int, key: str | None = None) -> Timetable:
    """The fires of a rule. ``anchor`` (UTC ms) is when it became active: rates and ``max_fires`` count from there.

    ``key`` is the schedule's identity, which ``H`` and ``window`` spread by: without it they raise ``ExpressionError``.
    """
    return rule.plan.timetable(anchor, key)
