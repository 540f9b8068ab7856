"""Quarterjack: a serverless, multi-tenant job scheduler on AWS managed queues.

>>> from quarterjack import job
>>> @job("docs.hello")
... def hello(ctx, payload):
...     ctx.logger.info("hello", extra={"to": payload["name"]})

Each name is imported when it is first asked for (PEP 562): a module that only declares jobs loads no AWS library, and a Lambda
function only what it runs.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from quarterjack import errors

if TYPE_CHECKING:
    from quarterjack.declare import schedule
    from quarterjack.domain.job import Child, Context
    from quarterjack.domain.policies import PROGRAMMING_ERRORS, Delivery, Retry, Start
    from quarterjack.domain.policies.flow import Flow
    from quarterjack.domain.redaction import Redact
    from quarterjack.domain.run import RunState
    from quarterjack.domain.schedule import ScheduleState
    from quarterjack.domain.tenants.profile import Grant, TenantState
    from quarterjack.job_packages import load
    from quarterjack.jobs import Queue, Registry, job, middleware
    from quarterjack.middlewares import CallNext, Middleware
    from quarterjack.owner.runs.links import LinkState
    from quarterjack.pipelines import pipeline
    from quarterjack.sdk.asynchronous.scheduler import AsyncScheduler
    from quarterjack.sdk.history.views import (
        JobView,
        LogLine,
        LogPage,
        QueueView,
        RunningPage,
        SqsQueueView,
        Worker,
        WorkerRun,
    )
    from quarterjack.sdk.schedule_views import Schedule
    from quarterjack.sdk.scheduler import Scheduler
    from quarterjack.sdk.submissions.many import Submission, SubmittedBatch, SubmittedItem
    from quarterjack.sdk.tenants.base import Tenant
    from quarterjack.sdk.tenants.erasing import ErasureCount, ErasureProgress
    from quarterjack.sdk.tenants.figures import TenantFigures
    from quarterjack.sdk.tenants.moving import Ended, Loaded
    from quarterjack.sdk.tenants.tenants import Tenants
    from quarterjack.sdk.views import DeadRun, Page, Redriven, Run, RunTransition
    from quarterjack.sdk.waits.links import RunLink, SignalLink
    from quarterjack.sdk.waits.signals import SignalOutcome, SignalReceipt
    from quarterjack.settings import Settings
    from quarterjack.timing import Rule, next_fires
    from quarterjack.why.answer import Answer, Cause, Sentence, Verdict

__all__ = [
    "PROGRAMMING_ERRORS",
    "Answer",
    "AsyncScheduler",
    "CallNext",
    "Cause",
    "Child",
    "Context",
    "DeadRun",
    "Delivery",
    "Ended",
    "ErasureCount",
    "ErasureProgress",
    "Flow",
    "Grant",
    "JobView",
    "LinkState",
    "Loaded",
    "LogLine",
    "LogPage",
    "Middleware",
    "Page",
    "Queue",
    "QueueView",
    "Redact",
    "Redriven",
    "Registry",
    "Retry",
    "Rule",
    "Run",
    "RunLink",
    "RunState",
    "RunTransition",
    "RunningPage",
    "Schedule",
    "ScheduleState",
    "Scheduler",
    "Sentence",
    "Settings",
    "SignalLink",
    "SignalOutcome",
    "SignalReceipt",
    "SqsQueueView",
    "Start",
    "Submission",
    "SubmittedBatch",
    "SubmittedItem",
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
    "middleware",
    "next_fires",
    "pipeline",
    "schedule",
]

# Where each name is at home; a test compares this with the imports above.
_NAMES_BY_HOME = {
    "declare": "schedule",
    "domain.job": "Child Context",
    "domain.policies": "PROGRAMMING_ERRORS Delivery Retry Start",
    "domain.policies.flow": "Flow",
    "domain.redaction": "Redact",
    "domain.run": "RunState",
    "domain.schedule": "ScheduleState",
    "domain.tenants.profile": "Grant TenantState",
    "jobs": "Queue Registry job middleware",
    "middlewares": "CallNext Middleware",
    "job_packages": "load",
    "pipelines": "pipeline",
    "sdk.asynchronous.scheduler": "AsyncScheduler",
    "sdk.scheduler": "Scheduler",
    "sdk.schedule_views": "Schedule",
    "sdk.tenants.erasing": "ErasureCount ErasureProgress",
    "sdk.tenants.figures": "TenantFigures",
    "sdk.tenants.moving": "Ended Loaded",
    "sdk.tenants.base": "Tenant",
    "sdk.tenants.tenants": "Tenants",
    "sdk.submissions.many": "Submission SubmittedBatch SubmittedItem",
    "sdk.views": "DeadRun Page Redriven Run RunTransition",
    "owner.runs.links": "LinkState",
    "sdk.waits.links": "RunLink SignalLink",
    "sdk.waits.signals": "SignalOutcome SignalReceipt",
    "sdk.history.views": "JobView QueueView RunningPage SqsQueueView Worker WorkerRun LogLine LogPage",
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
