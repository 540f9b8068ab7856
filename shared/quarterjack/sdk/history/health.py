"""SDK methods about what keeps runs from starting: the ticker, the tenant's freeze and suspension."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from quarterjack.domain.tenants.access import Verb
from quarterjack.domain.tenants.suspension import not_served
from quarterjack.domain.times import from_ms
from quarterjack.owner.freeze import read_freeze
from quarterjack.owner.ticker_health import TickerState, survey_ticks
from quarterjack.sdk.base import SchedulerBase

_READ = 20  # entries of each shard


@dataclass(frozen=True, kw_only=True)
class TickerStatus:
    """Whether the ticker of the installation keeps up, as its agenda shows it."""

    state: TickerState  # ON_TIME (nothing is late), SILENT (no tick for 150 s, nothing is late yet) or LATE (by 120 s at least)
    behind: timedelta  # since the oldest fire was due that no tick has handled; zero: none is late
    silent: timedelta  # for which a part of the agenda has seen no tick, at least; zero: nothing tells of that
    late: int  # fires that are due and not handled, as far as they were read
    failing: int  # entries whose handling failed, and is tried again, likewise


@dataclass(frozen=True, kw_only=True)
class FreezeView:
    """A freeze of the tenant that is not over."""

    until: datetime  # UTC
    since: datetime | None  # UTC: when it was made; None: unknown
    reason: str | None  # why
    actor: str | None  # who made it


@dataclass(frozen=True, kw_only=True)
class Holds:
    """What keeps all runs of the tenant from starting."""

    freeze: FreezeView | None  # None: it is not frozen
    suspended: str | None  # why nothing of the tenant is accepted and started, and what ends it; None: it is served

    def __bool__(self) -> bool:
        return self.freeze is not None or self.suspended is not None


class HealthMethods(SchedulerBase):
    def ticker(self) -> TickerStatus:
        """Whether the ticker of the installation, which all tenants share, runs and keeps up.

        A ticker that has nothing to do leaves no trace, and counts as on time. Costs a query for each shard of the agenda.
        Raises Unavailable, Misconfigured (a role of one tenant may not read the agenda).
        """
        self._permit_some(Verb.READ_INSTALLATION)
        found = survey_ticks(
            self.session.services,
            self.session.clock(),
            shards=self.session.services.agenda.layout().shards,
            limit=_READ,
        )
        return TickerStatus(
            state=found.state,
            behind=timedelta(milliseconds=found.behind),
            silent=timedelta(milliseconds=found.silent),
            late=sum(entry.due <= found.now for entry in found.waiting),
            failing=len(found.failing),
        )

    def holds(self) -> Holds:
        """What keeps all runs of the tenant from starting, and why: a freeze, a suspension. Raises Unavailable."""
        self._permit_some(Verb.READ_SCHEDULES)
        freeze = read_freeze(self.tenant, self.session.services, self.session.clock)
        view = None
        if freeze is not None:
            since = from_ms(freeze.created_at) if freeze.created_at else None
            view = FreezeView(until=from_ms(freeze.until), since=since, reason=freeze.reason, actor=freeze.actor)
        governance = self.session.services.tenants.governance(self.tenant, self.session.clock())
        return Holds(freeze=view, suspended=not_served(governance))
