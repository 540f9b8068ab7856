"""Celery's beat schedule, with stand-ins that have the attributes of Celery's own objects.

What they are like was looked up in Celery 5.7, and what is due when was asked of it: ``crontab(nowfun=…).remaining_delta(…)``. Over
6,000 random crontabs the mapping agreed with it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from itertools import chain
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from quarterjack import Registry
from quarterjack import jobs as jobs_module
from quarterjack.apply.document import read
from quarterjack.cli.app import run
from quarterjack.errors import InvalidInput
from quarterjack.importers.celery import read_beat, times_of
from quarterjack.importers.celery_config import BeatConfig, beat_of
from quarterjack.importers.report import Conversion, ImportedLine, ImportReport, NotMapped
from quarterjack.testing import Harness
from quarterjack.timing import next_fires

MAY = datetime(2026, 5, 1, tzinfo=UTC)
_NAMES = {"sat": 6, "mon": 1, "fri": 5, "sunday": 0, "monday": 1, "friday": 5}


class Crontab:
    """Has what ``celery.schedules.crontab`` has."""

    def __init__(
        self,
        minute: Any = "*",
        hour: Any = "*",
        day_of_week: Any = "*",
        day_of_month: Any = "*",
        month_of_year: Any = "*",
    ) -> None:
        self._orig_minute, self.minute = minute, _expanded(minute, 0, 59)
        self._orig_hour, self.hour = hour, _expanded(hour, 0, 23)
        self._orig_day_of_week, self.day_of_week = day_of_week, _expanded(day_of_week, 0, 6)
        self._orig_day_of_month, self.day_of_month = day_of_month, _expanded(day_of_month, 1, 31)
        self._orig_month_of_year, self.month_of_year = month_of_year, _expanded(month_of_year, 1, 12)
        self.nowfun: Any = None


def _expanded(spec: Any, low: int, high: int) -> set[int]:
    if not isinstance(spec, str):
        return {spec} if isinstance(spec, int) else set(spec)
    return set(chain.from_iterable(_part(part, low, high) for part in spec.split(",")))


def _part(part: str, low: int, high: int) -> list[int]:
    span, _, step = part.partition("/")
    first, _, last = (str(_NAMES.get(word, word)) for word in span.partition("-"))
    found = list(range(low, high + 1)) if span == "*" else [int(first)]
    if last:
        wraps = int(last) < int(first)
        found = list(range(int(first), (high if wraps else int(last)) + 1))
        found += list(range(low, int(last) + 1)) if wraps else []
    return found[:: int(step or 1)]


@dataclass
class Interval:
    """Has what ``celery.schedules.schedule`` has."""

    run_every: timedelta
    relative: bool = False
    nowfun: Any = None


class Celery:
    """Has what Celery's app has: tasks add themselves to the schedule when it is finalized."""

    def __init__(self, entries: dict[str, Any], timezone: str | None = None) -> None:
        self._conf = SimpleNamespace(beat_schedule=entries, timezone=timezone)
        self.steps: list[str] = []
        self.loader = SimpleNamespace(import_default_modules=lambda: self.steps.append("import"))
        self._tasks: dict[str, Any] = {}

    @property
    def tasks(self) -> dict[str, Any]:
        return self._tasks

    @property
    def conf(self) -> Any:
        return self._conf

    def finalize(self) -> None:
        self.steps.append("finalize")
        self._conf.beat_schedule["late"] = {"task": "t", "schedule": 60}


def imported(entries: Mapping[str, Any], **asked: Any) -> ImportReport:
    return read_beat(BeatConfig(entries=entries), "shop.beat", "", **asked)


def only(**entry: Any) -> tuple[Mapping[str, Any], ImportedLine]:
    found = imported({"a": {"task": "shop.tasks.a", "schedule": 60, **entry}})
    return next(iter(found.schedules.values()), {}), found.lines[0]


# Times.


