"""Where the beat schedule of a module is: in its app, in what a factory makes, in a dict of settings, or in a class of them.

And the zone of its crontabs. Celery's: its own setting, else Django's ``TIME_ZONE``, else UTC, or the machine's with ``enable_utc=False``.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from types import ModuleType, SimpleNamespace
from typing import Any

from quarterjack.errors import InvalidInput
from quarterjack.values import replace

_SCHEDULES = ("beat_schedule", "BEAT_SCHEDULE", "CELERY_BEAT_SCHEDULE", "CELERYBEAT_SCHEDULE")
_SCHEDULERS = ("beat_scheduler", "BEAT_SCHEDULER", "CELERY_BEAT_SCHEDULER", "CELERYBEAT_SCHEDULER")
_OF_CELERY = "celery.beat:PersistentScheduler"
_DATABASE = "write a module with beat_schedule = {…} of the rows of its tables (PeriodicTask of django_celery_beat), and name that"
_ROUTES = ("task_routes", "TASK_ROUTES", "CELERY_TASK_ROUTES", "CELERY_ROUTES")
_ZONES = ("CELERY_TIMEZONE", "timezone", "TIMEZONE")
_UTC = ("CELERY_ENABLE_UTC", "enable_utc", "ENABLE_UTC")
_OF_DJANGO = "the zone is Django's TIME_ZONE, which Celery takes if it reads these settings and has no zone of its own"
_OF_THE_MACHINE = (
    "no time zone is known: the times are read in UTC, with enable_utc=False beat's are its machine's: --timezone ZONE"
)
_UNKNOWN = (
    "no time zone is known: the times are read in UTC, Celery's default; if the app sets another one: --timezone ZONE"
)


@dataclass(frozen=True, kw_only=True)
class BeatConfig:
    """The beat configuration of a module."""

    entries: Mapping[str, Any]
    zone: Any = None  # of its crontabs, a text or a tzinfo; None: UTC
    app: str | None = None  # the expression that is Celery's app in the module; None: there is none
    doubt: str | None = None  # about the zone
    routes: bool = False  # whether it has rules for the queues of tasks
    scheduler: str | None = None  # the beat scheduler that may have more entries in a database; None: Celery's own


def beat_of(module: ModuleType, place: str | None = None) -> BeatConfig:
    """The beat schedule of a module: of its app, or of a dict or class of settings.

    ``place`` names an attribute of the module instead: an app, a class, a dict, or a function that makes an app or a dict. Raises
    InvalidInput if there is none or several, and whatever the module's own code raises.
    """
    found, scheduler = _at(module, place) if place else _anywhere(module), _of_a_database(module)
    if scheduler and not any(beat.entries for beat in found.values()):
        raise InvalidInput("module", _name(module, place), f"leaves the schedule to {scheduler}", _DATABASE)
    if not found:
        remedy = (
            f"name the module of your Celery app, or one with {' or '.join(_SCHEDULES[:3])}; an app, a class of settings or a"
            f" function that makes the app or the schedule: {module.__name__}:NAME"
        )
        raise InvalidInput("module", _name(module, place), "has no beat schedule", remedy)
    full = {name: beat for name, beat in found.items() if beat.entries} or found
    chosen, *others = full.items()
    if others and chosen[1].entries:
        remedy = "name one: " + ", ".join(f"{module.__name__}:{name}" for name in full)
        raise InvalidInput("module", module.__name__, f"has {len(full)} beat schedules", remedy)
    return replace(chosen[1], scheduler=scheduler)


def _of_a_database(module: ModuleType) -> str | None:
    """The beat scheduler of a module or its apps that keeps the schedule elsewhere, as django_celery_beat does; None: there is none."""
    confs = (getattr(value, "conf", None) for value in list(vars(module).values()) if hasattr(type(value), "conf"))
    named = (getattr(one, name, None) for one in (module, *confs) for name in _SCHEDULERS)
    return next((one for one in named if isinstance(one, str) and one and one != _OF_CELERY), None)


def _name(module: ModuleType, place: str | None) -> str:
    return module.__name__ if place is None else f"{module.__name__}:{place}"


def _anywhere(module: ModuleType) -> dict[str, BeatConfig]:
    """The beat schedules of a module by the names of their apps or classes; one of an app comes before one of settings."""
    apps, seen = dict[str, BeatConfig](), list[object]()
    for name, value in list(vars(module).items()):
        if not any(value is one for one in seen) and (beat := _of_app(value, name)) is not None:
            apps[name] = beat
            seen.append(value)
    if any(beat.entries for beat in apps.values()):
        return apps
    settings = _of_settings(module)
    if settings is not None:
        return {module.__name__: settings}
    own = (one for one in vars(module).items() if inspect.isclass(one[1]) and one[1].__module__ == module.__name__)
    return {name: beat for name, value in own if (beat := _of_settings(value)) is not None} or apps


def _at(module: ModuleType, place: str) -> dict[str, BeatConfig]:
    """The beat schedule of what ``place`` names: an attribute's path, perhaps with ``()``, or a function that makes an app."""
    value: Any = module
    for name in place.removesuffix("()").split("."):
        if not hasattr(value, name):
            raise InvalidInput("module", _name(module, place), f"has no {name!r}", "check the name behind the colon")
        value = getattr(value, name)
    beat = None if inspect.isfunction(value) else _of_app(value, place) or _of_settings(value) or _of_mapping(value)
    if beat is None and callable(value) and not inspect.isclass(value):
        call = f"{place.removesuffix('()')}()"
        made = value()
        beat = _of_app(made, call) or _of_settings(made) or _of_mapping(made)
        extensions = getattr(made, "extensions", None)
        if beat is None and isinstance(extensions, Mapping):  # Flask's way to keep it
            beat = _of_app(extensions.get("celery"), f'{call}.extensions["celery"]')
    return {} if beat is None else {place: beat}


