"""The figures of the undertaker: of one letter."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from minutehand.domain.run import RunState
from minutehand.signals.measurement import Measurement, counted, measured
from minutehand.undertaker.bury import Burial

_RECORDED = {RunState.DEAD: "Dead", RunState.EXPIRED: "Expired"}
_OTHERS = {"returned": "Returned", "unreadable": "Unreadable", "rejected": "Rejected"}


def of_burial(burial: Burial, metered: Collection[str] = ()) -> list[Measurement]:
    """LOST runs are counted by the worker or ticker that found them. ``metered``: jobs that have figures of their own as well."""
    found = counted(Incidents=burial.began, PausedOnFailure=burial.paused)
    name = _RECORDED.get(burial.state) if burial.action == "recorded" else _OTHERS.get(burial.action)
    if name is None:
        return found
    one = measured(name, 1)
    found.append(one)
    if one.metric.by_job and burial.run is not None and burial.run.job in metered:
        found.append(replace(one, dimensions={"job": burial.run.job}))
    return found
