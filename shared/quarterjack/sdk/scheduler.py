"""The SDK: one class with the methods of the other modules of this folder, and the freeze of a tenant."""

from __future__ import annotations

from datetime import datetime

from quarterjack.domain.tenants.access import Verb
from quarterjack.domain.times import DAY, from_ms, to_ms
from quarterjack.errors import InvalidInput
from quarterjack.owner import freeze as freezing
from quarterjack.owner.freeze import read_freeze
from quarterjack.sdk.backfills import BackfillMethods
from quarterjack.sdk.bulk import BulkMethods
from quarterjack.sdk.dead import DeadRunMethods
from quarterjack.sdk.declarations.declared import DeclarationMethods
from quarterjack.sdk.forecasts.forecast import ForecastMethods
from quarterjack.sdk.history.archive import ArchiveMethods
from quarterjack.sdk.history.audit import AuditMethods
from quarterjack.sdk.history.backfills import BackfillListMethods
from quarterjack.sdk.history.finding import FindMethods
from quarterjack.sdk.history.health import HealthMethods
from quarterjack.sdk.history.run_logs import LogMethods
from quarterjack.sdk.history.statistics import HistoryMethods
from quarterjack.sdk.history.why import WhyMethods
from quarterjack.sdk.reading import ReadMethods
from quarterjack.sdk.resending import ResendMethods
from quarterjack.sdk.runs import RunMethods

LONGEST_FREEZE = 400  # days; to stop schedules for longer, pause or delete them


class Scheduler(
    DeclarationMethods,
    BulkMethods,
    ReadMethods,
    ForecastMethods,
    RunMethods,
    FindMethods,
    HistoryMethods,
    BackfillMethods,
    BackfillListMethods,
    DeadRunMethods,
    ArchiveMethods,
    WhyMethods,
    LogMethods,
    ResendMethods,
    HealthMethods,
    AuditMethods,
):
    """One tenant's schedules and runs.

    ``settings`` (default: from the environment) say where the tables and queues are; ``endpoint`` and ``prefix`` override two
    of them. ``jobs`` is a Registry or the name of a package to load; None: the jobs that ``@job`` registered in this process.
    A job that is neither among these nor known to any worker is accepted with an UnknownJobWarning; with ``strict=True`` it is refused.
    ``patience``: seconds for which a call waits where the tenant's rate is used up, before it raises Throttled.
    ``actor`` (default: QUARTERJACK_ACTOR) is whom the application acts for, e.g. "alice@acme": the audit has it beside the IAM identity
    of the process. ``via`` is the way by which acts come: "sdk", "cli", "apply", "api" or "console".

    Any number of threads may share one: make it once, beside the application's other clients. A forked child may use its parent's.
    Its calls block: coroutines use ``AsyncScheduler``.
    """

    def freeze(self, until: datetime, *, reason: str | None = None) -> None:
        """Start no run of this tenant before ``until`` (aware, at most 400 days ahead), neither of schedules nor one-offs.

        Running attempts continue; retries wait, too. A run that starts more than 5 s after this call has returned means that its
        worker process stalled. Runs that become due during the freeze start afterwards, late, unless their deadline has passed; to
        skip the fires of a schedule, pause it instead. ``reason`` is shown wherever runs wait for the freeze, and in the audit; left
        out, that of ``acting_as`` counts. A second freeze replaces the first. Raises InvalidInput, Unavailable (call
        again: nothing is guaranteed until the call returns).
        """
        self._permit(Verb.FREEZE)
        now, end = self.session.clock(), to_ms(until, "until")
        if not now < end <= now + LONGEST_FREEZE * DAY:
            raise InvalidInput(
                "until", until, "is not ahead, or too far", f"give a moment within the next {LONGEST_FREEZE} days"
            )
        reason = None if reason is None else self._text("reason", reason)
        freezing.freeze(self.tenant, end, reason, self._context)

    def thaw(self) -> None:
        """End the freeze now, if there is one. Runs that it delayed start within five minutes. Raises Unavailable."""
        self._permit(Verb.FREEZE)
        freezing.thaw(self.tenant, self._context)

    def frozen(self) -> datetime | None:
        """The end of the freeze (UTC), or None if there is no freeze. Raises Unavailable."""
        self._permit_some(Verb.READ_SCHEDULES)
        freeze = read_freeze(self.tenant, self.session.services, self.session.clock)
        return None if freeze is None else from_ms(freeze.until)
