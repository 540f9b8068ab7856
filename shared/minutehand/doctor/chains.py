"""Checks of a sample of active schedules: whether the next fire is in the agenda, and whether runs fail. A few reads each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from minutehand.doctor.context import DoctorContext
from minutehand.doctor.findings import Finding, fail, ok, warn
from minutehand.domain.schedule import Head, ScheduleState
from minutehand.errors import InvalidInput
from minutehand.owner.schedules.chain_health import ChainHealth, check_chain

_FIRST = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_NAMED = 10  # schedules


def chains(context: DoctorContext) -> Iterator[Finding]:
    """One finding for the sample."""
    check, tenant = "chains", context.settings.tenant
    if not {"schedules", "revisions", "agenda", "runs"} <= context.tables:
        return
    context.active = [head for head in _sample(context) if head.state is ScheduleState.ACTIVE]
    missing = [head for head in context.active if _is_missing(context, head)]
    missing = [head for head in missing if _is_unchanged(context, head) and _is_missing(context, head)]
    if missing:
        names = ", ".join(head.name for head in missing[:_NAMED])
        what = f"{len(missing)} of {len(context.active)} active schedules have no entry in the agenda: {names}"
        yield fail(check, what, "run `minutehand audit`: it arms them again and claims what was missed")
    else:
        yield ok(check, f"{len(context.active)} active schedules of {tenant} looked at: each has its entry")


def incidents(context: DoctorContext) -> Iterator[Finding]:
    """One finding for the same sample: the schedules that fail. Reads nothing more."""
    wrong = [head for head in context.active if head.incident is not None]
    if wrong:
        names = ", ".join(head.name for head in wrong[:_NAMED])
        what = f"{len(wrong)} of {len(context.active)} active schedules fail, or had no success in time: {names}"
        remedy = "`minutehand schedules list --failing` shows all of them, `minutehand dead list` what failed"
        yield warn("incidents", what, remedy)
    elif context.active:
        yield ok("incidents", f"{len(context.active)} active schedules looked at: none fails")


def _sample(context: DoctorContext) -> Sequence[Head]:
    """Heads from a random name on, continued from the first name if there are too few."""
    page, tenant, most = context.services.schedules.page, context.settings.tenant, context.sample
    first = page(tenant, prefix="", limit=most, cursor=None)
    if first.cursor is None:
        return list(first.items)
    later = page(tenant, prefix="", limit=most, cursor=context.chance.choice(_FIRST)).items
    return list({head.name: head for head in (*later, *first.items)}.values())[:most]


def _is_missing(context: DoctorContext, head: Head) -> bool:
    key = (head.owner, head.revision)
    revision = context.services.schedules.revisions([key]).found.get(key)
    if revision is None or revision.active_until is not None:
        return False  # a change is in progress
    try:
        return check_chain(head, revision, context.services, context.clock).health is ChainHealth.MISSING
    except InvalidInput:  # its fires cannot be computed here, e.g. a calendar that is not installed
        return False


def _is_unchanged(context: DoctorContext, head: Head) -> bool:
    """Whether the head is unchanged: the schedule may have advanced during the check."""
    present = context.services.schedules.head(head.tenant, head.name)
    return present is not None and present.version == head.version
