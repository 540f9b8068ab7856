"""A walk: one kind of check that goes through a table in bounded steps, and what all walks of an audit share.

audit ──► walk ──► step, step, step … until the walk's share of the time is over; the next audit continues there

``Bookmark`` is the record of where each walk stopped.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Protocol

from quarterjack.domain.tenants.agenda_layout import AgendaLayout
from quarterjack.domain.times import SECOND
from quarterjack.errors import QuarterjackError
from quarterjack.fires.context import FireContext
from quarterjack.ports.services import Clock, Services
from quarterjack.stores.records import Record

log = logging.getLogger(__name__)

OWNER, KEY = "~quarterjack/~audit", "~progress"  # no tenant's: `~` begins no name
_OFTEN = 30 * SECOND  # between two writes of one audit: about as much work as a killed function loses


@dataclass(kw_only=True)
class Progress:
    """Cursors are those of the stores; "" is the beginning."""

    heads: str = ""  # chains: cursor of the batch of schedules that is compared with the agenda
    shard: int = 0  # chains: shard of the agenda that the batch is compared with next
    tidied: int = 0  # entries: shard to tidy next
    runs: str = ""  # recent runs: cursor of the schedules to check next
    began: int = 0  # recent runs: when the present round began; UTC ms, 0: never
    since: int = 0  # recent runs: when the round before it began
    segment: int = 0  # ledger: first part to read next
    parts: dict[str, str] = field(default_factory=dict)  # ledger: cursors of the parts that are not at their end
    removing: str = ""  # payloads: key of the last one that was checked; "": no removal is under way


class Bookmark:
    """The progress of one audit and its record. If another audit replaces the record, that audit's progress stays."""

    def __init__(self, services: Services, clock: Clock) -> None:
        self._services, self._clock = services, clock
        self.progress, self._version = _read(services)
        self._saved = clock()

    def save_often(self) -> None:
        """Write the record, unless it was written a short while ago."""
        if self._clock() - self._saved >= _OFTEN:
            self.save()

    def save(self) -> None:
        record = Record(owner=OWNER, key=KEY, version=self._version + 1, body=asdict(self.progress))
        self._saved = self._clock()
        try:
            if self._services.records.write(record):
                self._version += 1
        except QuarterjackError as problem:
            log.warning("audit.progress_not_written", extra={"error": str(problem)})


def _read(services: Services) -> tuple[Progress, int]:
    """The progress and the version of its record. A record that cannot be read costs an audit from the beginning, and no more."""
    try:
        record = services.records.read(OWNER, KEY)
    except QuarterjackError as problem:
        log.warning("audit.progress_not_read", extra={"error": str(problem)})
        return Progress(), 0
    return (Progress(), 0) if record is None else (_parsed(record.body), record.version)


def _parsed(body: Mapping[str, object]) -> Progress:
    known = asdict(Progress())
    fit = {name: value for name, value in body.items() if name in known and type(value) is type(known[name])}
    return Progress(**fit)  # type: ignore[arg-type]


@dataclass(kw_only=True)
class AuditReport:
    """Counts of one audit."""

    schedules: int = 0  # ACTIVE heads whose chains were checked
    rearmed: int = 0  # without a chain, or paused beyond the end of the pause: their agenda entry put again
    unclaimed: int = 0  # fires of the recent past without a run: claimed now, or skipped by their policy
    moved: int = 0  # runs at instants that are no fires any more, as the rules of a time zone changed: only reported
    resent: int = 0  # runs waiting or running long past their time: sent again
    quarantined: int = 0  # entries that were moved aside, are needed, and wait for an operator
    tidied: int = 0  # entries of closed revisions that lay beyond their end: removed
    resharded: int = 0  # chains that went to another shard, because the layout of the agenda has changed
    failed: int = 0  # schedules, shards and runs that could not be audited
    stopped: int = 0  # 1: its time was over before it was through; the next audit continues there
    removed: int = 0  # large payloads that nothing needs any more: removed
    retired: int = 0  # schedules deleted a retention ago: only their numbering is kept
    revisions: int = 0  # of these: removed
    overdue: int = 0  # runs of any age and kind, in this hour's part of the ledger, long past their time: sent again


@dataclass(kw_only=True)
class Round:
    """Shared by the walks of one audit."""

    context: FireContext
    layout: AgendaLayout
    report: AuditReport
    progress: Progress
    until: int | None = None  # UTC ms at which the share of the present walk is over; None: never

    @property
    def services(self) -> Services:
        return self.context.services

    @property
    def clock(self) -> Clock:
        return self.context.clock

    def is_over(self) -> bool:
        return self.until is not None and self.clock() >= self.until

    def guarded(self, ids: Mapping[str, str], check: Callable[[], None]) -> None:
        """Run a check. Its failure is counted and logged with ``ids``, and stops no other check."""
        try:
            check()
        except Exception as problem:  # noqa: BLE001 (any failure: the other schedules are audited all the same)
            self.report.failed += 1
            log_failure(ids, problem)


class Walk(Protocol):
    """One kind of check."""

    share: int  # percent of an audit's time

    def step(self) -> bool:
        """One bounded piece; whether the walk has nothing left to do in this audit. Raises Unavailable."""


def log_failure(ids: Mapping[str, str], problem: Exception) -> None:
    log.error("audit.failed", extra={**ids, "error": f"{type(problem).__name__}: {problem}"})
