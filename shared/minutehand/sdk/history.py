"""SDK methods about the history as a whole: make it again from the ledger."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime

from minutehand.domain.names import check_flag
from minutehand.domain.times import DAY, to_ms
from minutehand.errors import InvalidInput, Misconfigured
from minutehand.historian.rebuild import RebuildSpec, rebuild
from minutehand.sdk.base import SchedulerBase
from minutehand.sdk.views import Rebuilt

_FAR = 200 * 365 * DAY  # ms ahead: no run is due later


class HistoryMethods(SchedulerBase):
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
        if not self._has_history:
            raise Misconfigured("MINUTEHAND_HISTORY=off: there is no history; switch it on first")
        after = to_ms(since, "since") - 1
        upto = self._clock() + _FAR if until is None else to_ms(until, "until")
        if after >= upto:
            raise InvalidInput("since", since, "leaves an empty interval", "give a time before until")
        spec = RebuildSpec(
            tenant=None if check_flag("all_tenants", all_tenants) else self.tenant,
            after=after,
            upto=upto,
            on_progress=on_progress or (lambda done: None),
            stop=stop,
        )
        done = rebuild(spec, self._services, clock=self._clock)
        return Rebuilt(runs=done.runs, added=done.added, corrected=done.corrected, stopped=done.stopped)
