"""The arguments of a DAG as words of a schedule, with a note for each difference."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from quarterjack.importers.airflow.values import AirflowDag, AirflowTimetable, Unknown, is_known
from quarterjack.importers.report import NotMapped

_DAY = timedelta(days=1)
_SCHEDULES = ("schedule", "schedule_interval", "timetable")
_CRON = ("CronTriggerTimetable", "CronDataIntervalTimetable")
_DELTA = ("DeltaTriggerTimetable", "DeltaDataIntervalTimetable")
_QUIET = frozenset(  # arguments that change nothing here, or are read elsewhere
    {
        *(
            "dag_id",
            "description",
            "default_args",
            "start_date",
            "end_date",
            "catchup",
            "max_active_runs",
            "tags",
            "params",
        ),
        *(
            "dagrun_timeout",
            "is_paused_upon_creation",
            "doc_md",
            "default_view",
            "orientation",
            "owner_links",
            "fail_stop",
        ),
        *("fail_fast", "dag_display_name", "auto_register", "render_template_as_native_obj", *_SCHEDULES),
    }
)
LEFT_OF_TASKS = frozenset(  # arguments of tasks that change when they run, or who is told
    {
        *(
            "depends_on_past",
            "wait_for_downstream",
            "pool",
            "max_active_tis_per_dag",
            "priority_weight",
            "queue",
            "sla",
        ),
        *("on_failure_callback", "on_success_callback", "on_retry_callback", "email_on_failure", "email_on_retry"),
    }
)
_LEFT: Mapping[str, str] = {
    "max_active_tasks": "caps of jobs and tenants bound what runs at a time",
    "concurrency": "caps of jobs and tenants bound what runs at a time",
    "on_failure_callback": "give on_failure: the ARN of a topic, or job:NAME",
    "on_success_callback": "a task with join: done does something at the end",
    "sla_miss_callback": "must_end_by tells of a run that has not ended in time",
    "user_defined_macros": "a payload has references alone",
    "access_control": "grants say who may do what",
}


def schedule_words(dag: AirflowDag, notes: list[str]) -> dict[str, Any]:
    """When a DAG runs, and the options of its runs. Raises NotMapped."""
    given, zone = dag.arguments, "UTC"
    start = given.get("start_date", _defaults(dag).get("start_date"))
    if isinstance(start, datetime):
        zone = getattr(start.tzinfo, "key", "UTC")
    expression, named = _expression(given, notes)
    words: dict[str, Any] = {
        "expression": expression,
        "timezone": None if expression == "manual" else named or zone,
        "rule": {} if expression == "manual" else _bounds(given, start, notes),
        "description": _text(given.get("description")),
        "tags": _tags(given.get("tags"), notes),
        "payload": _params(given.get("params"), notes),
        "on_task_failure": "continue",
        "max_running": _whole(given, "max_active_runs", notes),
        "deadline": _seconds(given, "dagrun_timeout", notes),
        "paused": True if given.get("is_paused_upon_creation") is True else None,
        **({} if expression == "manual" else _catch_up(given, notes)),
    }
    notes += [
        f"{name} is left out: {_LEFT.get(name, 'nothing here corresponds to it')}"
        for name in given
        if name not in _QUIET
    ]
    left = [name for name, value in _defaults(dag).items() if name in LEFT_OF_TASKS and value not in (None, False)]
    if left:
        notes.append(f"{', '.join(left)} of default_args {'is' if len(left) == 1 else 'are'} left out")
    return words


def _defaults(dag: AirflowDag) -> Mapping[str, Any]:
    found = dag.arguments.get("default_args")
    return found if isinstance(found, Mapping) else {}


def _expression(given: Mapping[str, Any], notes: list[str]) -> tuple[Any, str | None]:  # noqa: PLR0911 (a table of cases)
    """The expression, and the zone that it names itself."""
    name = next((one for one in _SCHEDULES if one in given), None)
    if name is None:
        notes.append("it has no schedule: Airflow 2 runs it daily, Airflow 3 never; here it is manual")
        return "manual", None
    value = given[name]
    match value:
        case None | "None":
            return "manual", None
        case "@once":
            notes.append("@once: trigger it once; here it is manual")
            return "manual", None
        case "@continuous":
            raise NotMapped("@continuous has no counterpart: let the last task trigger the pipeline again")
        case "@quarterly":
            return "0 0 1 */3 *", None
        case str():
            return value, None
        case timedelta():
            return _rate(value), None
        case AirflowTimetable():
            return _timetable(value)
    text = _source(value)
    if "Dataset" in text or "Asset" in text or isinstance(value, list):
        notes.append(f"{name}={text}: assets start nothing here; let the job that writes them trigger the pipeline")
        return "manual", None
    raise NotMapped(f"{name}={text} is only known when the file runs: write its value into the file, and import again")


def _source(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_source, value))}]"
    return value.text if isinstance(value, Unknown) else str(value)


def _timetable(value: AirflowTimetable) -> tuple[Any, str | None]:
    first = next(iter(value.positional), value.arguments.get("cron", value.arguments.get("delta")))
    zone = value.arguments.get("timezone", "UTC")
    named = getattr(zone, "key", zone)
    if value.name in _CRON and isinstance(first, str) and isinstance(named, str):
        return first, named
    if value.name in _DELTA and isinstance(first, timedelta):
        return _rate(first), None
    raise NotMapped(f"{value.name} has no counterpart: declare the expression that says the same")


def _rate(value: timedelta) -> str:
    seconds = value.total_seconds()
    if seconds < 1 or seconds != int(seconds):
        raise NotMapped(f"an interval of {seconds:g} s is no whole number of seconds")
    count, unit = (int(seconds) // 86_400, "day") if seconds % 86_400 == 0 else (int(seconds), "second")
    return f"rate({count} {unit}{'' if count == 1 else 's'})"


def _bounds(given: Mapping[str, Any], start: Any, notes: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for word, value in (("start", start), ("end", given.get("end_date"))):
        if isinstance(value, datetime):
            found[word] = value.isoformat()
        elif value is not None:
            notes.append(f"{word}_date is left out: it is only known when the file runs")
    return found


def _catch_up(given: Mapping[str, Any], notes: list[str]) -> dict[str, Any]:
    if given.get("catchup") is True:
        notes.append(
            "catchup=True: fires of an outage all run; those before today are a backfill: quarterjack schedules backfill"
        )
        return {"automatic_backfill": True}
    if "catchup" not in given:
        notes.append("catchup is not given: Airflow 2 has True, Airflow 3 False; here the latest missed fire runs")
    elif given["catchup"] is not False:
        notes.append("catchup is only known when the file runs; here the latest missed fire runs")
    return {"catch_up": "latest"}


def _tags(given: Any, notes: list[str]) -> dict[str, str]:
    if given is None:
        return {}
    known = [one for one in given if isinstance(one, str)] if isinstance(given, list) else []
    if known:
        notes.append("tags of Airflow have no values: they are written as TAG: airflow")
    return dict.fromkeys(known, "airflow")


def _params(given: Any, notes: list[str]) -> dict[str, Any] | None:
    if given is None:
        return None
    known = {name: value for name, value in given.items() if is_known(value)} if isinstance(given, Mapping) else {}
    if not isinstance(given, Mapping) or len(known) < len(given):
        notes.append("params that are not plain values are left out: write their defaults into payload")
    return known or None


def _text(given: Any) -> str:
    return " ".join(given.split())[:200] if isinstance(given, str) else ""


def _whole(given: Mapping[str, Any], name: str, notes: list[str]) -> int | None:
    found: int | None = _known(given, name, notes, lambda value: value if isinstance(value, int) else None)
    return found


def _seconds(given: Mapping[str, Any], name: str, notes: list[str]) -> float | None:
    found: float | None = _known(
        given, name, notes, lambda value: value.total_seconds() if isinstance(value, timedelta) else None
    )
    return found


def _known(given: Mapping[str, Any], name: str, notes: list[str], read: Callable[[Any], Any]) -> Any:
    if given.get(name) is None:
        return None
    found = read(given[name])
    if found is None:
        notes.append(f"{name} is left out: it is only known when the file runs")
    return found


def policy_words(given: Mapping[str, Any], notes: list[str]) -> dict[str, Any]:
    """The policies of a task by its arguments and those of its DAG's ``default_args``."""
    retries = _whole(given, "retries", notes)
    words: dict[str, Any] = {}
    if retries is not None and retries >= 0:
        base = _seconds(given, "retry_delay", notes)
        backoff = "exponential" if given.get("retry_exponential_backoff") is True else "fixed"
        cap = _seconds(given, "max_retry_delay", notes)
        retry = {
            "max_attempts": retries + 1,
            "base": 300.0 if base is None else base,
            "backoff": backoff,
            "cap": cap,
            "jitter": 0.0,
        }
        words["retry"] = {name: value for name, value in retry.items() if value is not None}
        if retries == 0:
            words["retry"] = {"max_attempts": 1}
        elif cap is None:
            words["retry"]["cap"] = max(3600.0, words["retry"]["base"])
    timeout = _seconds(given, "execution_timeout", notes)
    return words | ({} if timeout is None else {"timeout": timeout})
