"""The pages that every page links, in this order, each for who may open it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from quarterjack.domain.tenants.access import Verb
from quarterjack.domain.tenants.profile import INSTALLATION


@dataclass(frozen=True)
class Entry:
    """A page in the navigation."""

    title: str  # what the page's template sets as ``here``
    path: str  # below the tenant's address
    verb: Verb | None = None  # that the page needs
    some: bool = False  # for some job; else for all
    operator: bool = False  # for operators alone
    holder: str | None = None  # by whose grants; None: the tenant's


@dataclass(frozen=True)
class Group:
    """Pages about the same."""

    title: str
    entries: tuple[Entry, ...]


NAVIGATION = (
    Group(
        "Work",
        (
            Entry("Overview", ""),
            Entry("Schedules", "schedules", Verb.READ_SCHEDULES),
            Entry("Runs", "runs", Verb.READ_RUNS),
            Entry("Dead", "dead", Verb.READ_RUNS),
        ),
    ),
    Group(
        "Time",
        (
            Entry("Timeline", "timeline", Verb.READ_SCHEDULES),
            Entry("Calendar", "calendar", Verb.READ_SCHEDULES),
            Entry("Backfills", "backfills", Verb.READ_RUNS),
        ),
    ),
    Group(
        "Machinery",
        (
            Entry("Queues", "queues", Verb.READ_INSTALLATION, some=True),
            Entry("Workers", "workers", Verb.READ_INSTALLATION, some=True),
            Entry("Jobs", "jobs", Verb.READ_INSTALLATION, some=True),
            Entry("Doctor", "doctor", Verb.READ_TENANT, operator=True, holder=INSTALLATION),
        ),
    ),
    Group(
        "Access",
        (
            Entry("Tenants", "tenants"),
            Entry("API keys", "keys", Verb.READ_TENANT, operator=True),
            Entry("Audit", "audit", Verb.READ_AUDIT),
        ),
    ),
)


def may_open(call: Any, path: str) -> bool:
    """Whether the actor of a page's call may open the page with that path below the tenant's address."""
    entry = next(entry for group in NAVIGATION for entry in group.entries if entry.path == path)
    if entry.operator and not call.operates:
        return False
    return entry.verb is None or bool(call.may(entry.verb, some=entry.some, holder=entry.holder))


def groups_for(call: Any) -> tuple[Group, ...]:
    """The groups with the pages that the actor may open."""
    found = (Group(one.title, tuple(e for e in one.entries if may_open(call, e.path))) for one in NAVIGATION)
    return tuple(group for group in found if group.entries)
