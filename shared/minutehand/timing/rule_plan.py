"""A parsed rule: its expressions, exclusions, bounds and spreading as layers of one timetable."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice

from minutehand.errors import ExpressionError
from minutehand.timing import expressions
from minutehand.timing.excluding import MOVE, Excluding, MovedToBusinessDay, OnExcluded
from minutehand.timing.exclusions import Exclusions
from minutehand.timing.expressions import Expression, Policy
from minutehand.timing.rrule.parser import Recurrences
from minutehand.timing.spread import SpreadFires
from minutehand.timing.timetables import EARLIEST, LATEST, Bounded, Timetable, fires, union
from minutehand.timing.zones import zone as zones
from minutehand.timing.zones.wall_clock import Gap

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
