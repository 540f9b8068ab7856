"""The list of dead runs: read it, and remove runs from it. Their rows stay in the ledger until the retention ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from quarterjack.concurrency.rate_limits import StopSignal
from quarterjack.domain.audit import AuditAct
from quarterjack.domain.history.dead_run import DeadRunRow, dead_run_row, parse_dead_key
from quarterjack.domain.run import FAILED, RunRow
from quarterjack.domain.times import DAY, MINUTE
from quarterjack.errors import Conflict, Unavailable
from quarterjack.fires.audit_entry import audit_entry
from quarterjack.fires.context import FireContext
from quarterjack.ports.services import Clock, Services
from quarterjack.state.transition import Absent, Compare, Condition, all_of
from quarterjack.stores.paging import ReadBudget, RowPage
from quarterjack.values import value

AHEAD = 10 * MINUTE  # a run that died by a worker's fast clock is listed too
LETTERS = 14 * DAY  # the longest that a letter can have waited for the undertaker
_UNITS = 150.0  # read units of one page of a listing: a day without dead runs takes one
_ROWS = 250  # lines of one query where most may not match: about 30 units
_REMOVED_AT_ONCE = 98  # lines: a transaction has 100 actions, and two are the audit's


@value(kw_only=True)
class DeadRunFilter:
    """Which dead runs; None matches all."""

    after: int  # UTC ms: those that died later
    upto: int  # UTC ms: and not later than this
    job: str | None = None
    schedule: str | None = None
    error_type: str | None = None
    redriven: bool = False  # also runs that were redriven already

    @property
    def clause(self) -> Condition | None:
        """The condition on a line of the index."""
        given = {"job": self.job, "schedule": self.schedule, "error_type": self.error_type}
        parts: list[Condition] = [Compare(name, "=", value) for name, value in given.items() if value is not None]
        if not self.redriven:
            parts.append(Absent("redriven_as"))
        return all_of(*parts) if parts else None


def oldest(now: int, services: Services) -> int:
    """No run that died earlier than this (UTC ms) is in the index."""
    return now - services.retention - LETTERS


def list_dead(
    tenant: str, wanted: DeadRunFilter, services: Services, *, limit: int, cursor: str | None, clock: Clock
) -> RowPage:
    """Dead runs, newest first; a cursor is the key of the last run, or how far back has been read. Raises Unavailable.

    Reads day by day until it has cost enough or taken ``PAGE_MS``, so a page may be short and not the last.
    """
    is_narrow = any(value is not None for value in (wanted.job, wanted.schedule, wanted.error_type))
    found: list[DeadRunRow] = []
    budget = ReadBudget(_UNITS, clock)
    queries = services.dead_index.pages(
        tenant,
        after=wanted.after,
        upto=wanted.upto,
        only=wanted.clause,
        before=cursor,
        rows=_ROWS if is_narrow else limit + 1,
        on_read=budget.spend,
    )
    for lines, reached in queries:
        found += lines
        if len(found) > limit:
            return RowPage(items=found[:limit], cursor=found[limit - 1].key)
        if budget.is_over and parse_dead_key(reached)[0] > wanted.after:
            return RowPage(items=found, cursor=reached)
    return RowPage(items=found)


def dead_runs(
    tenant: str, wanted: DeadRunFilter, services: Services, *, before: str | None = None
) -> Iterator[DeadRunRow]:
    """Dead runs, newest first, read lazily; ``before`` is a key to go on from."""
    index = services.dead_index
    return index.read(tenant, after=wanted.after, upto=wanted.upto, only=wanted.clause, before=before, page=None)


def purge(
    tenant: str, wanted: DeadRunFilter, context: FireContext, *, dry_run: bool, limit: int | None, stop: StopSignal
) -> int:
    """Remove dead runs from the index; how many. Their rows stay in the ledger until the retention ends."""
    lines, count = islice(dead_runs(tenant, wanted, context.services), limit), 0
    while batch := list(islice(lines, _REMOVED_AT_ONCE)):
        try:
            count += len(batch) if dry_run else _remove(tenant, batch, context)
        except Unavailable as problem:
            said = f"{count} dead runs are purged, the next were not accepted; call again to go on: {problem}"
            raise Unavailable(said) from problem
        if stop.wait(0):
            break
    return count


def purge_one(run: RunRow, context: FireContext, *, dry_run: bool) -> int:
    """Remove the line of one run; 0 if it has none. Raises Conflict unless it failed for good."""
    must_have_failed(run, "no list has it, so it need not be removed")
    line = dead_run_row(run)
    end = line.ended_at
    wanted = DeadRunFilter(after=end - 1, upto=end, job=run.job, redriven=True)
    found = [one for one in dead_runs(run.ref.tenant, wanted, context.services) if one.key == line.key]
    return len(found) if dry_run or not found else _remove(run.ref.tenant, found, context)


def must_have_failed(run: RunRow, remedy: str) -> None:
    """Raises Conflict, with the remedy, unless a run failed for good."""
    if run.state not in FAILED:
        raise Conflict(f"run_id={str(run.ref)!r}: it is {run.state}, not DEAD, LOST or EXPIRED; {remedy}")


def _remove(tenant: str, batch: Sequence[DeadRunRow], context: FireContext) -> int:
    """Remove some from the index, with an audit entry that names them; how many. Others may have removed some meanwhile."""
    audit = audit_entry(AuditAct.PURGE, tenant, context, runs=[str(dead.run) for dead in batch])
    if context.services.dead_index.remove(batch, audit):
        return len(batch)
    half = len(batch) // 2
    return _remove(tenant, batch[:half], context) + _remove(tenant, batch[half:], context) if half else 0
