"""Counts of handled agenda entries, for the metrics; an entry that was not done is either left or failed."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from minutehand.domain.agenda_entry import AgendaEntry
from minutehand.errors import TooNew, Unavailable
from minutehand.fires.claim import MaterialiseResult
from minutehand.ports.services import Services

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class MissedFires:
    """The missed fires of one schedule."""

    tenant: str
    schedule: str
    late: int  # fires that are run late
    skipped: int  # fires that its policy skipped


@dataclass(kw_only=True)
class TickCounts:
    """Counts of handled entries."""

    entries: int = 0  # read
    done: int = 0  # removed from the agenda
    claimed: int = 0  # runs created
    taken_over: int = 0  # runs taken over from an older revision
    sent: int = 0  # messages accepted
    resent: int = 0  # of these, for runs that existed already
    lost: int = 0  # at-most-once runs declared LOST
    completed: int = 0  # schedules without a further fire
    missed: int = 0  # fires claimed more than a minute late
    skipped: int = 0  # missed fires that their schedules' policies skipped
    held: int = 0  # entries held back by backpressure
    left: int = 0  # entries left for later because a call got no response
    failed: int = 0  # entries that failed by themselves
    quarantined: int = 0  # of these, moved aside
    cut: int = 0  # chains with more due fires than one plan takes
    lag: int = 0  # ms from a fire's time to the acceptance of its message: the largest
    failures: list[tuple[AgendaEntry, Exception]] = field(
        default_factory=list
    )  # for the caller to count on the entries
    told: int = 0  # notices delivered
    incidents: int = 0  # that began because no run succeeded in time
    recovered: int = 0  # incidents that are over
    deaf: list[str] = field(default_factory=list)  # topics whose publication failed
    misses: list[MissedFires] = field(default_factory=list)  # schedules with missed fires

    def add(self, other: TickCounts) -> None:
        for name, value in vars(other).items():
            mine = getattr(self, name)
            setattr(self, name, max(mine, value) if name == "lag" else mine + value)

    def failed_at(self, entry: AgendaEntry, problem: Exception) -> None:
        """An entry stays. Its own failure is counted on it; if a service failed or a later release wrote it, it is only left."""
        if isinstance(problem, (TooNew, Unavailable)):
            self.left += 1
            log.warning("entry.left", extra={"entry": entry.key, "error": str(problem)})
        else:
            self.failures.append((entry, problem))

    def made(self, made: MaterialiseResult) -> None:
        """Add the result of claims."""
        self.claimed += made.claimed
        self.taken_over += made.taken_over
        self.sent += made.sent
        self.resent += made.resent
        self.lag = max(self.lag, made.lag)

    def missing(self, miss: MissedFires) -> None:
        """Add the missed fires of a schedule."""
        self.missed += miss.late
        self.skipped += miss.skipped
        self.misses.append(miss)

    def remove(self, entries: Sequence[AgendaEntry], services: Services) -> None:
        """Remove handled entries from the agenda."""
        if entries:
            self.done += len(services.agenda.remove(entries))
