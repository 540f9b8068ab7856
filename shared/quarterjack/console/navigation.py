"""Links, each for a reader who may open its target: the navigation of every page, and names of schedules, jobs and runs.

Each name is isolated (``<bdi>``): whatever characters it has, the words beside it stay where they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from quarterjack.domain.tenants.access import Verb
from quarterjack.domain.tenants.profile import INSTALLATION
from quarterjack.web.urls import name_in_url


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


def isolated(value: object) -> Markup:
    """A text that somebody has written, within the page's own words."""
    return Markup("<bdi>{}</bdi>").format(value)


_FIRST, _LAST = "\u2068", "\u2069"  # FIRST STRONG ISOLATE, POP DIRECTIONAL ISOLATE
_TURNS = re.compile(
    "[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)  # characters that turn the direction of what follows


def fenced(value: object) -> str:
    """The same for a title, which has no elements."""
    text = str(value)
    return f"{_FIRST}{text}{_LAST}" if _TURNS.search(text) else text


def schedule_link(call: Any, name: str) -> Markup:
    """A schedule's name."""
    return _link(call.of_schedule(name), name) if call.may(Verb.READ_SCHEDULES, some=True) else isolated(name)


def job_link(call: Any, name: str) -> Markup:
    """A job's name."""
    address = call.address("job", name_in_url(name))
    return _link(address, name) if call.may(Verb.READ_INSTALLATION, some=True) else isolated(name)


def run_link(call: Any, run_id: str, text: str | None = None) -> Markup:
    """A run, by its id or another text."""
    shown = run_id if text is None else text
    return _link(call.of_run(run_id), shown) if call.may(Verb.READ_RUNS, some=True) else isolated(shown)


def _link(address: str, text: str) -> Markup:
    return Markup('<a href="{}"><bdi>{}</bdi></a>').format(address, text)


LINKS: Mapping[str, Callable[..., Markup]] = {
    "schedule_link": schedule_link,
    "job_link": job_link,
    "run_link": run_link,
}
