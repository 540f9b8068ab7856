"""The SDK's forecast: when how much will fire, for all schedules at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from heapq import nsmallest
from itertools import takewhile
from typing import Literal

from quarterjack.arguments import checked_limit
from quarterjack.domain.job import JobRef
from quarterjack.domain.names import check_whole
from quarterjack.domain.schedule import Head, Revision, ScheduleState, rule_of_head
from quarterjack.domain.tenants.access import Verb
from quarterjack.domain.times import DAY, SECOND, from_ms, to_ms
from quarterjack.errors import ExpressionError, InvalidInput
from quarterjack.owner.freeze import read_freeze
from quarterjack.ports.services import Services
from quarterjack.sdk.base import SchedulerBase
from quarterjack.sdk.cursors import Listing
from quarterjack.sdk.schedules.filters import CHUNK, TagFilter, checked_filter, walk
from quarterjack.sdk.schedules.forecast_views import (
    LOOKED_AT,
    MOST_LISTED,
    MOST_SCHEDULES,
    BusiestInstant,
    ComingSchedule,
    Forecast,
    ForecastSpan,
)
from quarterjack.timing import Timetable, timetable
from quarterjack.timing.tally import Counted, FireTally, TooDense
from quarterjack.timing.timetables import Bounded, moment
from quarterjack.timing.zones import zone as zones
from quarterjack.timing.zones.zone import ZoneRules

_STEPS = 1_500_000  # of cron expressions in one forecast: about 3 s
_STEPS_OF_ONE = 200_000  # likewise for one schedule
_UNCOUNTED = 100  # names of uncounted schedules in one forecast
SpanWord = Literal["minute", "hour", "day"]
LENGTHS = {"minute": 60, "hour": 3_600, "day": 86_400}  # seconds
MOST = {"minute": 1_500, "hour": 1_500, "day": 400}  # spans: 25 hours, 62 days, 400 days


@dataclass
class _Found:
    """What a forecast has gathered."""

    tally: FireTally
    firing: list[tuple[int, str, Head, int]] = field(default_factory=list)  # first fire (UTC ms), name, head, fires
    looked_at: int = 0
    paused: int = 0
    uncounted: list[str] = field(default_factory=list)
    tables: list[tuple[int, Timetable]] = field(default_factory=list)  # first fire, and the timetable

    def add(self, one: Coming | Head) -> None:
        self.looked_at += 1
        if isinstance(one, Head):
            self.paused += 1
            return
        try:
            counted: Counted = self.tally.add(one.table)
        except (TooDense, ExpressionError):  # of the second kind: everything to come is excluded, after a long search
            self.uncounted.append(one.head.name)
        else:
            if counted.first is not None:
                self.firing.append((counted.first, one.head.name, one.head, counted.total))
                self.tables.append((counted.first, one.table))


class ForecastMethods(SchedulerBase):
    def forecast(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        by: SpanWord = "hour",
        timezone: str = "UTC",
        prefix: str = "",
        contains: str = "",
        job: JobRef | None = None,
        tag: TagFilter | None = None,
        failing: bool | None = None,
        managed_by: str | None = None,
        listed: int = 100,
        limit: int = LOOKED_AT,
        cursor: str | None = None,
    ) -> Forecast:
        """How many fires of the schedules that meet all conditions are due when, and which schedules fire.

        From ``since`` (aware; default, and if it is past: now) to ``until`` (excluded; default: 24 hours later), in spans of a minute,
        an hour or a day ``by`` the clock of ``timezone``: 1,500 minutes, 1,500 hours or 400 days at the most. The conditions are those of
        ``list_schedules``. ``listed`` (0 to 1,000): how many of the schedules that fire are told, those that fire first.

        Counted are the fires of active schedules, and of paused ones from the end of their pause on, by the definitions of now. Whether
        their runs start then, the overlap of runs, a freeze, and what holds a queue back decide later. ``skip_next`` does not change it.

        ``busiest`` is the most crowded instant of those at which a schedule fires next, with its lateness by the capacity model. Where a
        hundred fires are due at one, the records of the workers are read.

        ``limit`` (1 to 10,000): how many schedules are looked at, in order of name; eight of them take a read unit, more if their rules
        are long. If there are more, or their fires are too many for one call, the forecast has a ``cursor``, which goes on behind the
        last. Raises InvalidInput, Unavailable.
        """
        name = self._checks.named_job(job)
        self._access.check(Verb.READ_SCHEDULES, name)
        zones.check_name(timezone)
        rules = zones.table(timezone)
        begin, end = self._time_of_forecast(since, until)
        if not isinstance(by, str) or by not in LENGTHS:
            raise InvalidInput("by", by, "is not a span", "use one of " + ", ".join(map(repr, LENGTHS)))
        rows = check_whole("listed", listed, 0, MOST_LISTED)
        most = checked_limit(limit, MOST_SCHEDULES)
        conditions = checked_filter(
            prefix=prefix, contains=contains, job=name, tag=tag, failing=failing, managed_by=managed_by
        )
        listing = Listing("forecast", self.tenant, conditions)
        position = listing.position(cursor)
        edges = edges_of(begin, end, by, rules)
        # What is due now was claimed already.
        found = _Found(FireTally([max(begin, self.session.clock() + 1), *edges[1:]], _STEPS_OF_ONE))
        last, read = position, 0
        for part in walk(self.tenant, conditions, self.session.services, cursor=position, chunk=min(CHUNK, most)):
            read += min(CHUNK, most)
            last = _take(found, coming(part.items, end, self.session.services), part.cursor)
            if last != part.cursor or read >= most:
                break
        freeze, sums = read_freeze(self.tenant, self.session.services, self.session.clock), found.tally.sums()
        return Forecast(
            since=moment(begin, timezone),
            until=moment(end, timezone),
            timezone=timezone,
            by=by,
            spans=_spans(edges, sums, timezone),
            fires=sum(sums),
            firing=len(found.firing),
            schedules=[_schedule(*each) for each in nsmallest(rows, found.firing, key=lambda each: each[:2])],
            looked_at=found.looked_at,
            paused=found.paused,
            uncounted=found.uncounted[:_UNCOUNTED],
            busiest=self._busiest(found.tables, timezone),
            frozen_until=None if freeze is None else from_ms(freeze.until),
            cursor=listing.next(last),
        )

    def _busiest(self, tables: Sequence[tuple[int, Timetable]], timezone: str) -> BusiestInstant | None:
        from quarterjack.sdk.schedules.crowded import busiest_instant  # noqa: PLC0415 (a worker needs none of it)

        return busiest_instant(tables, timezone, self.session)

    def _time_of_forecast(self, since: datetime | None, until: datetime | None) -> tuple[int, int]:
        """From and until (UTC ms). Raises InvalidInput."""
        now = self.session.clock()
        begin = now if since is None else max(now, to_ms(since, "since"))
        end = begin + DAY if until is None else to_ms(until, "until")
        if end <= begin:
            raise InvalidInput(
                "until", until, "is not after since and now", "give a later time; `list_runs` has what was"
            )
        return begin, end


def _take(found: _Found, schedules: Iterator[Coming | Head], cursor: str | None) -> str | None:
    """Count schedules while there are steps left; the name of the last one, or ``cursor`` if these were all."""
    for one in schedules:
        found.add(one)
        if found.tally.steps > _STEPS:
            return one.name if isinstance(one, Head) else one.head.name
    return cursor


def _spans(edges: Sequence[int], counts: Sequence[int], timezone: str) -> Sequence[ForecastSpan]:
    times = [moment(edge, timezone) for edge in edges]
    return [
        ForecastSpan(start=start, end=end, fires=count)
        for start, end, count in zip(times[:-1], times[1:], counts, strict=True)
    ]


def _schedule(first: int, name: str, head: Head, fires: int) -> ComingSchedule:
    return ComingSchedule(
        name=name,
        job=head.job,
        expression=head.expression,
        timezone=head.timezone,
        fires=fires,
        first=moment(first, head.timezone),
        resume_at=None if head.resume_at is None else from_ms(head.resume_at),
    )


# Timetables, from the heads of schedules: reading each one's revision would take a read unit a schedule.


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


# Spans: minutes, hours or days by the clock of a zone.


def edges_of(since: int, until: int, by: str, zone: ZoneRules) -> Sequence[int]:
    """The beginnings of the spans from ``since`` to ``until`` (UTC ms), and ``until``.

    An hour that the clocks repeat is two spans, one that they skip is none.
    """
    most = MOST[by]
    if (until - since) // SECOND > most * LENGTHS[by]:
        more = {"minute": "by='hour'", "hour": "by='day'", "day": "several forecasts"}[by]
        raise InvalidInput("by", by, f"divides this time into more than {most} spans", f"ask for less time, or {more}")
    starts = _days(since, zone) if by == "day" else _clock(since, LENGTHS[by], zone)
    return [since, *takewhile(lambda start: start < until, starts), until]


def _days(since: int, zone: ZoneRules) -> Iterator[int]:
    """The days that begin after ``since``."""
    last, day = since, zone.local(since // SECOND) // 86_400
    while True:
        day += 1
        start = zone.reaches(day * 86_400) * SECOND
        if start > last:  # a day that the zone leaves out begins with the one after it
            yield start
            last = start


def _clock(since: int, length: int, zone: ZoneRules) -> Iterator[int]:
    """The hours or minutes that begin after ``since``, and the changes of the clocks."""
    second = since // SECOND
    while True:
        coming = second + length - zone.local(second) % length
        changes = zone.changes(second, coming)
        second = changes[0][0] if changes else coming
        yield second * SECOND
