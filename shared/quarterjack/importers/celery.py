"""Celery's beat schedule as schedules of jobs that call the same tasks.

Celery's objects are recognised by their attributes, so Celery need not be installed unless the user's module imports it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta, tzinfo
from itertools import groupby, takewhile
from typing import Any

from quarterjack.errors import ExpressionError, InvalidInput
from quarterjack.importers import jobs_file
from quarterjack.importers.celery_config import BeatConfig
from quarterjack.importers.report import Collector, ImportReport, NotMapped, told_apart
from quarterjack.importers.text import slug
from quarterjack.timing.cron.fields import DAY, HOUR, MINUTE, MONTH, WEEKDAY, FieldSpec, FieldToken, values
from quarterjack.timing.moments import UNITS

_KEYS = ("task", "schedule", "args", "kwargs", "options", "relative", "name")
_REMARKS = (
    "a job calls its task directly, in Quarterjack's worker: say retry=Retry(…) in the jobs' file, autoretry_for has no effect",
    "max_retries=3 of a task is Retry(max_attempts=4), which counts the first attempt",
    "what beat missed while it was down runs once, late, if that is within 30 minutes",
    "a rate counts from when its schedule is applied, and beat's from its last run",
)
_ELSEWHERE = (
    "entries that only the database of {} has are not here: write them into a module with beat_schedule = {{…}}"
)
_ROUTED = "task_routes is left out: give the schedules queue: where a queue of its own matters; options of an entry have theirs"
_UNROUNDED = "it is not rounded to the unit; say from when: rate(…, from=2026-01-01T00:00:00Z)"
_FIELDS: Mapping[str, FieldSpec] = {  # in the order of an expression
    "minute": MINUTE,
    "hour": HOUR,
    "day_of_month": DAY,
    "month_of_year": MONTH,
    "day_of_week": WEEKDAY,
}
_DECIDING = ("is_due", "remaining_estimate", "remaining_delta")  # methods of Celery's schedules
_NO_QUEUE = re.compile(r"[^a-z0-9]+")  # what a queue's name may not contain
_RUN = 3  # values in a row that are shorter as a range


@dataclass
class _Jobs:
    names: Mapping[str, str]  # by tasks
    tasks: dict[str, str] = field(default_factory=dict)  # names of tasks by jobs'
    queues: set[str] = field(default_factory=set)


def read_beat(beat: BeatConfig, module: str, text: str, *, timezone: str | None = None) -> ImportReport:
    """Convert a beat schedule. Raises InvalidInput if it is empty.

    ``text`` is the module's source, for the line numbers; ``timezone`` replaces the app's.
    """
    tasks = [(slug(task), task) for entry in beat.entries.values() if (task := _task(entry)) is not None]
    jobs = _Jobs(names={task: name for (_, task), name in zip(tasks, told_apart(tasks), strict=True)})
    found, lines = Collector(module), _lines(text)
    zone = timezone or str(beat.zone or "UTC")
    for name, entry in beat.entries.items():
        _entry(str(name), entry, lines.get(str(name), 0), zone, found, jobs)
    if not found.lines:
        raise InvalidInput("module", module, "has an empty beat schedule", "there is nothing to import")
    return found.report(
        f"a beat schedule of Celery, in {zone}",
        slug(f"celery/{module}"),
        [
            *([beat.doubt] if beat.doubt and timezone is None else []),
            *([_ELSEWHERE.format(beat.scheduler)] if beat.scheduler else []),
            *([_ROUTED] if beat.routes else []),
            *_REMARKS,
        ],
        lambda: jobs_file.for_tasks(module, beat.app, jobs.tasks, jobs.queues),
    )


def _lines(text: str) -> dict[str, int]:
    """Lines of the string literals of a module: an entry begins at the line of its key."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return {}
    texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return {str(node.value): node.lineno for node in sorted(texts, key=lambda node: -node.lineno)}  # the first counts


def _task(entry: Any) -> str | None:
    """The task of an entry; None: it is no entry."""
    task = entry.get("task") if isinstance(entry, Mapping) and "schedule" in entry else None
    return task if isinstance(task, str) else None


