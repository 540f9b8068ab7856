"""Filters of schedules, and the walk through the heads that meet one: for listings, bulk calls, forecasts and comparisons."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from quarterjack.arguments import MAX_TAG
from quarterjack.domain.names import PIPELINE, check_name, is_text, word
from quarterjack.domain.schedule import Head, ScheduleState
from quarterjack.errors import InvalidInput
from quarterjack.ports.services import Services
from quarterjack.stores.paging import OnRead, RowPage
from quarterjack.values import replace

TagFilter = tuple[str, str] | str  # key and value, or a key with any value
MOST_NAMES = 1_000  # of one filter
CHUNK = 250  # heads in one query of a bulk call, or of a forecast


@dataclass(frozen=True, kw_only=True)
class Filter:
    """Conditions on a schedule, all of which must hold. None is no condition."""

    prefix: str = ""  # of the name
    contains: str = ""  # part of the name
    state: ScheduleState | None = None  # None: any but DELETED
    job: str | None = None
    tag: tuple[str, str | None] | None = None  # key and value; value None: any
    failing: bool | None = None  # whether an incident is open, or the last ended run failed for good
    managed_by: str | None = None
    pipelines: bool | None = None  # whether it has tasks
    names: tuple[str, ...] | None = None  # sorted: only schedules of these names, which are read by name

    def matches(self, head: Head) -> bool:
        """Whether a head meets the filter. The query checks the prefix."""
        return (
            head.retired_at is None
            and (head.state is self.state if self.state else head.state is not ScheduleState.DELETED)
            and self.contains in head.name
            and self.job in (None, head.job)
            and (self.tag is None or (self.tag[0] in head.tags and self.tag[1] in (None, head.tags[self.tag[0]])))
            and self.failing in (None, head.failing > 0 or head.incident is not None)
            and self.managed_by in (None, head.managed_by)
            and self.pipelines in (None, head.job.startswith(PIPELINE))
        )


def checked_filter(
    *,
    prefix: object = "",
    contains: object = "",
    state: Any = None,
    job: object = None,
    tag: object = None,
    failing: object = None,
    managed_by: object = None,
    pipelines: object = None,
    names: object = None,
) -> Filter:
    if failing is not None and not isinstance(failing, bool):
        raise InvalidInput("failing", failing, "is neither True nor False", "use True, False, or leave it out")
    if pipelines is not None and not isinstance(pipelines, bool):
        raise InvalidInput("pipelines", pipelines, "is neither True nor False", "use True, False, or leave it out")
    return Filter(
        prefix="" if isinstance(prefix, str) and not prefix else check_name(prefix, "prefix"),
        contains="" if isinstance(contains, str) and not contains else check_name(contains, "contains"),
        state=None if state is None else word(ScheduleState, "state", state),
        job=None if job is None else check_name(job, "job"),
        tag=None if tag is None else checked_tag(tag),
        failing=failing,
        managed_by=None if managed_by is None else check_name(managed_by, "managed_by"),
        pipelines=pipelines,
        names=None if names is None else _checked_names(names),
    )


def _checked_names(names: object) -> tuple[str, ...]:
    if not isinstance(names, (list, tuple, set, frozenset)) or not 1 <= len(names) <= MOST_NAMES:
        raise InvalidInput("names", names, "is not a list of fitting length", f"give 1 to {MOST_NAMES:,} names")
    return tuple(sorted({check_name(name, "names") for name in names}))


def walk(
    tenant: str,
    conditions: Filter,
    services: Services,
    *,
    cursor: str | None,
    chunk: int,
    on_read: OnRead | None = None,
) -> Iterator[RowPage]:
    """The matching heads sorted by name, one page for each query; its cursor is the last name that was read.

    ``on_read`` gets the read units of each query. Raises Unavailable.
    """
    if conditions.names is not None:
        left = [name for name in conditions.names if cursor is None or name > cursor]
        for at in range(0, len(left), chunk):
            some = left[at : at + chunk]
            heads = sorted(services.schedules.heads((tenant, name) for name in some), key=lambda head: head.name)
            fitting = [head for head in heads if head.name.startswith(conditions.prefix) and conditions.matches(head)]
            if on_read is not None:
                on_read(len(some))
            yield RowPage(items=fitting, cursor=some[-1] if some[-1] != left[-1] else None)
        return
    while True:
        page = services.schedules.page(tenant, prefix=conditions.prefix, limit=chunk, cursor=cursor, on_read=on_read)
        yield replace(page, items=[head for head in page.items if conditions.matches(head)])
        cursor = page.cursor
        if cursor is None:
            return


def checked_tag(tag: object) -> tuple[str, str | None]:
    parts = (tag,) if isinstance(tag, str) else tag
    if (
        not isinstance(parts, (tuple, list))
        or len(parts) not in (1, 2)
        or not all(is_text(p, MAX_TAG) for p in parts)
        or not parts[0]
    ):
        raise InvalidInput("tag", tag, "is not a tag", 'use ("key", "value"), or "key" for any value')
    return parts[0], parts[1] if len(parts) == 2 else None
