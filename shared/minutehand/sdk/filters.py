"""Filters of schedules, and the walk over the matching heads, sorted by name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from minutehand.arguments import MAX_TAG
from minutehand.domain.names import check_name, is_text
from minutehand.domain.schedule import Head, ScheduleState
from minutehand.errors import InvalidInput
from minutehand.ports.services import Services

TagFilter = tuple[str, str] | str  # key and value, or a key with any value
CHUNK = 250  # heads in one query of a filtered listing


@dataclass(frozen=True, kw_only=True)
class Filter:
    """Conditions on a schedule, all of which must hold. None is no condition."""

    prefix: str = ""  # of the name
    state: ScheduleState | None = None  # None: any but DELETED
    job: str | None = None
    tag: TagFilter | None = None
    failing: bool | None = None  # whether an incident is open, or the last ended run failed for good
    managed_by: str | None = None

    @property
    def is_empty(self) -> bool:
        return self == Filter()

    @property
    def is_rare(self) -> bool:
        """Whether the filter may reject most schedules."""
        return any(value is not None for value in (self.state, self.job, self.tag, self.failing, self.managed_by))

    def matches(self, head: Head) -> bool:
        """Whether a head meets the filter. The query checks the prefix."""
        return (
            (head.state is self.state if self.state else head.state is not ScheduleState.DELETED)
            and self.job in (None, head.job)
            and self._matches_tags(head)
            and self.failing in (None, head.failing > 0 or head.incident is not None)
            and self.managed_by in (None, head.managed_by)
        )

    def _matches_tags(self, head: Head) -> bool:
        if self.tag is None:
            return True
        if isinstance(self.tag, str):
            return self.tag in head.tags
        key, value = self.tag
        return head.tags.get(key) == value


def checked_filter(
    *,
    prefix: object = "",
    state: object = None,
    job: object = None,
    tag: object = None,
    failing: object = None,
    managed_by: object = None,
) -> Filter:
    """A filter from a user's arguments. Raises InvalidInput."""
    if failing is not None and not isinstance(failing, bool):
        raise InvalidInput("failing", failing, "is neither True nor False", "use True, False, or leave it out")
    return Filter(
        prefix="" if isinstance(prefix, str) and not prefix else check_name(prefix, "prefix"),
        state=None if state is None else _state(state),
        job=None if job is None else check_name(job, "job"),
        tag=None if tag is None else _tag(tag),
        failing=failing,
        managed_by=None if managed_by is None else check_name(managed_by, "managed_by"),
    )


def checked_cursor(cursor: object, conditions: Filter) -> str | None:
    """The cursor: the name of the last schedule that was read. Raises InvalidInput."""
    if cursor is None:
        return None
    name = check_name(cursor, "cursor")
    if not name.startswith(conditions.prefix):
        raise InvalidInput("cursor", cursor, "is not of this listing", "pass the cursor of the page before")
    return name


def walk(
    tenant: str, conditions: Filter, services: Services, *, cursor: str | None, chunk: int
) -> Iterator[FilteredPage]:
    """The matching heads sorted by name, one page for each query. Raises Unavailable."""
    while True:
        page = services.schedules.page(tenant, prefix=conditions.prefix, limit=chunk, cursor=cursor)
        cursor = page.cursor
        yield FilteredPage([head for head in page.items if conditions.matches(head)], cursor)
        if cursor is None:
            return


@dataclass(frozen=True)
class FilteredPage:
    """The result of one query."""

    heads: list[Head]  # that match the filter
    cursor: str | None  # the last name that was read; None at the end


def _state(state: Any) -> ScheduleState:
    try:
        return ScheduleState(state)
    except ValueError:
        raise InvalidInput("state", state, "is not known", f"use one of {', '.join(ScheduleState)}") from None


def _tag(tag: object) -> TagFilter:
    parts = (tag,) if isinstance(tag, str) else tag
    if not isinstance(parts, (tuple, list)) or len(parts) not in (1, 2) or not all(is_text(p, MAX_TAG) for p in parts):
        raise InvalidInput("tag", tag, "is not a tag", 'use ("key", "value"), or "key" for any value')
    return (parts[0], parts[1]) if len(parts) == 2 else parts[0]
