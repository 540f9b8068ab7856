"""Minutehand: a serverless, multi-tenant job scheduler on AWS managed queues.

>>> from minutehand import job
>>> @job("docs.hello")
... def hello(ctx, payload):
...     ctx.logger.info("hello", extra={"to": payload["name"]})
"""

from minutehand import errors
from minutehand.client import Scheduler
from minutehand.jobs import Registry, job, load
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
]
