"""The tenant's profile: whether it is served."""

from __future__ import annotations

from collections.abc import Iterator

from quarterjack.doctor.context import DoctorContext, Finding, fail, ok, warn
from quarterjack.domain.queue import declared_name
from quarterjack.errors import Unreadable


def tenant(context: DoctorContext) -> Iterator[Finding]:
    """One finding: what holds for the tenant. One read of two profiles."""
    if "tenants" not in context.tables:
        return
    name = context.settings.tenant
    try:
        governance = context.services.tenants.governance(name, context.clock())
    except Unreadable as problem:
        yield fail(
            f"no run of tenant {name} starts: {problem}",
            "finish the deployment if it is of a later release; else correct or remove the item by hand",
        )
        return
    profile = governance.profile
    if profile.is_erased:
        yield warn(f"tenant {name} is {profile.state}: nothing is accepted or started", "use another tenant's name")
    elif not profile.accepts:
        why = f": {profile.suspension_reason}" if profile.suspension_reason else ""
        yield warn(
            f"tenant {name} is suspended{why}: nothing is accepted or started",
            f"`quarterjack tenants resume {name}` ends it",
        )
    elif profile.queue is not None and declared_name(profile.queue) not in (None, *context.services.work.names()):
        yield fail(
            f"queue={profile.queue!r} of the profile of tenant {name}, its tier or the installation does not exist: "
            "work for which neither job nor caller names a queue is refused",
            f"`quarterjack tenants set {name} --queue …` names another, or declare it beside its jobs and deploy",
        )
    elif governance.own is None:
        yield ok(f"tenant {name} has no profile: the defaults of the installation hold")
    else:
        yield ok(f"tenant {name} is served")
