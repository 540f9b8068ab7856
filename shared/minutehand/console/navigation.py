"""The pages that every page links, in this order."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """A page in the navigation."""

    title: str  # what the page's template sets as ``here``
    path: str  # below the tenant's address


NAVIGATION = (
    Entry("Overview", ""),
    Entry("Schedules", "schedules"),
    Entry("Timeline", "timeline"),
    Entry("Calendar", "calendar"),
    Entry("Runs", "runs"),
    Entry("Dead", "dead"),
    Entry("Backfills", "backfills"),
    Entry("Queues", "queues"),
    Entry("Workers", "workers"),
    Entry("Jobs", "jobs"),
    Entry("Audit", "audit"),
    Entry("Doctor", "doctor"),
    Entry("Tenants", "tenants"),
    Entry("API keys", "keys"),
)