@pytest.mark.parametrize(
    ("crontab", "expression", "celery"),
    [
        (Crontab(0, 6, 1, "1-7"), "0 6 1-7 * *", ["05-04 06:00", "06-01 06:00", "07-06 06:00", "08-03 06:00"]),
        (Crontab("*/20", "22-3"), "*/20 0-3,22,23 * * *", ["05-01 00:20", "05-01 00:40", "05-01 01:00", "05-01 01:20"]),
        (Crontab([5, 3], "*/6"), "3,5 */6 * * *", ["05-01 00:03", "05-01 00:05", "05-01 06:03", "05-01 06:05"]),
        (Crontab(0, 0, "sat-mon"), "0 0 * * 0,1,6", ["05-02 00:00", "05-03 00:00", "05-04 00:00", "05-09 00:00"]),
        (Crontab(0, 0, "fri", "*/10"), "0 0 */10 * fri", ["07-31 00:00", "08-21 00:00", "09-11 00:00", "12-11 00:00"]),
        (
            Crontab(0, 12, "*", "25-5", "11-2/2"),
            "0 12 1-5,25-31 1,11 *",
            ["11-01 12:00", "11-02 12:00", "11-03 12:00", "11-04 12:00"],
        ),
        (
            Crontab(30, "7-9", "monday-friday"),
            "30 7-9 * * 1-5",
            ["05-01 07:30", "05-01 08:30", "05-01 09:30", "05-04 07:30"],
        ),
        (Crontab(0, 0, "0-6", "13"), "0 0 13 * *", ["05-13 00:00", "06-13 00:00", "07-13 00:00", "08-13 00:00"]),
    ],
)
def test_a_crontab_is_due_when_celery_says(crontab: Crontab, expression: str, celery: list[str]) -> None:
    words = times_of(crontab, [])
    assert words["expression"] == expression
    found = next_fires(expression, after=MAY, count=4, **words.get("rule", {}))
    assert [f"{fire:%m-%d %H:%M}" for fire in found] == celery


@pytest.mark.parametrize(
    ("schedule", "expression"),
    [
        (timedelta(minutes=90), "rate(90 minutes)"),
        (timedelta(days=2), "rate(2 days)"),
        (30.0, "rate(30 seconds)"),
        (3600, "rate(1 hour)"),
        (Interval(timedelta(minutes=1)), "rate(1 minute)"),
    ],
)
def test_an_interval_is_a_rate(schedule: Any, expression: str) -> None:
    words, line = only(schedule=schedule)
    assert (words["expression"], line.fit) == (expression, Conversion.EXACT)


@pytest.mark.parametrize(
    ("schedule", "why"),
    [
        (SimpleNamespace(event="sunrise", lat=48.8, lon=2.3, nowfun=None), "the sun's sunrise"),
        (0.5, "every 0.5 s"),
        (timedelta(milliseconds=1500), "every 1.5 s"),
        (timedelta(0), "every 0 s"),
        (True, "a schedule of the class bool"),
        (SimpleNamespace(), "a schedule of the class SimpleNamespace"),
        (Crontab(0, 0, "*", "31", "4"), "never occurs"),
    ],
)
def test_what_has_no_words_here_is_named(schedule: Any, why: str) -> None:
    words, line = only(schedule=schedule)
    assert words == {}
    assert line.fit is Conversion.LEFT
    assert why in line.notes[0]


def test_a_clock_of_its_own_and_rounding_are_named() -> None:
    crontab = Crontab()
    crontab.nowfun = datetime.now
    assert "nowfun" in only(schedule=crontab)[1].notes[0]
    assert "is not rounded" in only(schedule=Interval(timedelta(hours=1), relative=True))[1].notes[0]
    assert "is not rounded" in only(relative=True)[1].notes[0]
    with pytest.raises(NotMapped):
        times_of(None, [])


# Words.


