"""SDK methods about what keeps all runs of a tenant from starting: its freeze, its suspension."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from quarterjack.domain.tenants.access import Verb, not_served
from quarterjack.domain.times import DAY, from_ms, to_ms
from quarterjack.errors import InvalidInput
from quarterjack.owner import freeze as freezing
from quarterjack.owner.freeze import read_freeze
from quarterjack.sdk.base import SchedulerBase

LONGEST_FREEZE = 400  # days; to stop schedules for longer, pause or delete them


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


class FreezeMethods(SchedulerBase):
    def freeze(self, until: datetime, *, reason: str | None = None) -> None:
        """Start no run of this tenant before ``until`` (aware, at most 400 days ahead), neither of schedules nor one-offs.

        Running attempts continue; retries wait, too. A run that starts more than 5 s after this call has returned means that its
        worker process stalled. Runs that become due during the freeze start afterwards, late, unless their deadline has passed; to
        skip the fires of a schedule, pause it instead. ``reason`` is shown wherever runs wait for the freeze, and in the audit; left
        out, that of ``acting_as`` counts. A second freeze replaces the first. Raises InvalidInput, Unavailable (call
        again: nothing is guaranteed until the call returns).
        """
        self._access.check(Verb.FREEZE)
        now, end = self.session.clock(), to_ms(until, "until")
        if not now < end <= now + LONGEST_FREEZE * DAY:
            raise InvalidInput(
                "until", until, "is not ahead, or too far", f"give a moment within the next {LONGEST_FREEZE} days"
            )
        reason = None if reason is None else self._text("reason", reason)
        freezing.freeze(self.tenant, end, reason, self._context)

    def thaw(self) -> None:
        """End the freeze now, if there is one. Runs that it delayed start within five minutes. Raises Unavailable."""
        self._access.check(Verb.FREEZE)
        freezing.thaw(self.tenant, self._context)

    def frozen(self) -> datetime | None:
        """The end of the freeze (UTC), or None if there is no freeze. Raises Unavailable."""
        self._access.check_some(Verb.READ_SCHEDULES)
        freeze = read_freeze(self.tenant, self.session.services, self.session.clock)
        return None if freeze is None else from_ms(freeze.until)

    def holds(self) -> Holds:
        """What keeps all runs of the tenant from starting, and why: a freeze, a suspension. Raises Unavailable."""
        self._access.check_some(Verb.READ_SCHEDULES)
        freeze = read_freeze(self.tenant, self.session.services, self.session.clock)
        view = None
        if freeze is not None:
            since = from_ms(freeze.created_at) if freeze.created_at else None
            view = FreezeView(until=from_ms(freeze.until), since=since, reason=freeze.reason, actor=freeze.actor)
        governance = self.session.services.tenants.governance(self.tenant, self.session.clock())
        return Holds(freeze=view, suspended=not_served(governance))
