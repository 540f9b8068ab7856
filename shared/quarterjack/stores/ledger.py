"""The ledger: claims, transitions and reads of runs."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import islice
from typing import Any

from quarterjack.domain.audit import AuditEntryRow
from quarterjack.domain.names import RunRef
from quarterjack.domain.run import WAITING, AgendaEntry, RunRow, RunState
from quarterjack.domain.times import stamp
from quarterjack.errors import Unavailable, Unreadable
from quarterjack.state.transition import OneOf, Transition, holds, in_state
from quarterjack.stores.agenda import entry_delete, entry_put
from quarterjack.stores.audit import transact
from quarterjack.stores.paging import RowPage
from quarterjack.stores.rows import OnUnread, claim_row, passed_over, readable_runs, run_key, run_of, run_ref
from quarterjack.stores.siblings import new_run, payload_ref
from quarterjack.stores.tables import (
    RUNS,
    Answer,
    Row,
    RowQuery,
    RowTables,
    RowWrite,
    put_new,
)
from quarterjack.values import value

log = logging.getLogger(__name__)

Moves = Sequence[tuple[RunRef, Transition]]

_FIRST, _LAST = stamp(0), stamp(10**15 - 1)
_BEYOND = "\x7f"  # sorts after all rows of an instant: fires, triggers, backfills
_FEW = 5  # rows of a query for the latest runs
_SUCCESSES = 100  # rows of a query for a success
_IS_OPEN = OneOf("state", tuple(sorted(WAITING | {RunState.RUNNING})))


@value(kw_only=True)
class ClaimResult:
    """The answer to claims. A ref in none of the three was not answered."""

    created: frozenset[RunRef] = frozenset()
    existing: Mapping[RunRef, RunRow] = field(default_factory=dict)  # created earlier
    unreadable: frozenset[RunRef] = frozenset()  # created earlier, as a row that this release cannot read as a run


@value(kw_only=True)
class BatchReadResult:
    """The answer to a batch read: a ref that is neither found nor unanswered has no row."""

    found: Mapping[RunRef, RunRow] = field(default_factory=dict)
    unanswered: frozenset[RunRef] = frozenset()  # or its row cannot be read as a run by this release


@value(kw_only=True)
class TransitionResult:
    """The answer to one transition: whether it was applied, and the row as it is now (None: there is none)."""

    applied: bool
    run: RunRow | None


class Ledger:
    """The runs of all tenants. An owner is "tenant/name" of a schedule, or a tenant's owner of one-offs.

    ``retention``: milliseconds for which ended runs stay.
    """

    def __init__(self, tables: RowTables, *, retention: int) -> None:
        self._tables, self._retention = tables, retention

    # Claims.

    def claim(self, runs: Sequence[RunRow]) -> ClaimResult:
        """Put each run unless its key exists."""
        claims = [put_new(RUNS, claim_row(run, self._retention)) for run in runs]
        answers = self._tables.write_all("claim", claims, pooled=True)
        created, existing, unreadable = set(), {}, set()
        for ref, row in self._with_stored_rows({runs[i].ref: answer for i, answer in answers.items()}).items():
            try:
                if row is None:
                    created.add(ref)
                else:
                    existing[ref] = run_of(row)
            except Unreadable:
                unreadable.add(ref)
        return ClaimResult(created=frozenset(created), existing=existing, unreadable=frozenset(unreadable))

    def put(self, run: RunRow, audit: AuditEntryRow, *, within: RunRef | None = None) -> RunRow | None:
        """Put a run as ``claim`` does, with the audit entry of the act: None, or the run that exists.

        ``within``: a run that must not have ended; if it has, nothing is written, and it is returned. Raises Unreadable.
        """
        writes = [put_new(RUNS, claim_row(run, self._retention))]
        if within is not None:
            writes.append(RowWrite(table=RUNS, row=run_key(within), only_if=_IS_OPEN, kind="check"))
        if transact(self._tables, "claim", writes, f"run {run.ref}", audit):
            return None
        row = self._tables.get("claimed", RUNS, **run_key(run.ref))
        if row is None and within is not None and (ended := self.read(within)) is not None and ended.is_terminal:
            return ended
        if row is None:
            raise Unavailable(f"run {run.ref} is being written by another process; try again")
        return run_of(row)

    def _with_stored_rows(self, answers: Mapping[RunRef, Answer]) -> dict[RunRef, Row | None]:
        """The rows that refused claims, None for those that were applied. Some engines refuse without the row: it is read."""
        unknown = [ref for ref, (applied, row) in answers.items() if not applied and row is None]
        stored = self._read_all("claimed", unknown)[0] if unknown else {}
        known = {ref: None if applied else row for ref, (applied, row) in answers.items() if ref not in unknown}
        return known | stored

    def submit(self, run: RunRow, audit: AuditEntryRow | None = None) -> RunRow | None:
        """Put a one-off with its payload, and the ``audit`` of the act, unless its key exists: None, or the run that exists."""
        writes = new_run(run)
        if len(writes) > 1 or audit is not None:
            applied = transact(self._tables, "submit", writes, f"run {run.ref}", audit)
        else:
            applied, _ = self._tables.write("submit", *writes)
        if applied:
            return None
        existing = self.read(run.ref)
        if existing is None:
            raise Unavailable(f"run {run.ref} is being written by another process; try again")
        return existing

    # Transitions.

    def move(self, ref: RunRef, transition: Transition, audit: AuditEntryRow | None = None) -> TransitionResult:
        """Apply one transition. A write whose response was lost counts as applied if the row shows it.

        With the ``audit`` of an act it is a transaction, and the row is read after it.
        """
        applied, row = self._moved(ref, transition, audit)
        if applied and row and "payload_beside" in row and "ttl" in transition.changes:
            expiry = run_key(payload_ref(ref)) | {"ttl": row["ttl"]}  # the payload is deleted with its run
            self._tables.write("expire_payload", RowWrite(table=RUNS, row=expiry))
        return _result(transition, (applied, row))

    def reschedule(
        self, ref: RunRef, transition: Transition, *, put: AgendaEntry, remove: AgendaEntry, audit: AuditEntryRow
    ) -> TransitionResult:
        """Apply a transition and replace the agenda entry of the run, in one transaction; the row is read after it."""
        writes = [_write(ref, transition), entry_put(put), entry_delete(remove)]
        applied = transact(self._tables, transition.name, writes, f"run {ref}", audit)
        return _result(transition, (applied, self._whole("moved", ref)))

    def _moved(self, ref: RunRef, transition: Transition, audit: AuditEntryRow | None) -> Answer:
        if audit is None:
            return self._tables.write(transition.name, _write(ref, transition), returning=True)
        applied = transact(self._tables, transition.name, [_write(ref, transition)], f"run {ref}", audit)
        return applied, self._whole("moved", ref)  # a transaction returns no row

    def move_all(self, moves: Moves) -> Mapping[RunRef, bool]:
        """Apply transitions in batches: True applied, False refused, absent not answered.

        Raises TypeError for a transition that PartiQL cannot express: alternatives in its guard, or a change that depends on the row.
        """
        return {
            moves[i][0]: applied or (row is not None and holds(moves[i][1].already, row))
            for i, (applied, row) in self._write_all(moves).items()
        }

    def lease_all(self, leases: Moves, *, known: Collection[RunRef] = ()) -> Mapping[RunRef, TransitionResult]:
        """Take leases of runs in batches; each must be its run's ``first``. A ref that is absent from the result was not answered.

        For ``known`` runs the row may be missing from an applied result; a refusal always has it. Raises TypeError as ``move_all``.
        """
        result = {}
        for i, answer in self._write_all(leases, known=known, returning=True).items():
            ref, lease = leases[i]
            try:
                if answer[0] and (ref in known or not answer[1]):  # some engines do not return the row
                    result[ref] = TransitionResult(applied=True, run=None if ref in known else self.read(ref))
                else:
                    result[ref] = _result(lease, answer)
            except Unreadable as problem:  # the leases of the other runs are taken, and must be known
                log.error("run.unreadable", extra={"run_id": str(ref), "error": str(problem)})
        return result

    def _write_all(
        self, moves: Moves, *, known: Collection[RunRef] = (), returning: bool = False
    ) -> Mapping[int, Answer]:
        wanted = {i for i, (ref, _) in enumerate(moves) if ref not in known} if returning else set()
        verb = moves[0][1].name if moves else ""
        return self._tables.write_all(verb, [_write(*move) for move in moves], returning=wanted)

    # Reads.

    def read(self, ref: RunRef) -> RunRow | None:
        """One run with its payload; None if there is none."""
        row = self._whole("read", ref)
        return None if row is None else run_of(row)

    def _whole(self, verb: str, ref: RunRef) -> Row | None:
        """A run's row with the payload that lies beside it."""
        row = self._tables.get(verb, RUNS, **run_key(ref))
        if row is None or "payload_beside" not in row:
            return row
        return _with_payload(row, self._tables.get("read_payload", RUNS, **run_key(payload_ref(ref))))

    def look(self, refs: Sequence[RunRef], *, whole: bool = False) -> BatchReadResult:
        """Runs in batches; with the payloads in sibling rows if ``whole``, which are a second batch where there are any."""
        rows, unread = self._read_all("look", list(dict.fromkeys(refs)))
        beside = [ref for ref, row in rows.items() if "payload_beside" in row] if whole else []
        if beside:
            siblings, left = self._read_all("look_payloads", [payload_ref(ref) for ref in beside])
            for ref in beside:
                rows[ref] = _with_payload(rows[ref], siblings.get(payload_ref(ref)))
            unread |= {ref for ref in beside if payload_ref(ref) in left}
            rows = {ref: row for ref, row in rows.items() if ref not in unread}
        found = {run.ref: run for run in readable_runs(rows.values())}
        return BatchReadResult(found=found, unanswered=frozenset(rows.keys() - found.keys()) | unread)

    def _read_all(self, verb: str, refs: Sequence[RunRef]) -> tuple[dict[RunRef, Row], frozenset[RunRef]]:
        rows, unread = self._tables.read(verb, RUNS, [run_key(ref) for ref in refs])
        return {run_ref(row): row for row in rows}, frozenset(map(run_ref, unread))

    # Listings.

    def never_leased(self, owner: str, *, after: int | None) -> Iterator[RunRow]:
        """QUEUED runs of a schedule with fires in ``(after, upto]`` (UTC ms; None: unbounded), oldest first."""
        return self._runs("never_leased", owner, after, None, only=in_state(RunState.QUEUED))

    def window(self, owner: str, *, after: int, upto: int) -> Iterator[RunRow]:
        """All runs of a schedule with fires in ``(after, upto]``, oldest first."""
        return self._runs("window", owner, after, upto)

    def latest(self, owner: str, *, upto: int) -> Iterator[RunRow]:
        """Runs of a schedule with fires up to ``upto`` (UTC ms), newest first. Pages are read as the iterator advances."""
        return self._runs("latest", owner, None, upto, newest_first=True, limit=_FEW)

    def succeeded(self, owner: str, *, after: int, upto: int) -> Iterator[RunRow]:
        """SUCCEEDED runs of a schedule with fires in ``(after, upto]``, newest first. Pages are read as the iterator advances."""
        only = in_state(RunState.SUCCEEDED)
        return self._runs("succeeded", owner, after, upto, only=only, newest_first=True, limit=_SUCCESSES)

    def page(
        self, owner: str, *, after: int | None, upto: int | None, limit: int, cursor: str | None, newest_first: bool
    ) -> RowPage:
        """One page of a schedule's runs in order of fire time. ``cursor`` is the key of the last run that was read."""
        # Rows of a run's payload or result lie elsewhere: so many rows are so many runs.
        span = {"newest_first": newest_first, "after": cursor, "limit": limit + 1}
        rows = self._between("page", owner, (after, upto), **span)
        taken = list(islice(rows, limit + 1))
        more = taken[limit - 1]["key"] if len(taken) > limit else None
        return RowPage(items=list(readable_runs(taken[:limit])), cursor=more)

    def last_runs(
        self, owners: Sequence[str], *, upto: int, limit: int, on_unread: OnUnread = passed_over
    ) -> Mapping[str, Sequence[RunRow]]:
        """Of each schedule the last runs that were due by ``upto`` (UTC ms), newest first: a query each, all at the same time.

        Eventually consistent: a run's last change within a second may be missing. ``on_unread``: as for `readable`. Raises Unavailable.
        """
        how: dict[str, Any] = {"first": _FIRST, "last": stamp(upto) + _BEYOND, "newest_first": True}
        queries = [RowQuery(table=RUNS, partition=owner, limit=limit, eventual=True, **how) for owner in owners]
        found = self._tables.first_pages("last_runs", queries) if queries else []
        return {owner: list(readable_runs(rows, on_unread)) for owner, (rows, _) in zip(owners, found, strict=True)}

    def _runs(self, verb: str, owner: str, after: int | None, upto: int | None, **how: Any) -> Iterator[RunRow]:
        return readable_runs(self._between(verb, owner, (after, upto), **how))

    def _between(self, verb: str, owner: str, span: tuple[int | None, int | None], **how: Any) -> Iterator[Row]:
        """Rows of an owner with fires in ``(after, upto]``; ``how`` are further fields of the query."""
        after, upto = span
        first = _FIRST if after is None else stamp(after) + _BEYOND
        last = (_LAST if upto is None else stamp(upto)) + _BEYOND
        if first > last:
            return iter(())
        return self._tables.rows(verb, RowQuery(table=RUNS, partition=owner, first=first, last=last, **how))


def _write(ref: RunRef, transition: Transition) -> RowWrite:
    return RowWrite(table=RUNS, row=run_key(ref) | dict(transition.changes), only_if=transition.guard)


def _result(transition: Transition, answer: Answer) -> TransitionResult:
    applied, row = answer
    if row is None or "state" not in row:
        return TransitionResult(applied=False, run=None)
    return TransitionResult(applied=applied or holds(transition.already, row), run=run_of(row))


def _with_payload(row: Row, sibling: Row | None) -> Row:
    """A run's row with the payload beside it, if that is there: its expiry may have been written after it was gone."""
    return row if sibling is None or "payload" not in sibling else row | {"payload": sibling["payload"]}
