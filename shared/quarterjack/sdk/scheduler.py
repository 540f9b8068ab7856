"""The SDK: one class with the methods of the other modules of this folder."""

from __future__ import annotations

from quarterjack.sdk.backfills import BackfillMethods
from quarterjack.sdk.history.audit import AuditMethods
from quarterjack.sdk.history.bulk_runs import RunBulkMethods
from quarterjack.sdk.history.diagnosis import DiagnosisMethods
from quarterjack.sdk.history.statistics import HistoryMethods
from quarterjack.sdk.pipelines.pipelines import PipelineMethods
from quarterjack.sdk.schedules.bulk import BulkMethods
from quarterjack.sdk.schedules.declared import DeclarationMethods
from quarterjack.sdk.schedules.forecast import ForecastMethods
from quarterjack.sdk.schedules.freeze import FreezeMethods
from quarterjack.sdk.schedules.reading import ReadMethods
from quarterjack.sdk.submissions.many import BatchMethods
from quarterjack.sdk.waits.links import LinkMethods
from quarterjack.sdk.waits.signals import SignalMethods


class Scheduler(
    PipelineMethods,  # over ReadMethods and ScheduleMethods
    ReadMethods,
    ForecastMethods,
    BatchMethods,  # over SubmitMethods
    BulkMethods,  # over ScheduleMethods and RunMethods
    DeclarationMethods,
    FreezeMethods,
    BackfillMethods,
    SignalMethods,
    LinkMethods,
    RunBulkMethods,  # over RunMethods, DeadRunMethods, FindMethods and VersionMethods
    HistoryMethods,
    DiagnosisMethods,
    AuditMethods,
):
    """One tenant's schedules and runs.

    ``settings`` (default: from the environment) say where the tables and queues are; ``endpoint`` and ``prefix`` override two
    of them. ``jobs`` is a Registry or the name of a package to load; None: the jobs that ``@job`` registered in this process.
    A job that is neither among these nor known to any worker is accepted with an UnknownJobWarning; with ``strict=True`` it is refused.
    ``patience``: seconds for which a call waits where the tenant's rate is used up, before it raises Throttled.
    ``actor`` (default: QUARTERJACK_ACTOR) is whom the application acts for, e.g. "alice@acme": the audit has it beside the IAM identity
    of the process. ``via`` is the way by which acts come: "sdk", "cli", "apply", "api" or "console".

    Any number of threads may share one: make it once, beside the application's other clients. A forked child may use its parent's.
    Its calls block: coroutines use ``AsyncScheduler``.
    """
