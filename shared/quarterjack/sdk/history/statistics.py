"""SDK methods about the history as a whole: statistics, and making it again from the ledger."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from quarterjack.domain.job import JobRef
from quarterjack.domain.names import check_flag, check_name, check_whole
from quarterjack.domain.tenants.access import Verb
from quarterjack.domain.tenants.app_versions import check_version
from quarterjack.domain.times import DAY, to_ms
from quarterjack.errors import InvalidInput, Misconfigured
from quarterjack.sdk.base import SchedulerBase

if TYPE_CHECKING:
    from quarterjack.sdk.history.day_stats import DayStats, HourlyOutcomes

_MOST_DAYS = 366
_MOST_HOURS = 168
_FAR = 200 * 365 * DAY  # ms ahead: no run is due later


@dataclass(frozen=True, kw_only=True)
class Rebuilt:
    """Result of ``rebuild_history``."""

    runs: int  # read from the ledger
    added: int  # runs that the history did not list
    corrected: int  # entries that said something else than the ledger
    stopped: bool = False  # it ended early: the same call does the rest


class HistoryMethods(SchedulerBase):
    def stats(
        self,
        *,
        by: Literal["job", "schedule", "version"] = "job",
        job: JobRef | None = None,
        schedule: str | None = None,
        version: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> list[DayStats]:
        """Counts and times of ended runs ``by`` "job", "schedule" or application "version", for each day in UTC from ``since`` (default:
        six days ago) to ``until`` (default: today), the latest day first. Whole days are counted; ``job``, ``schedule`` or ``version``
        names one of them. A version counts the runs that were assigned to it at their end.

        Costs some read units a day, and the entries of the hours that are not over for two hours. Hours with over a million runs
        are left out. Raises InvalidInput (also for more than 366 days), Misconfigured (the history is switched off), Unavailable.
        """
        self._access.check(Verb.READ_HISTORY, self._checks.named_job(job))
        if not self._has_history:
            raise Misconfigured("QUARTERJACK_HISTORY=off: there are no statistics; switch it on first")
        job = self._checks.named_job(job)
        names = {"job": job, "schedule": schedule, "version": version}
        named = [field for field, one in names.items() if one is not None]
        if not isinstance(by, str) or by not in names or len(named) > 1:
            remedy = 'use "job", "schedule" or "version", and name at most one of these'
            raise InvalidInput("by", by, "is not what runs are counted by", remedy)
        of = named[0] if named else by
        name = names[of]
        if name is not None:
            name = check_version(name) if of == "version" else check_name(name, of)
        now = self.session.clock()
        last = (now if until is None else to_ms(until, "until")) // DAY
        first = last - 6 if since is None else to_ms(since, "since") // DAY
        if not first <= last < first + _MOST_DAYS:
            raise InvalidInput(
                "since",
                since,
                "leaves no days, or too many",
                f"give a time before until, and at most {_MOST_DAYS} days",
            )
        if last < 0:  # before 1970, which the keys of days have no room for
            return []
        from quarterjack.history.statistics import daily  # noqa: PLC0415 (`import quarterjack` need not take its time)
        from quarterjack.sdk.history.day_stats import day_stats  # noqa: PLC0415 (as above)
        from quarterjack.stores.history.pages import ReadMeter  # noqa: PLC0415 (as above)

        found = daily(self.tenant, first=max(first, 0), last=last, services=self.session.services, meter=ReadMeter())
        lines: list[DayStats] = []
        for day in sorted(found, reverse=True):
            tallies = dict(zip(names, found[day].columns(), strict=True))[of]
            lines += (day_stats(day, of, one, tallies[one]) for one in sorted(tallies) if name in (None, one))
        return lines

    def hourly_outcomes(self, hours: int = 24) -> HourlyOutcomes:
        """What became of the runs that ended in the last ``hours`` (1 to 168), the present one included, and in the last 60 minutes.

        Costs a few read units for hours that were folded, whatever ran; of the latest two or three their entries are read until 100
        read units or 0.3 s are spent, the latest first: ``is_whole`` says of which hours that was enough. Runs that failed for good are
        counted by the list of dead runs where it was not, and in the last 60 minutes: ``failed_is_whole`` says where 50 read units were
        not enough for that. Raises InvalidInput,
        Misconfigured (the history is switched off), Unavailable.
        """
        self._access.check(Verb.READ_HISTORY)
        most = check_whole("hours", hours, 1, _MOST_HOURS)
        if not self._has_history:
            raise Misconfigured("QUARTERJACK_HISTORY=off: there are no statistics; switch it on first")
        from quarterjack.history.read import PageBudget  # noqa: PLC0415 (`import quarterjack` need not take its time)
        from quarterjack.history.statistics import hourly  # noqa: PLC0415 (`import quarterjack` need not take its time)
        from quarterjack.sdk.history.day_stats import hourly_outcomes  # noqa: PLC0415 (as above)
        from quarterjack.stores.history.pages import ReadMeter  # noqa: PLC0415 (as above)

        meter, now = ReadMeter(), self.session.clock()
        found = hourly(
            self.tenant,
            now=now,
            hours=most,
            services=self.session.services,
            meter=meter,
            budget=PageBudget(meter, self.session.clock),
        )
        return hourly_outcomes(found, now, most)

    def rebuild_history(
        self,
        *,
        since: datetime,
        until: datetime | None = None,
        all_tenants: bool = False,
        stop: threading.Event | None = None,
        on_progress: Callable[[int], object] | None = None,
    ) -> Rebuilt:
        """Make the history of a time again from the ledger, after a gap in the stream, which keeps 24 hours.

        Adds the runs that ended, or are due, from ``since`` to ``until`` (default: all later ones) and are not listed, and corrects
        entries that the ledger contradicts. It may run beside the historian and may be repeated. It reads the whole ledger (one read
        unit for each 8 KB) and each listed run of that time (one unit each), so its role needs ``dynamodb:Scan`` on the table of runs
        and writes on that of the history. ``on_progress`` is told the number of runs read; ``stop`` ends it early.
        Raises InvalidInput, Misconfigured (the history is switched off), Unavailable (call again).
        """
        self._access.check(Verb.REBUILD_HISTORY)
        if not self._has_history:
            raise Misconfigured("QUARTERJACK_HISTORY=off: there is no history; switch it on first")
        after = to_ms(since, "since") - 1
        upto = self.session.clock() + _FAR if until is None else to_ms(until, "until")
        if after >= upto:
            raise InvalidInput("since", since, "leaves an empty interval", "give a time before until")
        from quarterjack.historian.rebuild import RebuildSpec, rebuild  # noqa: PLC0415 (`import quarterjack` need not take its time)

        spec = RebuildSpec(
            tenant=None if check_flag("all_tenants", all_tenants) else self.tenant,
            after=after,
            upto=upto,
            on_progress=on_progress or (lambda done: None),
            stop=stop,
        )
        done = rebuild(spec, self.session.services, clock=self.session.clock)
        return Rebuilt(runs=done.runs, added=done.added, corrected=done.corrected, stopped=done.stopped)
