"""What an act on a whole tenant concerns, in numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from quarterjack.console.parts import Part, part
from quarterjack.domain.run import RunState
from quarterjack.sdk.scheduler import Scheduler

_COUNTED = 200  # schedules and runs, at the most
_WAITING = (RunState.QUEUED, RunState.RETRYING)


def counts_of(scheduler: Scheduler, now: datetime) -> Mapping[str, Part]:
    """Pages of its active schedules, and of its runs that run and that wait for a worker."""
    asked: Mapping[str, Callable[[], Any]] = {
        "schedules": lambda: scheduler.list_schedules(state="ACTIVE", limit=_COUNTED),
        "running": lambda: scheduler.list_running(limit=_COUNTED),
        "waiting": lambda: scheduler.list_runs(state=_WAITING, until=now, limit=_COUNTED),
    }
    return {name: part(ask) for name, ask in asked.items()}