@pytest.mark.parametrize(
    ("entry", "wanted", "fit"),
    [
        ({}, {"payload": None, "catch_up": "latest"}, Conversion.EXACT),
        (
            {"args": (1, (2, 3)), "kwargs": {"a": None}},
            {"payload": {"args": [1, [2, 3]], "kwargs": {"a": None}}},
            Conversion.EXACT,
        ),
        ({"options": {"expires": 60}}, {"deadline": 60}, Conversion.EXACT),
        ({"options": {"expires": timedelta(minutes=2)}}, {"deadline": 120.0}, Conversion.EXACT),
        ({"options": {"expires": MAY}}, {"deadline": None}, Conversion.DIFFERS),
        ({"options": {"queue": "slow"}}, {"queue": "slow"}, Conversion.DIFFERS),
        ({"options": {"queue": SimpleNamespace(name="slow")}}, {"queue": "slow"}, Conversion.DIFFERS),
        ({"options": {"queue": "Media_processing."}}, {"queue": "media-processing"}, Conversion.DIFFERS),
        ({"options": {"priority": 3, "headers": None}}, {"priority": None}, Conversion.DIFFERS),
        ({"enabled": False}, {}, Conversion.DIFFERS),
    ],
)
def test_what_becomes_of_an_entry(entry: dict[str, Any], wanted: dict[str, Any], fit: Conversion) -> None:
    words, line = only(**entry)
    assert {name: words.get(name) for name in wanted} == wanted
    assert line.fit is fit


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ({"args": [MAY]}, "is not JSON"),
        ({"kwargs": {"x": {1, 2}}}, "is not JSON"),
        ({"task": None}, "no task and schedule"),
        ({"options": {"queue": "_"}}, "queue="),
    ],
)
def test_what_cannot_be_is_named_and_stops_nobody(entry: dict[str, Any], why: str) -> None:
    entries = {"bad": {"task": "t", "schedule": 60, **entry}, "worse": "text", "good": {"task": "t", "schedule": 60}}
    found = imported(entries)
    assert list(found.schedules) == ["good"]
    assert why in found.lines[0].notes[0]
    assert found.not_taken == 2


def test_lines_are_where_the_entries_stand() -> None:
    text = 'X = "b"\nbeat_schedule = {\n    "a": {},\n}\nbeat_schedule["c"] = {}\n'
    entries = {name: {"task": "t", "schedule": 60} for name in ("a", "c", "elsewhere")}
    found = read_beat(BeatConfig(entries=entries, zone="Asia/Tokyo"), "m", text)
    assert [line.line for line in found.lines] == [3, 5, 0]
    assert {words["timezone"] for words in found.schedules.values()} == {"Asia/Tokyo"}
    assert {words["timezone"] for words in imported(entries, timezone="Asia/Seoul").schedules.values()} == {
        "Asia/Seoul"
    }


# Modules.


def module(**names: Any) -> ModuleType:
    made = ModuleType("shop")
    vars(made).update(names)
    return made


def test_an_app_is_made_complete_as_beat_makes_it() -> None:
    app = Celery({}, timezone="Europe/Paris")
    beat = beat_of(module(other=Registry(), app=app))
    assert app.steps == ["import", "finalize"]
    assert (list(beat.entries), beat.zone, beat.app) == (["late"], "Europe/Paris", "app")


@pytest.mark.parametrize("name", ["beat_schedule", "CELERY_BEAT_SCHEDULE", "CELERYBEAT_SCHEDULE"])
def test_a_dict_of_settings_will_do(name: str) -> None:
    beat = beat_of(module(**{name: {"a": {}}}, CELERY_TIMEZONE="Asia/Tokyo"))
    assert (list(beat.entries), beat.zone, beat.app) == (["a"], "Asia/Tokyo", None)


@pytest.mark.parametrize("entries", [{}, None])
@pytest.mark.parametrize("name", ["CELERY_BEAT_SCHEDULER", "beat_scheduler"])
def test_a_schedule_in_a_database_is_said_to_be_there(name: str, entries: dict[str, object] | None) -> None:
    words = {} if entries is None else {"beat_schedule": entries}
    settings = module(**{name: "django_celery_beat.schedulers:DatabaseScheduler"}, **words)
    with pytest.raises(InvalidInput, match="leaves the schedule to django_celery_beat"):
        beat_of(settings)


