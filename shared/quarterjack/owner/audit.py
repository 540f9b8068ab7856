"""List the audit's entries, newest first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from quarterjack.domain.audit import AuditAct, AuditEntryRow
from quarterjack.domain.tenants.caller import CLAIMED
from quarterjack.domain.times import DAY, STAMP_DIGITS, stamp
from quarterjack.ports.services import Clock, Services
from quarterjack.state.transition import Compare, Condition, all_of, any_of
from quarterjack.stores.paging import ReadBudget, RowPage

_UNITS = 150.0  # read units of one page of a listing: a day without entries takes one
_ROWS = 250  # of one query where not all may match: about 30 units
_BEYOND = "$"  # sorts after all entries of an instant


@dataclass(frozen=True, kw_only=True)
class AuditFilter:
    """Which entries; None matches all."""

    since: int  # UTC ms, inclusive
    until: int  # UTC ms, inclusive
    schedule: str | None = None
    actor: str | None = (
        None  # as it is stored, or without its `app:`; an IAM identity matches those beside a claimed actor, too
    )
    act: AuditAct | None = None
    run: str | None = None  # id
    call: str | None = None

    @property
    def clause(self) -> Condition | None:
        """The condition on an entry's row."""
        plain = {"schedule": self.schedule, "act": self.act, "object": self.run, "call": self.call}
        parts: list[Condition] = [Compare(name, "=", str(value)) for name, value in plain.items() if value is not None]
        if self.actor is not None:
            names = ("actor", self.actor), ("actor", CLAIMED + self.actor), ("identity", self.actor)
            parts.append(any_of(*(Compare(attribute, "=", name) for attribute, name in names)))
        return all_of(*parts) if parts else None


def list_entries(
    tenant: str, wanted: AuditFilter, services: Services, *, limit: int, cursor: str | None, clock: Clock | None = None
) -> RowPage:
    """A page of entries, newest first; a cursor is the key of the last entry, or how far back has been read.

    Reads day by day until it has cost enough or, with a clock, taken ``PAGE_MS``, so a page may be short and not the last. Raises
    Unavailable.
    """
    found: list[AuditEntryRow] = []
    budget = ReadBudget(_UNITS, clock)
    for entries, reached in _queries(tenant, wanted, services, limit, cursor, budget):
        found += entries
        if len(found) > limit:
            return RowPage(items=found[:limit], cursor=found[limit - 1].key)
        if budget.is_over and reached is not None:
            return RowPage(items=found, cursor=reached)
    return RowPage(items=found)


def _queries(
    tenant: str, wanted: AuditFilter, services: Services, limit: int, cursor: str | None, budget: ReadBudget
) -> Iterator[tuple[list[AuditEntryRow], str | None]]:
    """Of each query the entries, and the key down to which all entries have been read; None at the end."""
    first, last, only = stamp(wanted.since), cursor or stamp(wanted.until) + _BEYOND, wanted.clause
    day, rows, seen = int(last[:STAMP_DIGITS]) // DAY, limit + 2 if only is None else _ROWS, cursor
    while day >= (oldest := wanted.since // DAY):
        page = services.audit.page(tenant, day, first=first, last=last, only=only, limit=rows, on_read=budget.spend)
        entries = [entry for entry in page.items if entry.key != seen]
        if page.cursor is not None:
            last = seen = page.cursor  # the next query begins with the row that this one ended with
        else:
            day, last, seen = day - 1, stamp(day * DAY - 1 if day else 0) + _BEYOND, None
        yield entries, last if day >= oldest else None
