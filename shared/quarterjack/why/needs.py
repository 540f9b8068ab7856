"""What an answer needs of the evidence: which fire is meant, and which rows, records and lines have to be read. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from quarterjack.domain.names import fire_ref
from quarterjack.domain.run import WAITING, RunRow, RunState
from quarterjack.domain.schedule import ClosedBy, ScheduleState
from quarterjack.domain.times import SECOND
from quarterjack.errors import ExpressionError
from quarterjack.fires.plan import timetable_of
from quarterjack.state.catch_up import covers
from quarterjack.why.delay import LATE
from quarterjack.why.facts import Facts
from quarterjack.why.no_run import absence_of
from quarterjack.why.timeline import ACTS, active_at, stop_at

_BY_OWNERS = (RunState.CANCELLED, RunState.SKIPPED)
_STOPS = (ClosedBy.PAUSED, ClosedBy.DELETED, ClosedBy.DRAINED)


def in_that_second(facts: Facts) -> Facts:
    """With the instant of the fire in the asked second, if the instant itself is none: fires of rates have milliseconds."""
    if facts.governing is None or facts.at % SECOND:
        return facts
    revision = facts.revisions[facts.governing]
    with suppress(ExpressionError):
        fire = timetable_of(revision).next(facts.at - 1)
        if fire is not None and fire < facts.at + SECOND and revision.bound(fire) == fire:
            return replace(facts, at=fire, ref=fire_ref(revision.owner, fire))
    return facts


def needs_agenda(facts: Facts) -> bool:
    """Whether it is a fire without a row, so that its chain says whether it is still to come."""
    place = facts.governing
    if facts.run is not None or facts.gaps or place is None or not active_at(facts, place):
        return False
    return absence_of(facts.revisions[place], facts.at) is None


def times_of_acts(facts: Facts) -> Iterator[tuple[int, int]]:
    """From when until when (UTC ms) acts of owners may have ended what the question is about."""
    run, head, place = facts.run, facts.head, facts.governing
    if run is not None and run.state in _BY_OWNERS and run.ended_at is not None:
        yield run.ended_at, run.ended_at
    number = run.revision if run is not None else place is not None and facts.revisions[place].number
    if run is not None and run.state not in (*_BY_OWNERS, RunState.QUEUED):
        return
    for revision in facts.revisions:
        until = revision.active_until
        if until is not None and revision.number >= (number or 0) and revision.closed_by in _STOPS:
            yield until, min(max(facts.at, until), until + ACTS) if run is None else until
    if run is None and place is not None and not active_at(facts, place):
        stop = stop_at(facts, place)
        yield stop.since, min(max(facts.at, stop.since), stop.since + ACTS)
    if run is None and head is not None and head.state is ScheduleState.DELETED:
        yield head.updated_at, head.updated_at


def gaps(facts: Facts) -> Iterator[RunRow]:
    """The rows of passed-over fires that stand for this one."""
    if facts.run is not None:
        if facts.run.skipped_until is not None:
            yield facts.run
        return
    for row in facts.before:
        revision = facts.revision(row.revision)
        if revision is None or not covers(row, facts.at):
            continue
        # Beyond the end of its revision it stands for nothing: a slower clock may have set that end after it was written.
        if revision.bound(facts.at) == facts.at and absence_of(revision, facts.at) is None:
            yield row


def is_exclusive(facts: Facts) -> bool:
    return facts.defining is not None and facts.defining.definition.options.is_exclusive


def was_late(facts: Facts) -> bool:
    """Whether the fire was, or is, claimed late, or waits."""
    run = facts.run
    if run is None:
        return facts.at <= facts.now
    return run.state in WAITING or run.created_at - run.due > LATE