def test_the_entries_beside_a_scheduler_of_a_database_are_read() -> None:
    beat = beat_of(module(CELERY_BEAT_SCHEDULER="redbeat.RedBeatScheduler", beat_schedule={"a": {}}))
    assert list(beat.entries) == ["a"]


def test_a_module_without_one_is_refused() -> None:
    with pytest.raises(InvalidInput, match="has no beat schedule"):
        beat_of(module(celery=object()))
    with pytest.raises(InvalidInput, match="has an empty beat schedule"):
        imported({})


# The zone, and where the schedule is.

ENTRIES = {"d": {"task": "t", "schedule": Crontab(minute=0, hour=0)}}


def zone_of(beat: BeatConfig) -> str:
    """The zone of the schedules, and whether the report says that it is in doubt."""
    found = read_beat(beat, "shop", "")
    (words,) = found.schedules.values()
    return f"{words['timezone']}{' ?' if any('zone' in remark for remark in found.remarks) else ''}"


@pytest.mark.parametrize(
    ("settings", "zone"),
    [
        ({"TIME_ZONE": "Asia/Yekaterinburg"}, "Asia/Yekaterinburg ?"),
        ({"TIME_ZONE": "Asia/Yekaterinburg", "CELERY_TIMEZONE": "Europe/Paris"}, "Europe/Paris"),
        ({"timezone": timezone, "CELERY_TIMEZONE": "Europe/Paris"}, "Europe/Paris"),
        ({"timezone": timezone}, "UTC ?"),
        ({"timezone": sys}, "UTC ?"),
        ({"timezone": ZoneInfo("Asia/Tokyo")}, "Asia/Tokyo"),
        ({"CELERY_ENABLE_UTC": False}, "UTC ?"),
        ({"CELERY_ENABLE_UTC": True, "CELERY_TIMEZONE": "UTC"}, "UTC"),
    ],
)
def test_the_zone_is_that_of_the_settings_or_said_to_be_unknown(settings: dict[str, Any], zone: str) -> None:
    assert zone_of(beat_of(module(CELERY_BEAT_SCHEDULE=ENTRIES, **settings))) == zone


def test_a_given_zone_leaves_no_doubt() -> None:
    found = read_beat(beat_of(module(CELERY_BEAT_SCHEDULE=ENTRIES)), "shop", "", timezone="Asia/Tokyo")
    assert not any("zone" in remark for remark in found.remarks)


def test_an_app_in_its_machines_zone_is_said_to_be() -> None:
    app = Celery(dict(ENTRIES))
    app.conf.enable_utc = False
    remarks = read_beat(beat_of(module(app=app)), "shop", "").remarks
    assert [remark for remark in remarks if "enable_utc=False" in remark]


class Settings:
    timezone = "America/New_York"
    beat_schedule = ENTRIES


class Still(Celery):
    """An app to which no task adds itself."""

    def finalize(self) -> None:
        pass


def test_the_app_with_a_schedule_is_taken() -> None:
    beat = beat_of(module(other=Still({}), app=Still(ENTRIES), again=None))
    assert (beat.app, beat.entries) == ("app", ENTRIES)
    both = module(one=Still(ENTRIES), two=Still(ENTRIES))
    with pytest.raises(InvalidInput, match=r"m:one, m:two|:one, .*:two"):
        beat_of(both)
    assert beat_of(both, "two").app == "two"
    alias = Still(ENTRIES)
    assert beat_of(module(app=alias, celery=alias)).app == "app"


def test_a_class_of_settings_is_found_or_named() -> None:
    there = module(CeleryConfig=type("CeleryConfig", (Settings,), {}))
    there.CeleryConfig.__module__ = there.__name__
    assert zone_of(beat_of(there)) == "America/New_York"
    assert zone_of(beat_of(module(Config=Settings), "Config")) == "America/New_York"


