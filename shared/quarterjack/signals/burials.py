"""The figures of the undertaker: of one letter."""

from __future__ import annotations

from dataclasses import replace

from quarterjack.domain.run import RunState
from quarterjack.settings import Metered
from quarterjack.signals.measurement import Measurement, counted, measured
from quarterjack.undertaker.bury import Burial

NOBODY = Metered()
_RECORDED = {RunState.DEAD: "Dead", RunState.EXPIRED: "Expired"}
_OTHERS = {"returned": "Returned", "unreadable": "Unreadable", "rejected": "Rejected"}


def of_burial(burial: Burial, metered: Metered = NOBODY) -> list[Measurement]:
    """LOST runs are counted by the worker or ticker that found them. ``metered``: who has figures of its own as well."""
    found = counted(Incidents=burial.began, PausedOnFailure=burial.paused)
    name = _RECORDED.get(burial.state) if burial.action == "recorded" else _OTHERS.get(burial.action)
    if name is None:
        return found
    one = measured(name, 1)
    found.append(one)
    run = burial.run
    if one.metric.by_job and run is not None:
        found += [replace(one, dimensions={"job": run.job})] if run.job in metered.jobs else []
        tenant = run.ref.tenant
        found += [replace(one, dimensions={"tenant": tenant})] if tenant in metered.tenants else []
    return found
