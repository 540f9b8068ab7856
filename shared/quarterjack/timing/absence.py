"""Why a rule has no fire at an instant: the layer of the rule that lacks it, moved it, or took it away.

The layers of ``RulePlan`` are put on one after the other: expression, clocks, exclusions, start and end, max_fires, window or jitter.
The first one under which the instant is no fire any more is the reason. Where a layer moves fires, the fire that stands for the
instant is named.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from enum import StrEnum
from itertools import islice
from typing import Any

from quarterjack.timing.cron.pattern import EPOCH
from quarterjack.timing.exclusions import Exclusions, parse_exclusions
from quarterjack.timing.rule import STORED, Rule, timetable
from quarterjack.timing.timetables import fires, has, milliseconds, moment, previous
from quarterjack.timing.zones import zone as zones
from quarterjack.values import replace, value

_DAY = 86_400_000  # ms
_FAR = 40 * _DAY  # ms: no exclusion moves a fire further
_CLOCKS = 4 * 3600  # seconds after a change of the clocks in which a time may be one that it skipped


class Layer(StrEnum):
    """The layer of a rule that has no fire at an instant."""

    EXPRESSION = "expression"  # it does not match
    CLOCKS = "clocks"  # the clocks skip this time, or show it twice
    EXCLUSION = "exclusion"  # of a date, a time or weekends
    HOLIDAY = "holiday"  # of the rule's calendar
    START = "start"  # the rule begins later
    END = "end"  # the rule has ended
    MAX_FIRES = "max_fires"  # its last fire was before
    SPREAD = "spread"  # a window or jitter moves the fire


@value(kw_only=True)
class Absence:
    """Why an instant is no fire of a rule."""

    layer: Layer
    words: str  # a clause that follows "because"
    moved_to: int | None = None  # UTC ms of the fire that stands for the instant, if one does


def absence(rule: Rule, at: int, *, anchor: int, key: str | None) -> Absence | None:
    """Why ``at`` (UTC ms) is no fire of a rule with this anchor and key; None: it is one."""
    if _is_fire(rule, at, anchor, key):
        return None
    unbound = _without(rule, "exclude", "calendar", "on_excluded", "start", "end", *_SPREAD)
    plain = _alone(rule)
    if not _is_fire(plain, at, anchor, key):
        return Absence(layer=Layer.EXPRESSION, words=f"{_expressions(rule)} does not match {_wall(rule, at)}")
    if not _is_fire(unbound, at, anchor, key):
        return _by_clocks(unbound, at, anchor, key)
    unspread = _without(rule, "start", "end", *_SPREAD)
    if not _is_fire(unspread, at, anchor, key):
        return _by_exclusion(unspread, at, anchor, key)
    return _by_bounds(rule, at, anchor, key)


def absences(rule: Rule, after: int, upto: int, *, anchor: int, key: str | None, most: int) -> Sequence[Absence]:
    """Why the times in ``(after, upto]`` (UTC ms) at which a rule's expressions match are no fires of it; at most ``most`` of them."""
    matches = fires(timetable(_alone(rule), anchor=anchor, key=key), after, upto)
    found = (absence(rule, at, anchor=anchor, key=key) for at in islice(matches, most))
    return [one for one in found if one is not None]


_SPREAD = ("max_fires", "window", "jitter", *STORED)


def _alone(rule: Rule) -> Rule:
    """The expressions of a rule without what takes fires away or moves them."""
    unbound = _without(rule, "exclude", "calendar", "on_excluded", "start", "end", *_SPREAD)
    return unbound if unbound.plan.is_manual else replace(unbound, gap="shift", repeated="both")


def _without(rule: Rule, *names: str) -> Rule:
    """The rule with these fields at their defaults."""
    defaults: dict[str, Any] = {name: Rule.__dataclass_fields__[name].default for name in names}
    return replace(rule, **defaults)


def _is_fire(rule: Rule, at: int, anchor: int, key: str | None) -> bool:
    return has(timetable(rule, anchor=anchor, key=key), at)


def _expressions(rule: Rule) -> str:
    texts = [repr(text) for text in (rule.expression, *rule.also)]
    return texts[0] if len(texts) == 1 else f"none of {', '.join(texts)}"


def _wall(rule: Rule, at: int) -> str:
    return f"{moment(at, rule.timezone):%a %Y-%m-%d %H:%M:%S} in {rule.timezone}"


# The layers.