def test_a_factory_is_called_and_the_jobs_file_calls_it_too() -> None:
    def create_celery() -> Celery:
        return Still(ENTRIES, timezone="Europe/Paris")

    flask = SimpleNamespace(extensions={"celery": Still(ENTRIES)})
    for place in ("create_celery", "create_celery()"):
        beat = beat_of(module(create_celery=create_celery), place)
        assert (beat.app, beat.zone) == ("create_celery()", "Europe/Paris")
        jobs = read_beat(beat, "shop.factory", "").jobs
        assert jobs is not None
        assert "from shop.factory import create_celery\n" in jobs
        assert "\napp = create_celery()\n" in jobs
        compile(jobs, "jobs.py", "exec")
    assert beat_of(module(create_app=lambda: flask), "create_app").app == 'create_app().extensions["celery"]'
    with pytest.raises(InvalidInput, match="has no 'make'"):
        beat_of(module(), "make")


def test_a_dict_of_entries_or_settings_may_be_named_and_a_function_make_it() -> None:
    there = module(
        get_beat_schedule=lambda: ENTRIES,
        SCHEDULE=ENTRIES,
        config={"beat_schedule": ENTRIES, "timezone": "Europe/Paris"},
        empty=dict,
    )
    for place in ("get_beat_schedule", "SCHEDULE"):
        beat = beat_of(there, place)
        assert (beat.entries, beat.app, beat.zone) == (ENTRIES, None, None)
        assert "no time zone is known" in str(beat.doubt)
    assert (beat_of(there, "config").entries, beat_of(there, "config").zone) == (ENTRIES, "Europe/Paris")
    with pytest.raises(InvalidInput, match="has no beat schedule"):
        beat_of(there, "empty")


# All of it.

APP = """
from shop_celery_fake import Celery, Interval
from datetime import timedelta

app = Celery({
    "every minute": {
        "task": "shop.tasks.add", "schedule": Interval(timedelta(minutes=1)), "args": (1, 2), "options": {"queue": "slow"}
    },
}, timezone="Europe/Paris")
app.tasks["shop.tasks.add"] = lambda a, b: a + b
app.tasks["t"] = lambda: "late"
"""


