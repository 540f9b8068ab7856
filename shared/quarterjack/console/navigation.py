"""The pages that every page links, in this order."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """A page in the navigation."""

    title: str  # what the page's template sets as ``here``
    path: str  # below the tenant's address


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
            Entry("Schedules", "schedules"),
            Entry("Runs", "runs"),
            Entry("Dead", "dead"),
        ),
    ),
    Group(
        "Time",
        (
            Entry("Timeline", "timeline"),
            Entry("Calendar", "calendar"),
            Entry("Backfills", "backfills"),
        ),
    ),
    Group(
        "Machinery",
        (
            Entry("Queues", "queues"),
            Entry("Workers", "workers"),
            Entry("Jobs", "jobs"),
            Entry("Doctor", "doctor"),
        ),
    ),
    Group(
        "Access",
        (
            Entry("Tenants", "tenants"),
            Entry("API keys", "keys"),
            Entry("Audit", "audit"),
        ),
    ),
)
