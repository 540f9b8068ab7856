"""The ledger: claims, transitions and reads of runs, and the rows beside a run's row."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from typing import Any

from quarterjack.domain.audit import AuditLineRow
from quarterjack.domain.names import RunRef
from quarterjack.domain.run import TERMINAL, WAITING, AgendaEntry, FailedAttemptRow, RunRow, RunState, SiblingRows
from quarterjack.domain.times import DAY, SECOND, stamp
from quarterjack.errors import InvalidInput, Misconfigured, QuarterjackError, Unavailable, Unreadable
from quarterjack.state.transition import Compare, Condition, OneOf, Transition, all_of, held, holds, in_state
from quarterjack.stores.agenda import entry_delete, entry_put
from quarterjack.stores.audit import transact
from quarterjack.stores.paging import RowPage
from quarterjack.stores.rows import attempt_row, beside_prefix, claim_row, readable_runs, run_of, run_row, sibling_rows
from quarterjack.stores.tables import (
    RUNS,
    Answer,
    JobItems,
    Row,
    RowQuery,
    RowTables,
    RowWrite,
    ScanPart,
    begins_with,
    put_new,
    table_of_item,
)
from quarterjack.values import value

log = logging.getLogger(__name__)

Moves = Sequence[tuple[RunRef, Transition]]

# Bytes of a one-off's payload in its own row. A larger one has a sibling row: updates bill the whole row.
INLINE_PAYLOAD = 400
_FIRST, _LAST = stamp(0), stamp(10**15 - 1)
_BEYOND = "\x7f"  # sorts after all rows of an instant: fires, triggers, backfills
_SCANNED = (
    5_000  # rows of a page of a scan: more than the 1 MiB that DynamoDB reads for one, so that its size is the bound
)
_FEW = 5  # rows of a query for the latest runs
_SUCCESSES = 100  # rows of a query for a success
_RETRY_SPAN = 14 * DAY  # how long after a failed attempt its run may still be retried
_ENDED = OneOf("state", tuple(sorted(TERMINAL)))
_UNFINISHED = OneOf("state", tuple(sorted(WAITING | {RunState.RUNNING})))


@dataclass(frozen=True, kw_only=True)
class ClaimResult:
    """The answer to claims. A ref in none of the three was not answered."""

    created: frozenset[RunRef] = frozenset()
    existing: Mapping[RunRef, RunRow] = field(default_factory=dict)  # created earlier
    unreadable: frozenset[RunRef] = frozenset()  # created earlier, as a row that this release cannot read as a run


@dataclass(frozen=True, kw_only=True)
class BatchReadResult:
    """The answer to a batch read: a ref that is neither found nor unanswered has no row."""

    found: Mapping[RunRef, RunRow] = field(default_factory=dict)
    unanswered: frozenset[RunRef] = frozenset()  # or its row cannot be read as a run by this release


@value(kw_only=True)
class TransitionResult:
    """The answer to one transition: whether it was applied, and the row as it is now (None: there is none)."""

    applied: bool
    run: RunRow | None


class BesideKind(StrEnum):
    """The kinds of sibling rows that a job writes beside its run's row."""

    STEP = "step"  # the result of one step; recorded once
    CHECKPOINT = "checkpoint"  # the state from which the next slice continues; each replaces the last
    RESULT = "result"  # a result too large for the row


