"""Minutehand: a serverless, multi-tenant job scheduler on AWS managed queues.

>>> from minutehand import job
>>> @job("docs.hello")
... def hello(ctx, payload):
...     ctx.logger.info("hello", extra={"to": payload["name"]})

Each name is imported when it is first asked for (PEP 562): a module that only declares jobs loads no AWS library, and a Lambda
function only what it runs.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from minutehand import errors

if TYPE_CHECKING:
    from minutehand.client import Scheduler
    from minutehand.declare import schedule
    from minutehand.jobs import Queue, Registry, job, load
    from minutehand.model.job import Context
    from minutehand.model.policies import Delivery, Retry, Start
    from minutehand.model.run import RunState
    from minutehand.model.schedule import ScheduleState
    from minutehand.schedule import Rule, next_fires
    from minutehand.settings import Settings
    from minutehand.views import DeadRun, Page, Redriven, Run, Schedule

__all__ = [
    "Context",
    "DeadRun",
    "Delivery",
    "Page",
    "Queue",
    "Redriven",
    "Registry",
    "Retry",
    "Rule",
    "Run",
    "RunState",
    "Schedule",
    "ScheduleState",
    "Scheduler",
    "Settings",
    "Start",
    "errors",
    "job",
    "load",
    "next_fires",
    "schedule",
]

# Where each name is at home; a test compares this with the imports above.
_HOMES = {
    "Context": "model.job",
    "DeadRun": "views",
    "Delivery": "model.policies",
    "Page": "views",
    "Queue": "jobs",
    "Redriven": "views",
    "Registry": "jobs",
    "Retry": "model.policies",
    "Rule": "schedule",
    "Run": "views",
    "RunState": "model.run",
    "Schedule": "views",
    "ScheduleState": "model.schedule",
    "Scheduler": "client",
    "Settings": "settings",
    "Start": "model.policies",
    "job": "jobs",
    "load": "jobs",
    "next_fires": "schedule",
    "schedule": "declare",
}

if not TYPE_CHECKING:  # a type checker would take it for a promise of any name

    def __getattr__(name: str) -> object:
        """A public name, from its home; from then on it is here."""
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = found = getattr(import_module(f"{__name__}.{home}"), name)
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})

    class _Package(ModuleType):
        """This package, where ``schedule`` is the decorator also after the subpackage of that name was imported."""

        @property
        def schedule(self) -> object:
            return __getattr__("schedule")

        @schedule.setter
        def schedule(self, subpackage: ModuleType) -> None:
            """Python binds a subpackage to its parent; ``from minutehand.schedule import …`` does not need that."""

    sys.modules[__name__].__class__ = _Package
