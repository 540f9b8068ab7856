"""The SDK's forecast: when how much will fire, for all schedules at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from heapq import nsmallest
from typing import Literal

from quarterjack.arguments import checked_limit
from quarterjack.domain.job import JobRef
from quarterjack.domain.names import check_whole
from quarterjack.domain.schedule import Head
from quarterjack.domain.tenants.access import Verb
from quarterjack.domain.times import DAY, from_ms, to_ms
from quarterjack.errors import ExpressionError, InvalidInput
from quarterjack.owner.freeze import read_freeze
from quarterjack.sdk.base import SchedulerBase
from quarterjack.sdk.cursors import Listing
from quarterjack.sdk.forecasts.coming import Coming, coming
from quarterjack.sdk.forecasts.spans import LENGTHS, edges_of
from quarterjack.sdk.forecasts.views import ComingSchedule, Forecast, ForecastSpan
from quarterjack.sdk.reading import CHUNK, TagFilter, checked_filter, walk
from quarterjack.timing.tally import Counted, FireTally, TooDense
from quarterjack.timing.timetables import moment
from quarterjack.timing.zones import zone as zones

MOST_SCHEDULES = 10_000  # that one forecast looks at
MOST_LISTED = 1_000
LOOKED_AT = 2_000  # schedules of one forecast by default: about 250 read units
_STEPS = 1_500_000  # of cron expressions in one forecast: about 3 s
_STEPS_OF_ONE = 200_000  # likewise for one schedule
_UNCOUNTED = 100  # names of uncounted schedules in one forecast
SpanWord = Literal["minute", "hour", "day"]


@dataclass
class _Found:
    """What a forecast has gathered."""

    tally: FireTally
    firing: list[tuple[int, str, Head, int]] = field(default_factory=list)  # first fire (UTC ms), name, head, fires
    looked_at: int = 0
    paused: int = 0
    uncounted: list[str] = field(default_factory=list)

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

        ``limit`` (1 to 10,000): how many schedules are looked at, in order of name; eight of them take a read unit, more if their rules
        are long. If there are more, or their fires are too many for one call, the forecast has a ``cursor``, which goes on behind the
        last. Raises InvalidInput, Unavailable.
        """
        name = self._named_job(job)
        self._permit(Verb.READ_SCHEDULES, name)
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
            frozen_until=None if freeze is None else from_ms(freeze.until),
            cursor=listing.next(last),
        )

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