def _of_app(value: object, name: str) -> BeatConfig | None:
    """The complete configuration of an object that looks like a Celery app with a beat schedule."""
    if not hasattr(type(value), "conf") or not hasattr(type(value), "tasks"):
        return None
    app: Any = value
    for step in (getattr(getattr(app, "loader", None), "import_default_modules", None), getattr(app, "finalize", None)):
        if callable(step):
            step()  # tasks add themselves to the schedule here
    conf = app.conf
    if not isinstance(getattr(conf, "beat_schedule", None), Mapping):
        return None
    routes = bool(getattr(conf, "task_routes", None))
    beat = BeatConfig(entries=conf.beat_schedule, app=name, zone=getattr(conf, "timezone", None) or None, routes=routes)
    if beat.zone is None and getattr(conf, "enable_utc", True) is False:
        return replace(beat, doubt=_OF_THE_MACHINE)
    return beat


def _of_settings(place: object) -> BeatConfig | None:
    """Of a module or class with a dict of one of the usual names."""
    entries = next((found for name in _SCHEDULES if isinstance(found := getattr(place, name, None), Mapping)), None)
    if entries is None:
        return None
    beat = BeatConfig(entries=entries, routes=any(getattr(place, name, None) for name in _ROUTES))
    if (zone := _zone(place, _ZONES)) is not None:
        return replace(beat, zone=zone)
    if (zone := _zone(place, ("TIME_ZONE",))) is not None:
        return replace(beat, zone=zone, doubt=_OF_DJANGO)
    local = any(getattr(place, name, True) is False for name in _UTC)
    return replace(beat, doubt=_OF_THE_MACHINE if local else _UNKNOWN)


def _of_mapping(value: object) -> BeatConfig | None:
    """Of a dict of settings, as Flask's ``config["CELERY"]``, or of a beat schedule itself."""
    if not isinstance(value, Mapping) or not value:
        return None
    if all(isinstance(entry, Mapping) and "task" in entry and "schedule" in entry for entry in value.values()):
        return BeatConfig(entries=value, doubt=_UNKNOWN)
    return _of_settings(SimpleNamespace(**{str(name): one for name, one in value.items()}))


def _zone(place: object, names: Sequence[str]) -> str | tzinfo | None:
    """A setting of a zone; what is no text and no tzinfo is something else, as ``from datetime import timezone``."""
    found = (getattr(place, name, None) for name in names)
    return next((zone for zone in found if isinstance(zone, (str, tzinfo)) and zone), None)
