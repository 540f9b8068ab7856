"""Converts Celery's schedule objects. They are recognised by their attributes, so Celery need not be installed.

To Celery both day fields must match, where cron takes either; ranges may run backwards, and weekdays have long names. So the sets that
Celery made of the fields are what counts, and the text is kept where it means the same here.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from minutehand.errors import ExpressionError
from minutehand.timing.cron.fields import DAY, HOUR, MINUTE, MONTH, WEEKDAY, FieldSpec, FieldToken, values

_FIELDS: Mapping[str, FieldSpec] = {  # in the order of an expression
    "minute": MINUTE,
    "hour": HOUR,
    "day_of_month": DAY,
    "month_of_year": MONTH,
    "day_of_week": WEEKDAY,
}
_UNITS = (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1))
_RUN = 3  # values in a row that are shorter as a range


class NotMapped(Exception):
    """A schedule cannot be expressed here; the text says why."""


def times_of(schedule: Any, notes: list[str]) -> dict[str, Any]:
    """Expression and rule of a schedule of Celery: a crontab, a timedelta, seconds. Raises NotMapped."""
    if hasattr(schedule, "_orig_minute"):
        return _crontab(schedule, notes)
    if hasattr(schedule, "lat") and hasattr(schedule, "lon"):
        raise NotMapped(
            f"the sun's {getattr(schedule, 'event', 'event')}: no schedule follows it; let a daily job submit() it"
        )
    if getattr(schedule, "relative", False):
        notes.append("relative=True: it is not rounded to the unit; say from when: rate(…, from=2026-01-01T00:00:00Z)")
    return {"expression": _rate(getattr(schedule, "run_every", schedule))}


def _rate(every: Any) -> str:
    if isinstance(every, (int, float)) and not isinstance(every, bool):
        every = timedelta(seconds=every)
    if not isinstance(every, timedelta):
        raise NotMapped(
            f"a schedule of the class {type(every).__name__}: write it as cron, a rate or a recurrence rule"
        )
    seconds, rest = divmod(every, timedelta(seconds=1))
    if rest or seconds < 1:
        raise NotMapped(f"every {every.total_seconds():g} s: a rate is a whole number of seconds")
    unit, size = next((unit, size) for unit, size in _UNITS if seconds % size == 0)
    count = seconds // size
    return f"rate({count} {unit}{'s' if count > 1 else ''})"


def _crontab(schedule: Any, notes: list[str]) -> dict[str, Any]:
    texts = {name: _field(schedule, name, spec) for name, spec in _FIELDS.items()}
    if getattr(schedule, "nowfun", None) is not None:
        notes.append("its own clock (nowfun) is left out")
    words: dict[str, Any] = {"expression": " ".join(texts.values())}
    day, weekday = texts["day_of_month"], texts["day_of_week"]
    if day[0] != "*" and weekday[0] != "*":
        others = set(range(7)) - set(schedule.day_of_week)
        words["expression"] = " ".join([*list(texts.values())[:4], "*"])
        words["rule"] = {"exclude": [f"* * * * {_listed(others)}"]}
    return words


def _field(schedule: Any, name: str, spec: FieldSpec) -> str:
    """A field: the original text if it has the same meaning here, else the list of values."""
    wanted, text = set(getattr(schedule, name)), str(getattr(schedule, f"_orig_{name}"))
    if text.split() != [text] or wanted == set(range(spec.low, spec.high + 1)):
        return _listed(wanted, spec)
    try:
        found = values(FieldToken(text.upper(), 0, text), spec, lambda salt, width: 0)
    except ExpressionError:
        return _listed(wanted, spec)
    same = {value % 7 if spec is WEEKDAY else value for value in range(64) if found >> value & 1} == wanted
    return text if same else _listed(wanted, spec)


def _listed(wanted: set[int], spec: FieldSpec = WEEKDAY) -> str:
    """Values as a field: ``0-4,9``."""
    if wanted == set(range(spec.low, spec.high + 1)):
        return "*"
    runs: list[list[int]] = []
    for value in sorted(wanted):
        if runs and runs[-1][-1] == value - 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    parts = [[f"{run[0]}-{run[-1]}"] if len(run) >= _RUN else list(map(str, run)) for run in runs]
    return ",".join(part for run in parts for part in run)
