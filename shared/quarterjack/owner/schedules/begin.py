"""Where a new revision of a schedule begins, from when its rates count, and what its rule takes over from the previous one."""

from __future__ import annotations

from quarterjack.domain.schedule import ClosedBy, Definition, Head, Revision, ScheduleState
from quarterjack.ports.services import Services
from quarterjack.timing import Rule, Taken, take, timetable


def begin(
    definition: Definition, previous: Revision | None, present: Definition | None, now: int
) -> tuple[int, int | None]:
    """Where a revision begins that is made now (UTC ms, exclusive): at the end of the previous one.

    And the instant (UTC ms) from which its rates count; None: from where it begins. A rate keeps its phase while its expression stays.
    """
    if previous is None:
        return now, None
    t0 = max(now, previous.active_from, previous.active_until or 0)
    same = present is not None and _expressions(definition.rule) == _expressions(present.rule)
    return t0, previous.counts_from if same else None


def _expressions(rule: Rule) -> tuple[str, ...]:
    return rule.expression, rule.timezone, *rule.also


def goes_on(definition: Definition, present: Definition | None, anchor: int, t0: int, owner: str) -> bool:
    """Whether the present rule stays, and has a fire later than ``t0`` (UTC ms)."""
    same = present is not None and definition.rule == present.rule
    return same and timetable(definition.rule, anchor=anchor, key=owner).next(t0) is not None


def taken_over(previous: Revision | None, kept: Head | None, t0: int, services: Services) -> Taken | None:
    """What a new rule takes over from the previous one. The instants of a pause have been nobody's, whatever was changed in it."""
    if previous is None:
        return None
    at = t0
    if kept is not None and kept.state is ScheduleState.PAUSED:
        at = min(t0, _paused_since(kept, services))
    return take(previous.definition.rule, at, anchor=previous.counts_from, key=previous.owner)


def begin_again(head: Head, previous: Revision, services: Services, now: int, early: int) -> tuple[int, int | None]:
    """As ``begin``, of a schedule that is resumed now: at the end of its pause, if that is at most ``early`` ms away.

    A fire at the exact end of the pause is due. A rate keeps the phase that it had before the pause.
    With ``automatic_backfill`` the fires of the pause are due too, as missed ones.
    """
    if previous.definition.options.automatic_backfill and head.state is ScheduleState.PAUSED:
        return _paused_since(head, services), previous.counts_from
    bound = max(previous.active_from, previous.active_until or 0)
    ends = head.resume_at
    if ends is not None and bound < ends <= now + early:
        return ends - 1, previous.counts_from
    return max(now, bound), previous.counts_from


def _paused_since(head: Head, services: Services) -> int:
    """When (UTC ms) the pause began; revisions made during the pause are empty."""
    since = head.created_at
    for revision in services.schedules.history(head.owner):
        if revision.active_until is None or revision.closed_by not in (ClosedBy.PAUSED, ClosedBy.DRAINED):
            break
        since = max(revision.active_until, head.created_at)
        if revision.active_from < revision.active_until:
            break
    return since
