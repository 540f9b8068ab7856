"""The SDK: what an owner of schedules calls."""

from __future__ import annotations

from minutehand.sdk.backfills import BackfillMethods
from minutehand.sdk.bulk import BulkMethods
from minutehand.sdk.dead import DeadRunMethods
from minutehand.sdk.declared import DeclarationMethods
from minutehand.sdk.freeze import FreezeMethods
from minutehand.sdk.reading import ReadMethods
from minutehand.sdk.runs import RunMethods
from minutehand.sdk.skips import SkipMethods


class Scheduler(
    DeclarationMethods,
    BulkMethods,
    ReadMethods,
    RunMethods,
    BackfillMethods,
    DeadRunMethods,
    FreezeMethods,
    SkipMethods,
):
    """One tenant's schedules and runs.

    ``settings`` (default: from the environment) say where the tables and queues are; ``endpoint`` and ``prefix`` override two
    of them. ``jobs`` is a Registry or the name of a package to load; None takes what ``@job`` registered in this process.
    With ``check_jobs=False`` jobs may be named that only workers elsewhere know.
    """
