"""The SDK: what an owner of schedules calls."""

from __future__ import annotations

from minutehand.sdk.backfills import Backfills
from minutehand.sdk.bulk import Bulk
from minutehand.sdk.dead import DeadLetters
from minutehand.sdk.declared import Declared
from minutehand.sdk.freeze import Freezes
from minutehand.sdk.reading import Reading
from minutehand.sdk.runs import Runs
from minutehand.sdk.skips import Skips


class Scheduler(Declared, Bulk, Reading, Runs, Backfills, DeadLetters, Freezes, Skips):
    """One tenant's schedules and runs.

    ``settings`` (default: from the environment) say where the tables and queues are; ``endpoint`` and ``prefix`` override two
    of them. ``jobs`` is a Registry or the name of a package to load; None takes what ``@job`` registered in this process.
    With ``check_jobs=False`` jobs may be named that only workers elsewhere know.
    """
