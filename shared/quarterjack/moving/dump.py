"""Read what a tenant or an installation has, and write it as the lines of a dump, one after the other: memory holds one page.

Each item is as it was when it was read, so what changes meanwhile is in the file as it was before, or after. Schedules of all tenants are
read in one scan; a tenant's freeze comes before its first schedule. API keys and secrets are not read: they are made anew.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

from quarterjack.domain.history.entry import Book
from quarterjack.domain.history.transition_line import iso, line_of
from quarterjack.domain.payload import json_text
from quarterjack.domain.schedule import Definition, Freeze, Head, ScheduleState, freeze_key
from quarterjack.domain.tenants.profile import INSTALLATION, SHARED
from quarterjack.domain.times import DAY
from quarterjack.errors import Unavailable, Unreadable
from quarterjack.historian.archive import ArchiveFilter, read_archive
from quarterjack.history.read import Reading
from quarterjack.moving.file import END, FORMAT, VERSION, encode
from quarterjack.moving.items import freeze_values, profile_values, run_values, version_values
from quarterjack.moving.schedules import schedule_values
from quarterjack.ports.services import Services
from quarterjack.state.history.search import Search
from quarterjack.stores.history.pages import ReadMeter
from quarterjack.stores.rows import refuse_unread
from quarterjack.values import value
from quarterjack.version import VERSION as RELEASE

_HEADS = 1_000  # of one query
_BATCH = 100  # revisions that are read at once


@value(kw_only=True)
class DumpRequest:
    """What is written."""

    installation: str  # prefix of its tables
    tenant: str | None  # None: all
    now: int  # UTC ms
    since: int | None  # UTC ms: the history of runs from then on; None: none
    permit: Callable[[str], None]  # raises Forbidden for a tenant that the caller may not dump


def dump_lines(asked: DumpRequest, services: Services) -> Iterator[str]:
    """The lines, without their ends. Raises Forbidden, TooNew, Unreadable, Unavailable."""
    whose = {"installation": asked.installation, "tenant": asked.tenant, "at": iso(asked.now), "release": RELEASE}
    yield json_text({"format": FORMAT, "version": VERSION} | {k: v for k, v in whose.items() if v is not None})
    counts, tenants = Counter[str](), dict[str, None]()
    items = chain(
        _installation(asked, services), _profiles(asked, services, tenants), _schedules(asked, services, tenants)
    )
    for item, values in chain(items, _history(asked, services, tenants)):
        counts[item] += 1
        yield encode(item, values)
    yield encode(END, {"counts": dict(counts)})


_Item = tuple[str, dict[str, Any]]


def _installation(asked: DumpRequest, services: Services) -> Iterator[_Item]:
    if asked.tenant is None:
        for version in services.tenants.app_versions.read(asked.now).versions:
            yield "application-version", version_values(version)
        for name in services.work.names():
            yield "queue", {"name": name}


def _profiles(asked: DumpRequest, services: Services, tenants: dict[str, None]) -> Iterator[_Item]:
    """Profiles: of the installation and of tiers first, which the others name."""
    if asked.tenant is not None:
        own = services.tenants.profile(asked.tenant)
        found = [] if own is None else [own]
        yield from _of_tenant(asked.tenant, services, tenants)
    else:
        found = sorted(
            services.tenants.profiles(), key=lambda each: (each.tenant != INSTALLATION, not each.is_shared, each.tenant)
        )
    for profile in found:
        if not profile.is_shared:
            asked.permit(profile.tenant)
        if not profile.is_erased:
            yield "tenant", profile_values(profile)
            if not profile.is_shared:
                yield from _of_tenant(profile.tenant, services, tenants)


def _of_tenant(tenant: str, services: Services, tenants: dict[str, None]) -> Iterator[_Item]:
    """The freeze of a tenant that was not seen before."""
    if tenant in tenants:
        return
    tenants[tenant] = None
    answer = services.schedules.revisions([freeze_key(tenant)])
    if answer.unanswered:
        raise Unavailable(f"the freeze of tenant {tenant!r} could not be read; try again")
    freeze: Freeze | None = answer.frozen.get(tenant)
    if freeze is not None:
        yield "freeze", freeze_values(freeze)


def _schedules(asked: DumpRequest, services: Services, tenants: dict[str, None]) -> Iterator[_Item]:
    for heads in _pages(asked.tenant, services):
        for batch in (heads[first : first + _BATCH] for first in range(0, len(heads), _BATCH)):
            answer = services.schedules.revisions([(head.owner, head.revision) for head in batch])
            refuse_unread(answer.broken.values(), "revisions of schedules")
            for head in batch:
                if (revision := answer.found.get((head.owner, head.revision))) is None:
                    raise Unavailable(
                        f"the revision of {head.owner!r} could not be read; try again, or run the auditor"
                    )
                if head.tenant not in tenants:
                    asked.permit(head.tenant)
                yield from _of_tenant(head.tenant, services, tenants)
                yield "schedule", schedule_values(head, revision, _payload(head.tenant, revision.definition, services))


def _pages(tenant: str | None, services: Services) -> Iterator[list[Head]]:
    """The heads that are not deleted, a page at a time. Raises TooNew, Unreadable: none is left out."""
    cursor: str | None = ""
    while cursor is not None:
        found: Iterable[Head]
        unread = dict[str, Unreadable]()
        if tenant is None:
            found, after = services.schedules.scan_heads(cursor, limit=_HEADS, unread=unread)
            cursor = after or None
        else:
            page = services.schedules.page(tenant, prefix="", limit=_HEADS, cursor=cursor or None)
            found, cursor = page.items, page.cursor
            unread |= page.unread
        refuse_unread(unread.values(), "schedules")
        yield [head for head in found if head.state is not ScheduleState.DELETED]


def _payload(tenant: str, definition: Definition, services: Services) -> Any:
    ref = definition.payload_ref
    text = definition.payload if ref is None else services.payloads.get(tenant, ref)
    return json.loads(text or "null")


# History.


def _history(asked: DumpRequest, services: Services, tenants: dict[str, None]) -> Iterator[_Item]:
    if asked.since is None:
        return
    for tenant in _with_history(asked, asked.since, services, tenants):
        reading = Reading(
            services.history, tenant, Book.ENDED, Search(), after=asked.since - 1, upto=asked.now, meter=ReadMeter()
        )
        for entry in reading.entries():
            yield "run", run_values(entry)
        if services.archive.is_on:
            wanted = ArchiveFilter(since=asked.since, until=asked.now + 1)
            for line in read_archive(services.archive, tenant, wanted):
                yield "transition", json.loads(line_of(line))


def _with_history(asked: DumpRequest, since: int, services: Services, tenants: dict[str, None]) -> list[str]:
    """The tenants, also those that have ended runs alone."""
    if asked.tenant is None:
        first = max(since, asked.now - services.retention) // DAY
        for day in range(first, asked.now // DAY + 1):
            for tenant in services.history.tenants(Book.ENDED, day):
                if tenant not in tenants:
                    asked.permit(tenant)
                    tenants[tenant] = None
    return [tenant for tenant in tenants if not tenant.startswith(SHARED)]