@value(kw_only=True)
class CommitResult:
    """The answer to a job's transaction; nothing was written unless it is ``committed``."""

    committed: bool = False
    recorded: bool = False  # the step of that name was recorded before
    refused: int | None = None  # the place of the job's first item whose condition does not hold


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

    def put(self, run: RunRow, line: AuditLineRow) -> RunRow | None:
        """Put a run as ``claim`` does, with the line of the act: None, or the run that exists. Raises Unreadable."""
        claim = put_new(RUNS, claim_row(run, self._retention))
        if transact(self._tables, "claim", [claim], f"run {run.ref}", line):
            return None
        row = self._tables.get("claimed", RUNS, **_key(run.ref))
        if row is None:
            raise Unavailable(f"run {run.ref} is being written by another process; try again")
        return run_of(row)

    def _with_stored_rows(self, answers: Mapping[RunRef, Answer]) -> dict[RunRef, Row | None]:
        """The rows that refused claims, None for those that were applied. Some engines refuse without the row: it is read."""
        unknown = [ref for ref, (applied, row) in answers.items() if not applied and row is None]
        stored = self._read_all("claimed", unknown)[0] if unknown else {}
        known = {ref: None if applied else row for ref, (applied, row) in answers.items() if ref not in unknown}
        return known | stored

    def submit(self, run: RunRow, line: AuditLineRow | None = None) -> RunRow | None:
        """Put a one-off with its payload, and the ``line`` of the act, unless its key exists: None, or the run that exists."""
        row, about = run_row(run), f"run {run.ref}"
        if len(str(row.get("payload", "")).encode()) > INLINE_PAYLOAD:
            # In one transaction: a payload without its run could be taken for another's.
            sibling = _key(_payload_ref(run.ref)) | {"payload": row.pop("payload")}
            writes = [put_new(RUNS, row | {"payload_beside": True}), RowWrite(table=RUNS, row=sibling, kind="put")]
            applied = transact(self._tables, "submit", writes, about, line)
        elif line is not None:
            applied = transact(self._tables, "submit", [put_new(RUNS, row)], about, line)
        else:
            applied, _ = self._tables.write("submit", put_new(RUNS, row))
        if applied:
            return None
        existing = self.read(run.ref)
        if existing is None:
            raise Unavailable(f"run {run.ref} is being written by another process; try again")
        return existing

    # Transitions.

    def move(self, ref: RunRef, transition: Transition, line: AuditLineRow | None = None) -> TransitionResult:
        """Apply one transition. A write whose response was lost counts as applied if the row shows it.

        With the ``line`` of an act it is a transaction, and the row is read after it.
        """
        applied, row = self._moved(ref, transition, line)
        if applied and row and "payload_beside" in row and "ttl" in transition.changes:
            expiry = _key(_payload_ref(ref)) | {"ttl": row["ttl"]}  # the payload is deleted with its run
            self._tables.write("expire_payload", RowWrite(table=RUNS, row=expiry))
        return _result(transition, (applied, row))

    def reschedule(
        self, ref: RunRef, transition: Transition, *, put: AgendaEntry, remove: AgendaEntry, line: AuditLineRow
    ) -> TransitionResult:
        """Apply a transition and replace the agenda entry of the run, in one transaction; the row is read after it."""
        writes = [_write(ref, transition), entry_put(put), entry_delete(remove)]
        applied = transact(self._tables, transition.name, writes, f"run {ref}", line)
        return _result(transition, (applied, self._whole("moved", ref)))

    def _moved(self, ref: RunRef, transition: Transition, line: AuditLineRow | None) -> Answer:
        if line is None:
            return self._tables.write(transition.name, _write(ref, transition), returning=True)
        applied = transact(self._tables, transition.name, [_write(ref, transition)], f"run {ref}", line)
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
        row = self._tables.get(verb, RUNS, **_key(ref))
        if row is None or "payload_beside" not in row:
            return row
        return _with_payload(row, self._tables.get("read_payload", RUNS, **_key(_payload_ref(ref))))

    def look(self, refs: Sequence[RunRef], *, whole: bool = False) -> BatchReadResult:
        """Runs in batches; with the payloads in sibling rows if ``whole``, which are a second batch where there are any."""
        rows, unread = self._read_all("look", list(dict.fromkeys(refs)))
        beside = [ref for ref, row in rows.items() if "payload_beside" in row] if whole else []
        if beside:
            siblings, left = self._read_all("look_payloads", [_payload_ref(ref) for ref in beside])
            for ref in beside:
                rows[ref] = _with_payload(rows[ref], siblings.get(_payload_ref(ref)))
            unread |= {ref for ref in beside if _payload_ref(ref) in left}
            rows = {ref: row for ref, row in rows.items() if ref not in unread}
        found = {run.ref: run for run in readable_runs(rows.values())}
        return BatchReadResult(found=found, unanswered=frozenset(rows.keys() - found.keys()) | unread)

    def _read_all(self, verb: str, refs: Sequence[RunRef]) -> tuple[dict[RunRef, Row], frozenset[RunRef]]:
        rows, unread = self._tables.read(verb, RUNS, [_key(ref) for ref in refs])
        return {_ref(row): row for row in rows}, frozenset(map(_ref, unread))

    # Listings.

    def unfinished(
        self, parts: Mapping[int, str], *, segments: int, rows: int | None = None
    ) -> tuple[list[RunRow], dict[int, str]]:
        """A page of each of these parts of the ledger, side by side: its runs that are not terminal.

        ``parts``: numbers from 0 to ``segments`` - 1, each with the cursor that an earlier call gave, or "" for its beginning. The second
        value has the cursors of those that are not at their end. A page is at most 1 MiB and ``rows`` rows, those of ended runs included.
        Read with eventual consistency.
        """
        places = [
            ScanPart(number=number, parts=segments, after=json.loads(cursor) if cursor else None)
            for number, cursor in parts.items()
        ]
        most = _SCANNED if rows is None else rows
        pages = self._tables.scan_parts("unfinished", RUNS, places, only=_UNFINISHED, limit=most, eventual=True)
        ends = zip(parts, pages, strict=True)
        found = readable_runs(row for part, _ in pages for row in part)
        return list(found), {number: json.dumps(last) for number, (_, last) in ends if last is not None}

    def runs(self, *, segment: int, segments: int, tenant: str | None = None) -> Iterator[RunRow]:
        """All runs of one segment of the ledger, or those of one tenant among them, read with eventual consistency."""
        only: Condition = Compare(
            "rev", ">=", 0
        )  # rows beside a run, records and lines of the index of dead runs have none
        if tenant is not None:  # "0" comes after "/"
            only = all_of(only, Compare("owner", ">=", f"{tenant}/"), Compare("owner", "<", f"{tenant}0"))
        return readable_runs(self._tables.scan("runs", RUNS, only=only, part=(segment, segments)))

    def relist(self, ref: RunRef, *, now: int) -> bool:
        """Mark an ended run, so that its row passes the stream again; False if it has not ended."""
        write = RowWrite(table=RUNS, row=_key(ref) | {"relisted": now}, only_if=_ENDED)
        return self._tables.write("relist", write)[0]

    def never_leased(self, owner: str, *, after: int | None, upto: int | None = None) -> Iterator[RunRow]:
        """QUEUED runs of a schedule with fires in ``(after, upto]`` (UTC ms; None: unbounded), oldest first."""
        return self._runs("never_leased", owner, after, upto, only=in_state(RunState.QUEUED))

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

    def last_runs(self, owners: Sequence[str], *, upto: int, limit: int) -> Mapping[str, Sequence[RunRow]]:
        """Of each schedule the last runs that were due by ``upto`` (UTC ms), newest first: a query each, all at the same time.

        Eventually consistent: a run's last change within a second may be missing. Raises Unavailable.
        """
        how: dict[str, Any] = {"first": _FIRST, "last": stamp(upto) + _BEYOND, "newest_first": True}
        queries = [RowQuery(table=RUNS, partition=owner, limit=limit, eventual=True, **how) for owner in owners]
        found = self._tables.first_pages("last_runs", queries) if queries else []
        return {owner: list(readable_runs(rows)) for owner, (rows, _) in zip(owners, found, strict=True)}

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

    # Siblings of a run.

    def record(self, attempt: FailedAttemptRow) -> None:
        """Put the immutable row of a failed attempt."""
        row = attempt_row(attempt, (attempt.ended_at + self._retention + _RETRY_SPAN) // SECOND)
        self._tables.write("record", RowWrite(table=RUNS, row=row, kind="put"))

    def attempts(self, ref: RunRef) -> Sequence[FailedAttemptRow]:
        """The failed attempts of a run, oldest first."""
        return self.beside(ref).attempts

    def keep(self, ref: RunRef, *, fence: int, kind: BesideKind, name: str, text: str, expires: int) -> bool:
        """Put a sibling row of a run, in one transaction with the check that the lease of this ``fence`` still holds the run.

        False, and nothing is written, if it does not, or if a STEP of that ``name`` exists. ``text`` is JSON, ``expires`` is UTC ms.
        """
        writes = _kept(ref, fence, kind, name, text, expires)
        # A heartbeat on the run's row is a conflict.
        return self._tables.transact(f"keep {kind}", writes, f"{kind} {name!r} of run {ref}")

    def commit(
        self, ref: RunRef, *, fence: int, step: str, text: str, expires: int, items: Sequence[Mapping[str, Any]]
    ) -> CommitResult:
        """Record a step as ``keep`` does, in one transaction with a job's own ``items`` (as boto3's ``transact_write_items`` takes them).

        Raises InvalidInput for items that DynamoDB does not take, or of a table of Quarterjack's; Misconfigured, Unavailable.
        """
        writes = _kept(ref, fence, BesideKind.STEP, step, text, expires)
        try:
            refused = self._tables.commit("commit", writes, items, f"transaction {step!r} of run {ref}")
        except QuarterjackError as problem:
            raise _of_job(problem, items) from problem
        if 0 in refused:
            return CommitResult()
        if 1 in refused:
            return CommitResult(recorded=True)
        return CommitResult(refused=min(refused) - len(writes)) if refused else CommitResult(committed=True)

    def beside(self, ref: RunRef) -> SiblingRows:
        """The sibling rows of a run, in one query."""
        return sibling_rows(ref, self._tables.rows("beside", begins_with(RUNS, ref.owner, beside_prefix(ref))))


def _kept(ref: RunRef, fence: int, kind: BesideKind, name: str, text: str, expires: int) -> list[RowWrite]:
    """The check of the lease, and the put of a sibling row."""
    row = _key(RunRef(ref.owner, f"{beside_prefix(ref)}{kind}#{name}"))
    row |= {"text": text, "ttl": (expires + _RETRY_SPAN) // SECOND}
    put = put_new(RUNS, row) if kind is BesideKind.STEP else RowWrite(table=RUNS, row=row, kind="put")
    return [RowWrite(table=RUNS, row=_key(ref), only_if=held(fence), kind="check"), put]


def _write(ref: RunRef, transition: Transition) -> RowWrite:
    return RowWrite(table=RUNS, row=_key(ref) | dict(transition.changes), only_if=transition.guard)


def _result(transition: Transition, answer: Answer) -> TransitionResult:
    applied, row = answer
    if row is None or "state" not in row:
        return TransitionResult(applied=False, run=None)
    return TransitionResult(applied=applied or holds(transition.already, row), run=run_of(row))


def _key(ref: RunRef) -> dict[str, Any]:
    return {"owner": ref.owner, "key": ref.key}


def _ref(row: Row) -> RunRef:
    return RunRef(row["owner"], row["key"])


def _with_payload(row: Row, sibling: Row | None) -> Row:
    """A run's row with the payload beside it, if that is there: its expiry may have been written after it was gone."""
    return row if sibling is None or "payload" not in sibling else row | {"payload": sibling["payload"]}


def _payload_ref(ref: RunRef) -> RunRef:
    return RunRef(ref.owner, f"{beside_prefix(ref)}payload")


def _of_job(problem: QuarterjackError, items: JobItems) -> QuarterjackError:
    """What a job is told of an error that its items caused."""
    tables = ", ".join(sorted(set(map(table_of_item, items))))
    if isinstance(problem, Misconfigured):
        return Misconfigured(
            f"{problem} (the items write to {tables}: these must be in the account and region of Quarterjack's tables, and "
            "the worker's role must allow PutItem, UpdateItem, DeleteItem and ConditionCheckItem on them)"
        )
    if type(problem) is QuarterjackError:  # refused as it is
        return InvalidInput("items", tables, str(problem), "pass what boto3's client takes as TransactItems")
    return problem
