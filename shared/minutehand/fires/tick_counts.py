"""What handling agenda entries did: counts for the metrics, and the two ways in which an entry is not done."""

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
    """What became of the missed fires of one schedule."""

    tenant: str  # whose
    schedule: str  # its name
    late: int  # fires that are run late
    skipped: int  # fires that its policy passed over


@dataclass(kw_only=True)
class TickCounts:
    """Counts of what handling entries did."""

    entries: int = 0  # looked at
    done: int = 0  # gone from the agenda
    claimed: int = 0  # runs created
    taken_over: int = 0  # runs taken over from an older revision
    sent: int = 0  # messages accepted
    resent: int = 0  # of these, for runs that were there already
    lost: int = 0  # at-most-once runs declared LOST
    completed: int = 0  # schedules without a further fire
    missed: int = 0  # fires claimed more than a minute late
    skipped: int = 0  # missed fires that their schedules' policies passed over
    held: int = 0  # entries held back because the workers of their queues do not get on
    left: int = 0  # entries left for later because something was not answered
    failed: int = 0  # entries that failed for a reason of their own
    quarantined: int = 0  # of these, moved aside
    cut: int = 0  # chains with more due than one step takes
    lag: int = 0  # ms from a fire's time to the acceptance of its message: the largest
    failures: list[tuple[AgendaEntry, Exception]] = field(
        default_factory=list
    )  # of entries, for the caller to count on them
    told: int = 0  # notices
    incidents: int = 0  # that began because no run succeeded in time
    recovered: int = 0  # incidents that are over
    deaf: list[str] = field(default_factory=list)  # topics that could not be told
    misses: list[MissedFires] = field(default_factory=list)  # schedules with missed fires

    def add(self, other: TickCounts) -> None:
        for name, value in vars(other).items():
            mine = getattr(self, name)
            setattr(self, name, max(mine, value) if name == "lag" else mine + value)

    def failed_at(self, entry: AgendaEntry, problem: Exception) -> None:
        """An entry stays: for a failure of its own it is counted, for the cloud's or a later release's it is only left."""
        if isinstance(problem, (TooNew, Unavailable)):  # later, and never quarantined for it
            self.left += 1
            log.warning("entry.left", extra={"entry": entry.key, "error": str(problem)})
        else:
            self.failures.append((entry, problem))

    def made(self, made: MaterialiseResult) -> None:
        """Fires were claimed and sent."""
        self.claimed += made.claimed
        self.taken_over += made.taken_over
        self.sent += made.sent
        self.resent += made.resent
        self.lag = max(self.lag, made.lag)

    def missing(self, miss: MissedFires) -> None:
        """A schedule had missed fires."""
        self.missed += miss.late
        self.skipped += miss.skipped
        self.misses.append(miss)

    def remove(self, entries: Sequence[AgendaEntry], services: Services) -> None:
        """All of these is done: they go."""
        if entries:
            self.done += len(services.agenda.remove(entries))
