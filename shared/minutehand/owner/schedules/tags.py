"""Change some of a schedule's tags. Tags belong to the head, so no revision is made and no fire is touched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from minutehand.domain.schedule import Head, ScheduleState
from minutehand.errors import Conflict, NotFound
from minutehand.owner.schedules.arm import RACES
from minutehand.ports.clock import Clock
from minutehand.ports.services import Services

Tags = Mapping[str, str | None]  # None removes one


def retag(seen: Head, tags: Tags, services: Services, clock: Clock) -> Head:
    """Change some tags of a schedule that was just read. Raises NotFound, Conflict, Unavailable."""
    head: Head | None = seen
    for _ in range(RACES):
        if head is None or head.state is ScheduleState.DELETED:
            raise NotFound(f"name={seen.name!r}: it was deleted meanwhile")
        after = retagged(head.tags, tags)
        if after == head.tags:
            return head
        changed = replace(head, tags=after, version=head.version + 1, updated_at=clock())
        if services.schedules.close(changed, expected=head.version, revision=None):
            return changed
        head = services.schedules.head(seen.tenant, seen.name)
    raise Conflict(f"name={seen.name!r}: others changed it {RACES} times meanwhile; try again")


def retagged(present: Mapping[str, str], tags: Tags) -> dict[str, str]:
    """The present tags after a change."""
    return {key: value for key, value in {**present, **tags}.items() if value is not None}