def test_what_was_imported_runs_the_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setitem(sys.modules, "shop_celery_fake", module(Celery=Celery, Interval=Interval))
    monkeypatch.setattr(jobs_module.default_registry, "_jobs", {})
    monkeypatch.setattr(jobs_module.default_registry, "_queues", {})
    Path("shop_beat_app.py").write_text(APP)
    assert run(["import", "celery", "shop_beat_app", "--jobs-file", "shop_beat_jobs.py"]) == 0
    assert "    6  differs     every-minute  every minute: shop.tasks.add" in capsys.readouterr().out
    namespace: dict[str, Any] = {"__name__": "shop_beat_jobs"}
    exec(compile(Path("shop_beat_jobs.py").read_text(), "shop_beat_jobs.py", "exec"), namespace)
    harness = Harness(jobs_module.default_registry, at=MAY)
    (document,) = read(Path("schedules.yaml").read_text(), "schedules.yaml")
    plan = harness.scheduler.compare_declared(document.declarations, managed_by=document.managed_by)
    assert harness.scheduler.carry_out(plan).failed == {}
    assert sorted(str(one.result) for one in harness.advance(minutes=1)) == ["3", "late"]
    del sys.modules["shop_beat_app"]


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("import no_such_thing_here", "No module named 'no_such_thing_here'"),
        ("x = 1", "has no beat schedule"),
        ("1/0", "division"),
    ],
)
def test_a_module_that_cannot_be_loaded_is_one_clean_error(
    source: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    Path("broken_beat.py").write_text(source)
    monkeypatch.delitem(sys.modules, "broken_beat", raising=False)
    assert run(["import", "celery", "broken_beat"]) == 1
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert said in err
    sys.modules.pop("broken_beat", None)


def test_tasks_whose_names_become_equal_have_jobs_of_their_own() -> None:
    """A job's name has fewer characters than a task's: both schedules called the task that came last."""
    entries = {"one": {"task": "mail send", "schedule": 60}, "two": {"task": "mail-send", "schedule": 60}}
    found = read_beat(BeatConfig(entries=entries | {"three": entries["one"]}), "acme", "")
    spaced, hyphened, third = (words["job"] for words in found.schedules.values())
    assert (spaced, spaced.startswith("mail-send-"), hyphened.startswith("mail-send-")) == (third, True, True)
    turned = read_beat(BeatConfig(entries=dict(reversed(entries.items()))), "acme", "")
    assert [turned.schedules[name]["job"] for name in ("one", "two")] == [spaced, hyphened]
    assert found.jobs is not None
    assert 'call("mail send", payload)' in found.jobs
    assert 'call("mail-send", payload)' in found.jobs


class TzAwareCrontab(Crontab):
    """Has what that of django_celery_beat has."""

    def __init__(self, *fields: Any, tz: Any) -> None:
        super().__init__(*fields)
        self.tz, self.nowfun = tz, self.is_due

    def is_due(self) -> None: ...


def of_celery(name: str, **words: Any) -> Any:
    """A schedule whose class derives from one of Celery's modules."""
    base = type("schedule", (), {"__module__": "celery.schedules", "is_due": None, "run_every": timedelta(minutes=45)})
    return type(name, (base,), words)()


def test_a_crontab_with_a_zone_of_its_own_keeps_it() -> None:
    """It was read in the app's zone, with a note about its clock."""
    entries = {"a": {"task": "t", "schedule": TzAwareCrontab("0", "0", tz=ZoneInfo("Asia/Shanghai"))}}
    found = read_beat(BeatConfig(entries=entries, zone="UTC"), "acme", "")
    assert (found.schedules["a"]["timezone"], found.lines[0].fit) == ("Asia/Shanghai", Conversion.EXACT)


def test_a_class_with_rules_of_its_own_is_not_read_by_its_fields() -> None:
    """OffsettingSchedule of mitxonline, every 30 minutes with an offset of 15, was exact as rate(45 minutes)."""
    with pytest.raises(NotMapped, match="its class OffsettingSchedule decides itself when it is due"):
        times_of(of_celery("OffsettingSchedule", is_due=lambda _: None), [])
    assert times_of(of_celery("Renamed"), []) == {"expression": "rate(45 minutes)"}


@pytest.mark.parametrize("name", ["task_routes", "CELERY_ROUTES", "CELERY_TASK_ROUTES"])
def test_routes_of_tasks_are_not_lost_without_a_word(name: str) -> None:
    """A task that CELERY_ROUTES sent to a queue of its own was exact, on the default queue."""
    settings = {"CELERYBEAT_SCHEDULE": {"a": {"task": "t", "schedule": 60}}, name: {"t": {"queue": "slow"}}}
    module = ModuleType("routed")
    vars(module).update(settings)
    assert any("task_routes is left out" in remark for remark in read_beat(beat_of(module), "routed", "").remarks)
    vars(module).pop(name)
    assert not any("task_routes" in remark for remark in read_beat(beat_of(module), "routed", "").remarks)
    app = Celery({"a": {"task": "t", "schedule": 60}})
    app.conf.task_routes = settings[name]
    vars(module).update(app=app)
    assert beat_of(module).routes


@pytest.mark.parametrize("scheduler", ["redbeat.RedBeatScheduler", "django_celery_beat.schedulers:DatabaseScheduler"])
def test_entries_that_a_database_may_have_beside_the_settings_are_told(scheduler: str) -> None:
    """With a beat_schedule of its own, a module with DatabaseScheduler was complete."""
    module = ModuleType("beside")
    vars(module).update(beat_schedule={"a": {"task": "t", "schedule": 60}}, beat_scheduler=scheduler, timezone="UTC")
    remarks = read_beat(beat_of(module), "beside", "").remarks
    assert any(f"only the database of {scheduler} has are not here" in remark for remark in remarks)
    vars(module).update(beat_scheduler="celery.beat:PersistentScheduler")
    assert not any("database" in remark for remark in read_beat(beat_of(module), "beside", "").remarks)
