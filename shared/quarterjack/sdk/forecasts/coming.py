"""The timetables of schedules, from their heads: reading each one's revision would take a read unit a schedule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from quarterjack.domain.schedule import Head, Revision, ScheduleState, rule_of_head
from quarterjack.ports.services import Services
from quarterjack.timing import Timetable, timetable
from quarterjack.timing.timetables import Bounded


@dataclass(frozen=True, slots=True)
class Coming:
    """A schedule with fires to come."""

    head: Head
    table: Timetable


def coming(heads: Sequence[Head], until: int, services: Services) -> Iterator[Coming | Head]:
    """Those that are active, or resumed before ``until`` (UTC ms), with their timetables; of the other paused ones the head.

    A schedule whose rule is long is read anew; one that is changed meanwhile is left out. Raises Unavailable, ExpressionError.
    """
    wanted = [head for head in heads if head.state in (ScheduleState.ACTIVE, ScheduleState.PAUSED)]
    ready = [head for head in wanted if _is_ready(head, until)]
    revisions = _revisions([head for head in ready if head.rule is None or head.counts_from is None], services)
    for head in wanted:
        if not _is_ready(head, until):
            yield head
        elif (rule := rule_of_head(head)) is not None and head.counts_from is not None:
            yield Coming(head, _resumed(head, timetable(rule, anchor=head.counts_from, key=head.owner)))
        elif (found := revisions.get((head.owner, head.revision))) is not None:
            table = timetable(found.definition.rule, anchor=found.counts_from, key=found.owner)
            yield Coming(head, _resumed(head, table))


def _is_ready(head: Head, until: int) -> bool:
    if head.state is ScheduleState.ACTIVE:
        return True
    return head.resume_at is not None and head.resume_at < until


def _resumed(head: Head, table: Timetable) -> Timetable:
    """From the end of a pause on: a fire at the exact end is due."""
    return table if head.state is ScheduleState.ACTIVE or head.resume_at is None else Bounded(table, head.resume_at)


def _revisions(heads: Sequence[Head], services: Services) -> Mapping[tuple[str, int], Revision]:
    keys = [(head.owner, head.revision) for head in heads]
    return services.schedules.revisions(keys).found if keys else {}
