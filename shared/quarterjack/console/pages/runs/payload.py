"""The payload of a run: its own, or that of the revision of its schedule that it is a fire of, if that is the current one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from quarterjack.console.calls import PageCall
from quarterjack.domain.history.entry import RunKind
from quarterjack.errors import QuarterjackError
from quarterjack.sdk.views import Run


@dataclass(frozen=True)
class KnownPayload:
    """A payload that may be shown."""

    value: Any


def payload_of(call: PageCall, run: Run) -> KnownPayload | None:
    """None: it is hidden, of an earlier revision, or gone."""
    if run.masked:
        return None
    if run.payload is not None:
        return KnownPayload(run.payload)
    if run.schedule is None or run.kind is not RunKind.FIRE:
        return None
    try:
        schedule = call.scheduler.get_schedule(run.schedule)
    except QuarterjackError:  # it is deleted, or may not be read
        return None
    known = schedule.revision == run.revision and not schedule.masked
    return KnownPayload(schedule.payload) if known else None