def _entry(name: str, entry: Any, line: int, zone: str, found: Collector, jobs: _Jobs) -> None:
    task = _task(entry)
    if task is None:
        found.left(line, name, "it has no task and schedule")
        return
    notes, job = list[str](), jobs.names[task]
    args, kwargs = list(entry.get("args") or ()), dict(entry.get("kwargs") or {})
    try:
        words = {
            "job": job,
            "timezone": zone,
            **times_of(entry["schedule"], notes),
            "payload": {**({"args": args} if args else {}), **({"kwargs": kwargs} if kwargs else {})} or None,
            **_options(entry.get("options") or {}, notes),
            "catch_up": "latest",
        }
    except NotMapped as problem:
        found.left(line, f"{name}: {task}", str(problem))
        return
    if entry.get("relative"):
        notes.append(f"relative: {_UNROUNDED}")
    notes += [f"{key} is left out: nothing here corresponds to it" for key in entry if key not in _KEYS]
    if found.entry(line, f"{name}: {task}", name, words, notes):
        jobs.tasks[job] = task
        jobs.queues |= {words["queue"]} if "queue" in words else set()


def _options(options: Mapping[str, Any], notes: list[str]) -> dict[str, Any]:
    words: dict[str, Any] = {}
    for name, value in options.items():
        if name == "queue" and value is not None:
            theirs = str(getattr(value, "name", value))
            words["queue"] = queue = _NO_QUEUE.sub("-", theirs.lower())[:32].strip("-") or theirs
            called = f", called {theirs} in Celery," if queue != theirs else ""
            notes.append(
                f"the queue {queue}{called} is one of Quarterjack's: the jobs' file declares it; size it there"
            )
        elif name == "expires" and isinstance(value, (int, float, timedelta)):
            words["deadline"] = value.total_seconds() if isinstance(value, timedelta) else value
        elif value is not None:
            notes.append(f"options.{name} is left out: nothing here corresponds to it")
    return words


def times_of(schedule: Any, notes: list[str]) -> dict[str, Any]:
    """Expression, rule and a zone of its own of a schedule of Celery: a crontab, a timedelta, seconds. Raises NotMapped."""
    if (zone := _own_zone(schedule)) is not None:
        return {**_crontab(schedule, notes), "timezone": zone}
    if _decides_itself(schedule):
        raise NotMapped(
            f"its class {type(schedule).__name__} decides itself when it is due: write it as cron, a rate or a recurrence rule"
        )
    if hasattr(schedule, "_orig_minute"):
        return _crontab(schedule, notes)
    if hasattr(schedule, "lat") and hasattr(schedule, "lon"):
        raise NotMapped(
            f"the sun's {getattr(schedule, 'event', 'event')}: no schedule follows it; let a daily job submit() it"
        )
    if getattr(schedule, "relative", False):
        notes.append(f"relative=True: {_UNROUNDED}")
    return {"expression": _rate(getattr(schedule, "run_every", schedule))}


def _own_zone(schedule: Any) -> str | None:
    """The zone of a crontab that has its own: TzAwareCrontab of django_celery_beat."""
    zone = getattr(schedule, "__dict__", {}).get("tz")
    named = type(schedule).__name__ == "TzAwareCrontab" and hasattr(schedule, "_orig_minute")
    return str(zone) if named and isinstance(zone, tzinfo) else None


def _decides_itself(schedule: Any) -> bool:
    """Whether a class derived from one of Celery's has rules of its own, so that its fields do not say when it is due."""
    classes = type(schedule).__mro__
    own = list(takewhile(lambda one: one.__module__.partition(".")[0] != "celery", classes))
    return len(own) < len(classes) and any(name in vars(one) for one in own for name in _DECIDING)


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
    unit, size = next((unit, size) for unit, size in UNITS.items() if seconds % size == 0)
    return f"rate({seconds // size} {unit}{'s' if seconds > size else ''})"


def _crontab(schedule: Any, notes: list[str]) -> dict[str, Any]:
    texts = {name: _field(schedule, name, spec) for name, spec in _FIELDS.items()}
    if getattr(schedule, "nowfun", None) is not None and _own_zone(schedule) is None:
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
    parts: list[str] = []
    for _, pairs in groupby(enumerate(sorted(wanted)), lambda pair: pair[1] - pair[0]):
        run = [value for _, value in pairs]
        parts += [f"{run[0]}-{run[-1]}"] if len(run) >= _RUN else map(str, run)
    return ",".join(parts)