def _by_clocks(rule: Rule, at: int, anchor: int, key: str | None) -> Absence:
    zone, second = zones.table(rule.timezone), at // 1000
    for instant, before, after in reversed(zone.changes(second - _CLOCKS, second)):
        if after > before and second < instant + after - before:
            wanted, begins = _clock(second + before), _clock(instant + after)
            words = f"the clocks of {rule.timezone} went forward from {_clock(instant + before)} to {begins}, so {wanted} did not come"
            if _is_fire(rule, instant * 1000, anchor, key):
                return Absence(layer=Layer.CLOCKS, words=f"{words} (gap=next_valid)", moved_to=instant * 1000)
            return Absence(layer=Layer.CLOCKS, words=f"{words}, and no fire stands for it (gap=skip)")
    passed, local = zone.showing(second), zone.local(second)
    words = f"the clocks of {rule.timezone} showed {_clock(local)} twice that day, and this is the {passed} time"
    near = timetable(rule, anchor=anchor, key=key)
    other = previous(near, at, at - _DAY) if passed == "second" else near.next(at)
    if other is None or zone.local(other // 1000) != local:
        return Absence(layer=Layer.CLOCKS, words=words)
    return Absence(layer=Layer.CLOCKS, words=words, moved_to=other)


def _clock(local: int) -> str:
    """A wall time (seconds, as if it were UTC)."""
    return f"{local // 3600 % 24:02}:{local // 60 % 60:02}" + (f":{local % 60:02}" if local % 60 else "")


def _by_exclusion(rule: Rule, at: int, anchor: int, key: str | None) -> Absence:
    excluded = parse_exclusions(rule.exclude, rule.calendar)
    local = zones.table(rule.timezone).local(at // 1000)
    layer, words = _excluded_by(rule, excluded, local)
    moved = rule.on_excluded != "skip" and not excluded.covered(local)
    return Absence(layer=layer, words=words, moved_to=_target(rule, at, anchor, key) if moved else None)


def _excluded_by(rule: Rule, excluded: Exclusions, local: int) -> tuple[Layer, str]:
    """The exclusion that a wall time (seconds) falls under."""
    day = local // 86400
    today = date.fromordinal(day + EPOCH)
    holidays = excluded.holidays
    if holidays is not None and holidays.holiday(today):
        return Layer.HOLIDAY, f"{today} is {holidays.name(today)} in calendar {rule.calendar!r}"
    for text in rule.exclude:
        alone = parse_exclusions((text,), None)
        if text.strip().lower() != "weekends" and (alone.off(day, business=False) or alone.covered(local)):
            return Layer.EXCLUSION, f"{today:%a} {today} {_clock(local)} is excluded by {text!r}"
    return Layer.EXCLUSION, f"{today:%a} {today} is on a weekend" + (
        ", which is excluded" if excluded.weekends else f" (on_excluded={rule.on_excluded})"
    )


def _target(rule: Rule, at: int, anchor: int, key: str | None) -> int | None:
    """The fire on the business day to which a fire at ``at`` is moved."""
    zone, table = zones.table(rule.timezone), timetable(rule, anchor=anchor, key=key)
    local = zone.local(at // 1000)
    forward = rule.on_excluded == "next_business_day"
    found = table.next(at) if forward else previous(table, at, at - _FAR)
    while found is not None and abs(found - at) < _FAR:
        if zone.local(found // 1000) % 86400 == local % 86400:
            return found
        found = table.next(found) if forward else previous(table, found, at - _FAR)
    return None


def _by_bounds(rule: Rule, at: int, anchor: int, key: str | None) -> Absence:
    if rule.start is not None and at < milliseconds("start", rule.start):
        return Absence(layer=Layer.START, words=f"the rule starts at {rule.start.isoformat()}")
    if rule.end is not None and at > milliseconds("end", rule.end):
        return Absence(layer=Layer.END, words=f"the rule ended at {rule.end.isoformat()}")
    spread = rule.plan.uncounted(anchor, key).next(at - 1)
    if rule.max_fires is not None and (spread is None or spread > rule.plan.final(anchor, key)):
        last = moment(rule.plan.final(anchor, key), rule.timezone)
        return Absence(
            layer=Layer.MAX_FIRES, words=f"the last of its {rule.max_fires} fires (max_fires) was {last.isoformat()}"
        )
    width = f"window={rule.window}" if rule.window else f"jitter={rule.jitter}"
    return Absence(layer=Layer.SPREAD, words=f"{width} moves each fire later", moved_to=spread)
