"""Gates: what keeps entries of the agenda back for a later tick. A tick, or an owner's call, asks each of its gates in turn.

    entries ──► Gate.admit ──► Gate.admit ──► … ──► plan each chain within ``limit`` ──► claim and send

An entry that is held back does not change. So a gate that cannot decide admits, and a crash within one makes runs late at the most.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

from quarterjack.domain.run import AgendaEntry
from quarterjack.values import value


@value()
class PlanLimit:
    """How far the plan of an admitted chain goes."""

    fires: int | None = None  # at most so many; None: all that are due
    until: int | None = None  # due up to then (UTC ms); None: as far as a plan goes

    def and_also(self, other: PlanLimit) -> PlanLimit:
        """The narrower of both."""
        fires = [limit for limit in (self.fires, other.fires) if limit is not None]
        until = [limit for limit in (self.until, other.until) if limit is not None]
        return PlanLimit(min(fires, default=None), min(until, default=None))


UNLIMITED = PlanLimit()


class Gate(ABC):
    """One reason to hold entries back. Thread-safe; raises nothing."""

    @abstractmethod
    def admit(self, entries: Sequence[AgendaEntry]) -> Sequence[AgendaEntry]:
        """The entries that may be handled now, in their order; the others stay in the agenda."""

    def limit(self, entry: AgendaEntry) -> PlanLimit:
        """How far the plan of an admitted chain may go now; without a limit, unless a gate says otherwise."""
        del entry
        return UNLIMITED

    def has_held(self, tenant: str, job: str, due: int) -> bool:
        """Whether a fire that is claimed now, and was due then (UTC ms), started late on purpose, because this gate held it back."""
        del tenant, job, due
        return False


def admitted(gates: Iterable[Gate], entries: Sequence[AgendaEntry]) -> Sequence[AgendaEntry]:
    """The entries that every gate admits; a gate sees only what those before it admit."""
    for gate in gates:
        entries = gate.admit(entries)
    return entries


def plan_limit(gates: Iterable[Gate], entry: AgendaEntry) -> PlanLimit:
    """The narrowest limit of all gates."""
    limit = UNLIMITED
    for gate in gates:
        own = gate.limit(entry)
        if own is not UNLIMITED:
            limit = limit.and_also(own)
    return limit
