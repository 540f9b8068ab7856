"""Minutehand: a serverless, multi-tenant job scheduler on AWS managed queues.

>>> from minutehand import job
>>> @job("docs.hello")
... def hello(ctx, payload):
...     ctx.logger.info("hello", extra={"to": payload["name"]})

Each name is imported when it is first asked for (PEP 562): a module that only declares jobs loads no AWS library, and a Lambda
function only what it runs.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from minutehand import errors

if TYPE_CHECKING:
    from minutehand.declare import schedule
    from minutehand.domain.job import Context
    from minutehand.domain.policies import PROGRAMMING_ERRORS, Delivery, Retry, Start
    from minutehand.domain.redaction import Redact
    from minutehand.domain.run import RunState
    from minutehand.domain.schedule import ScheduleState
    from minutehand.domain.tenants.profile import Grant, TenantState
    from minutehand.jobs import Queue, Registry, job, load
    from minutehand.sdk.asynchronous.scheduler import AsyncScheduler
    from minutehand.sdk.history.log_views import LogLine, LogPage
    from minutehand.sdk.history.worker_views import JobView, QueueStripe, QueueView, RunningPage, Worker, WorkerRun
    from minutehand.sdk.schedule_views import Schedule
    from minutehand.sdk.scheduler import Scheduler
    from minutehand.sdk.tenants.erasing import ErasureCount, ErasureProgress
    from minutehand.sdk.tenants.figures import TenantFigures
    from minutehand.sdk.tenants.tenant_views import Tenant
    from minutehand.sdk.tenants.tenants import Tenants
    from minutehand.sdk.views import DeadRun, Page, Redriven, Run, RunTransition
    from minutehand.settings import Settings
    from minutehand.timing import Rule, next_fires
    from minutehand.why.answer import Answer, Cause, Sentence, Verdict

__all__ = [
    "PROGRAMMING_ERRORS",
    "Answer",
    "AsyncScheduler",
    "Cause",
    "Context",
    "DeadRun",
    "Delivery",
    "ErasureCount",
    "ErasureProgress",
    "Grant",
    "JobView",
    "LogLine",
    "LogPage",
    "Page",
    "Queue",
    "QueueStripe",
    "QueueView",
    "Redact",
    "Redriven",
    "Registry",
    "Retry",
    "Rule",
    "Run",
    "RunState",
    "RunTransition",
    "RunningPage",
    "Schedule",
    "ScheduleState",
    "Scheduler",
    "Sentence",
    "Settings",
    "Start",
    "Tenant",
    "TenantFigures",
    "TenantState",
    "Tenants",
    "Verdict",
    "Worker",
    "WorkerRun",
    "errors",
    "job",
    "load",
    "next_fires",
    "schedule",
]

# Where each name is at home; a test compares this with the imports above.
_NAMES_BY_HOME = {
    "declare": "schedule",
    "domain.job": "Context",
    "domain.policies": "PROGRAMMING_ERRORS Delivery Retry Start",
    "domain.redaction": "Redact",
    "domain.run": "RunState",
    "domain.schedule": "ScheduleState",
    "domain.tenants.profile": "Grant TenantState",
    "jobs": "Queue Registry job load",
    "sdk.asynchronous.scheduler": "AsyncScheduler",
    "sdk.scheduler": "Scheduler",
    "sdk.schedule_views": "Schedule",
    "sdk.tenants.erasing": "ErasureCount ErasureProgress",
    "sdk.tenants.figures": "TenantFigures",
    "sdk.tenants.tenant_views": "Tenant",
    "sdk.tenants.tenants": "Tenants",
    "sdk.views": "DeadRun Page Redriven Run RunTransition",
    "sdk.history.log_views": "LogLine LogPage",
    "sdk.history.worker_views": "JobView QueueStripe QueueView RunningPage Worker WorkerRun",
    "settings": "Settings",
    "timing": "Rule next_fires",
    "why.answer": "Answer Cause Sentence Verdict",
}
_HOMES = {name: home for home, names in _NAMES_BY_HOME.items() for name in names.split()}

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
