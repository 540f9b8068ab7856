"""Profiles, freezes, application versions and ended runs as items of a dump, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quarterjack.domain.history.entry import HistoryEntry, RunKind
from quarterjack.domain.history.transition_line import iso
from quarterjack.domain.names import check_tenant, parse_run_id, word
from quarterjack.domain.queue import check_queue
from quarterjack.domain.run import TERMINAL, RunState
from quarterjack.domain.schedule import Freeze
from quarterjack.domain.tenants.app_versions import AppVersion, check_share, check_version
from quarterjack.domain.tenants.editing import checked_grant, checked_holder, checked_profile, checked_tier
from quarterjack.domain.tenants.limits import NO_LIMITS, with_limits
from quarterjack.domain.tenants.profile import TenantProfile, TenantState, checked_jobs
from quarterjack.errors import InvalidInput
from quarterjack.moving.file import Fields

Values = dict[str, Any]

# Profiles.


def profile_values(profile: TenantProfile) -> Values:
    return {
        "tenant": profile.tenant,
        "state": str(profile.state),
        "jobs": None if profile.jobs is None else list(profile.jobs),
        "grants": [{"to": each.to, "can": [*each.can], "jobs": [*each.jobs]} for each in profile.grants] or None,
        "tier": profile.tier,
        "queue": profile.queue,
        "limits": profile.limits.given() or None,
        "description": profile.description,
        "suspension_reason": profile.suspension_reason,
        "created_at": iso(profile.created_at),
    }


def profile_of(values: Mapping[str, Any]) -> TenantProfile:
    """The profile of an item. Raises InvalidInput."""
    fields = Fields(values)
    holder = checked_holder(fields.text("tenant"))
    state = word(TenantState, "state", fields.take("state", str) or "ACTIVE")
    if state not in (TenantState.ACTIVE, TenantState.SUSPENDED):
        remedy = "leave the line out: what is left of an erased tenant stays in its installation"
        raise InvalidInput("state", str(state), "is not loaded", remedy)
    jobs, tier, queue = fields.take("jobs", list), fields.take("tier", str), fields.take("queue", str)
    grants = [*fields.several("grants")]
    found = TenantProfile(
        tenant=holder,
        state=state,
        jobs=None if jobs is None else tuple(dict.fromkeys(checked_jobs(jobs))),
        grants=tuple(
            checked_grant(holder, each.text("to"), each.take("can", list), each.take("jobs", list) or ["*"])
            for each in grants
        ),
        tier=None if tier is None else checked_tier(tier),
        queue=None if queue is None else check_queue(queue),
        limits=with_limits(NO_LIMITS, fields.take("limits", dict) or {}),
        description=fields.take("description", str),
        suspension_reason=fields.take("suspension_reason", str),
    )
    fields.instant("created_at")
    fields.end()
    return checked_profile(found)


# Freezes.


def freeze_values(freeze: Freeze) -> Values:
    return {
        "tenant": freeze.tenant,
        "until": iso(freeze.until),
        "reason": freeze.reason,
        "created_at": iso(freeze.created_at),
        "by": freeze.actor,
    }


def frozen_of(values: Mapping[str, Any]) -> Freeze:
    """The freeze of an item. Raises InvalidInput."""
    fields = Fields(values)
    tenant, until = check_tenant(fields.text("tenant")), fields.instant("until")
    if until is None:
        raise InvalidInput("until", None, "is missing", "write when the freeze ends, e.g. 2026-12-24T18:00:00.000Z")
    found = Freeze(tenant=tenant, until=until, reason=fields.take("reason", str))
    fields.instant("created_at")
    fields.take("by", str)
    fields.end()
    return found


# Application versions.


def version_values(version: AppVersion) -> Values:
    return {
        "name": version.name,
        "id": version.id,
        "timestamp": iso(version.timestamp),
        "created_at": iso(version.created_at),
        "share": version.share,
        "moved_to": version.moved_to,
    }


def version_of(values: Mapping[str, Any]) -> AppVersion:
    """The application version of an item. Raises InvalidInput."""
    fields = Fields(values)
    timestamp, created = fields.instant("timestamp"), fields.instant("created_at")
    share, moved = fields.take("share", int, float), fields.take("moved_to", str)
    found = AppVersion(
        name=check_version(fields.text("name"), "name"),
        id=fields.text("id"),
        timestamp=timestamp or created or 0,
        created_at=created or timestamp or 0,
        share=1.0 if share is None else check_share(share),
        moved_to=None if moved is None else check_version(moved, "moved_to"),
    )
    fields.end()
    return found


def queue_of(values: Mapping[str, Any]) -> str:
    """The name of a queue's item. Raises InvalidInput."""
    fields = Fields(values)
    name = check_queue(fields.text("name"), "name")
    fields.end()
    return name


# Ended runs.

_TIMES = ("due", "not_before", "created_at", "started_at", "skipped_until")
_WHOLE = ("attempt", "fence", "revision", "skipped")
_TEXTS = ("reason", "error_type", "backfill", "replay_of", "app_version")


def run_values(entry: HistoryEntry) -> Values:
    return {
        "run": str(entry.run),
        "tenant": entry.run.tenant,
        "schedule": entry.schedule,
        "job": entry.job,
        "kind": str(entry.kind),
        "state": str(entry.state),
        **{name: iso(getattr(entry, name)) for name in _TIMES},
        "ended_at": iso(entry.at),
        **{name: getattr(entry, name) for name in (*_WHOLE, *_TEXTS)},
        "tags": dict(entry.tags) or None,
        "order": str(entry.order),  # too long a number for some readers
    }


def entry_of(values: Mapping[str, Any]) -> HistoryEntry:
    """The entry of the history of an item. Raises InvalidInput."""
    fields = Fields(values)
    run, state = parse_run_id(fields.text("run")), word(RunState, "state", fields.text("state"))
    if state not in TERMINAL:
        raise InvalidInput("state", str(state), "is not of a run that has ended", f"use {', '.join(sorted(TERMINAL))}")
    ended, times = fields.instant("ended_at"), {name: fields.instant(name) for name in _TIMES}
    if ended is None or times["due"] is None:
        missing = "due" if ended is not None else "ended_at"
        raise InvalidInput(missing, None, "is missing", "write a time, e.g. 2026-12-24T18:00:00.000Z")
    order, tags = fields.take("order", str) or "0", fields.take("tags", dict) or {}
    if not order.isdecimal():
        raise InvalidInput("order", order, "is not a number in a text", "leave it out")
    numbers: dict[str, Any] = {name: fields.take(name, int) for name in _WHOLE}
    words: dict[str, Any] = {name: fields.take(name, str) for name in _TEXTS}
    words |= {name: value or 0 for name, value in numbers.items()} | {"skipped": numbers["skipped"]}
    found = HistoryEntry(
        run=run,
        at=ended,
        order=int(order),
        state=state,
        job=fields.text("job"),
        due=times["due"],
        not_before=times["not_before"] or times["due"],
        created_at=times["created_at"] or times["due"],
        started_at=times["started_at"],
        skipped_until=times["skipped_until"],
        kind=word(RunKind, "kind", fields.take("kind", str) or "fire"),
        **words,
        tags={str(name): str(value) for name, value in tags.items()},
    )
    for name in ("tenant", "schedule"):
        fields.take(name, str)
    fields.end()
    return found
