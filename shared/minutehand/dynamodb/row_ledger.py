"""The ledger as rows: what the ledgers in DynamoDB and in memory have in common. Their subclasses send the requests."""

from __future__ import annotations

import base64
import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from minutehand.domain.names import RunRef, parse_run_id
from minutehand.domain.run import FailedAttemptRow, RunRow, RunState, SiblingRows
from minutehand.domain.times import DAY, SECOND, stamp
from minutehand.dynamodb.rows import (
    attempt_row,
    beside_prefix,
    claim_row,
    readable_runs,
    run_of,
    run_row,
    sibling_rows,
)
from minutehand.errors import InvalidInput, Unavailable, Unreadable
from minutehand.ports.ledger import BatchReadResult, BesideKind, ClaimResult, TransitionResult
from minutehand.ports.records import RowPage
from minutehand.state.transition import Condition, Transition, held, holds

log = logging.getLogger(__name__)

Row = dict[str, Any]  # attributes by name
Moves = Sequence[tuple[RunRef, Transition]]

INLINE_PAYLOAD = (
    400  # bytes of a one-off's payload in its own row; a larger one has a sibling row: updates bill the whole row
)
_FIRST, _LAST = stamp(0), stamp(10**15 - 1)
_BEYOND = "\x7f"  # sorts after all rows of an instant: fires, triggers, backfills
_FEW = 5  # rows of a query for the latest runs
_SUCCESSES = 100  # rows of a query for a success
_RETRY_SPAN = 14 * DAY  # how long after a failed attempt its run may still be retried


class RowLedger(ABC):
    """Claims and transitions of runs over rows that a subclass reads and writes."""

    def __init__(self, retention: int) -> None:
        self._retention = retention  # ms

    # Claims.

    def claim(self, runs: Sequence[RunRow]) -> ClaimResult:
        created, existing, unreadable = set(), {}, set()
        for place, row in self._insert_all([claim_row(run, self._retention) for run in runs]).items():
            ref = runs[place].ref
            try:
                if row is None:
                    created.add(ref)
                else:
                    existing[ref] = run_of(row)
            except Unreadable:
                unreadable.add(ref)
        return ClaimResult(created=frozenset(created), existing=existing, unreadable=frozenset(unreadable))

    @abstractmethod
    def _insert_all(self, rows: Sequence[Row]) -> Mapping[int, Row | None]:
        """Put each row unless its key exists: index → None, or the stored row. An index that is absent was not answered."""

    def submit(self, run: RunRow) -> RunRow | None:
        row, sibling = run_row(run), None
        if len(str(row.get("payload", "")).encode()) > INLINE_PAYLOAD:
            sibling = _row(_payload_ref(run.ref), payload=row.pop("payload"))
            row["payload_beside"] = True
        if self._insert(row, sibling):
            return None
        existing = self.read(run.ref)
        if existing is None:
            raise Unavailable(f"run {run.ref} is being written by another process; try again")
        return existing

    @abstractmethod
    def _insert(self, row: Row, sibling: Row | None) -> bool:
        """Put a row unless its key exists, and its sibling with it: a payload without its run could be taken for another's."""

    # Transitions.

    def move(self, ref: RunRef, transition: Transition) -> TransitionResult:
        return _result(transition, *self._apply(ref, transition))

    def _apply(self, ref: RunRef, transition: Transition) -> tuple[bool, Row | None]:
        """One transition: whether it was applied, and the row as it is now."""
        applied, row = self._update(ref, transition)
        if applied and row and "payload_beside" in row and "ttl" in transition.changes:
            self._expire(_payload_ref(ref), int(row["ttl"]))  # the payload is deleted with its run
        return applied, row

    def move_all(self, moves: Moves) -> Mapping[RunRef, bool]:
        return {
            moves[i][0]: applied or (bool(row) and holds(moves[i][1].already, row or {}))
            for i, (applied, row) in self._update_all(moves).items()
        }

    def lease_all(self, leases: Moves, *, known: Collection[RunRef] = ()) -> Mapping[RunRef, TransitionResult]:
        result = {}
        for i, (applied, row) in self._update_all(leases, returning={ref for ref, _ in leases} - set(known)).items():
            ref, lease = leases[i]
            try:
                if applied and (ref in known or not row):  # some engines do not return the row
                    result[ref] = TransitionResult(applied=True, run=None if ref in known else self.read(ref))
                else:
                    result[ref] = _result(lease, applied, row)
            except Unreadable as problem:  # the leases of the other runs are taken, and must be known
                log.error("run.unreadable", extra={"run_id": str(ref), "error": str(problem)})
        return result

    @abstractmethod
    def _update(self, ref: RunRef, transition: Transition) -> tuple[bool, Row | None]:
        """One guarded update: whether the guard held, and the row as it is now (None: there is none)."""

    @abstractmethod
    def _update_all(self, moves: Moves, *, returning: Collection[RunRef] = ()) -> Mapping[int, tuple[bool, Row | None]]:
        """Guarded updates in batches, by index as ``_update``. An applied one brings its row only if ``returning`` has its ref."""

    @abstractmethod
    def _expire(self, ref: RunRef, expires: int) -> None:
        """Set the expiry of a sibling row, in UTC seconds."""

    # Reads.

    def read(self, ref: RunRef) -> RunRow | None:
        row = self._get(ref, "read")
        if row is not None and "payload_beside" in row:
            sibling = self._get(_payload_ref(ref), "read_payload")
            row = row | ({"payload": sibling["payload"]} if sibling else {})
        return None if row is None else run_of(row)

    def look(self, refs: Sequence[RunRef]) -> BatchReadResult:
        rows, unread = self._get_all(list(dict.fromkeys(refs)))
        found = {run.ref: run for run in readable_runs(rows.values())}
        return BatchReadResult(found=found, unanswered=frozenset(rows.keys() - found.keys()) | unread)

    @abstractmethod
    def _get(self, ref: RunRef, verb: str) -> Row | None:
        """A row, read strongly. ``verb`` names the request for tests."""

    @abstractmethod
    def _get_all(self, refs: Sequence[RunRef]) -> tuple[Mapping[RunRef, Row], frozenset[RunRef]]:
        """Rows, read strongly in batches, and the refs that were not answered."""

    # Listings.

    def never_leased(self, owner: str, *, after: int | None, upto: int | None = None) -> Iterator[RunRow]:
        return readable_runs(self._between("never_leased", owner, after, upto, only=RunState.QUEUED))

    def window(self, owner: str, *, after: int, upto: int) -> Iterator[RunRow]:
        return readable_runs(self._between("window", owner, after, upto))

    def latest(self, owner: str, *, upto: int) -> Iterator[RunRow]:
        return readable_runs(self._between("latest", owner, None, upto, newest_first=True, page=_FEW))

    def succeeded(self, owner: str, *, after: int, upto: int) -> Iterator[RunRow]:
        only, page = RunState.SUCCEEDED, _SUCCESSES
        return readable_runs(self._between("succeeded", owner, after, upto, only=only, newest_first=True, page=page))

    def page(
        self, owner: str, *, after: int | None, upto: int | None, limit: int, cursor: str | None, newest_first: bool
    ) -> RowPage:
        start = None if cursor is None else decode_cursor(cursor, owner)
        rows = self._between("page", owner, after, upto, newest_first=newest_first, start=start)
        taken = list(islice(rows, limit + 1))
        more = encode_cursor(taken[limit - 1]) if len(taken) > limit else None
        return RowPage(items=list(readable_runs(taken[:limit])), cursor=more)

    def _between(
        self,
        verb: str,
        owner: str,
        after: int | None,
        upto: int | None,
        *,
        only: RunState | None = None,
        newest_first: bool = False,
        page: int | None = None,
        start: str | None = None,
    ) -> Iterator[Row]:
        """Rows of an owner with fires in ``(after, upto]``."""
        first = _FIRST if after is None else stamp(after) + _BEYOND
        last = (_LAST if upto is None else stamp(upto)) + _BEYOND
        if first > last:
            return iter(())
        return self._query(verb, owner, first, last, only=only, newest_first=newest_first, page=page, start=start)

    @abstractmethod
    def _query(
        self,
        verb: str,
        owner: str,
        first: str,
        last: str,
        *,
        only: RunState | None,
        newest_first: bool,
        page: int | None,
        start: str | None,
    ) -> Iterator[Row]:
        """Rows with keys in ``[first, last]`` beyond ``start``, in state ``only``; ``page`` rows a query, as far as they are asked for."""

    # Siblings of a run.

    def record(self, attempt: FailedAttemptRow) -> None:
        self._put(attempt_row(attempt, (attempt.ended_at + self._retention + _RETRY_SPAN) // SECOND))

    def attempts(self, ref: RunRef) -> Sequence[FailedAttemptRow]:
        return self.beside(ref).attempts

    def keep(self, ref: RunRef, *, fence: int, kind: BesideKind, name: str, text: str, expires: int) -> bool:
        place = RunRef(ref.owner, f"{beside_prefix(ref)}{kind}#{name}")
        row = _row(place, text=text, ttl=(expires + _RETRY_SPAN) // SECOND)
        return self._put_beside(ref, kind, held(fence), row)

    def beside(self, ref: RunRef) -> SiblingRows:
        return sibling_rows(ref, self._siblings(ref.owner, beside_prefix(ref)))

    @abstractmethod
    def _put(self, row: Row) -> None:
        """Put the row of an attempt."""

    @abstractmethod
    def _put_beside(self, ref: RunRef, kind: BesideKind, guard: Condition, row: Row) -> bool:
        """Put a sibling row if the run's row meets the guard; a STEP only where there is none."""

    @abstractmethod
    def _siblings(self, owner: str, prefix: str) -> Iterable[Row]:
        """Rows whose keys begin so."""


def _result(transition: Transition, applied: bool, row: Row | None) -> TransitionResult:  # noqa: FBT001 (a response)
    if row is None or "state" not in row:
        return TransitionResult(applied=False, run=None)
    return TransitionResult(applied=applied or holds(transition.already, row), run=run_of(row))


def _row(ref: RunRef, **attributes: Any) -> Row:
    return {"owner": ref.owner, "key": ref.key, **attributes}


def _payload_ref(ref: RunRef) -> RunRef:
    return RunRef(ref.owner, f"{beside_prefix(ref)}payload")


def encode_cursor(row: Mapping[str, Any]) -> str:
    """The cursor of a listing after a row: opaque text."""
    return base64.urlsafe_b64encode(json.dumps([row["owner"], row["key"]]).encode()).decode()


def decode_cursor(cursor: str, owner: str) -> str:
    """The key in a cursor of an owner's listing. Raises InvalidInput: a table refuses a start key that is not a run's."""
    try:
        of, key = json.loads(base64.urlsafe_b64decode(cursor.encode()))
        if of != owner or parse_run_id(str(RunRef(of, key))).key != key:
            raise ValueError(key)
    except (ValueError, TypeError, AttributeError, RecursionError) as problem:
        raise InvalidInput(
            "cursor", cursor, "is not of this listing", "pass the cursor of the page before"
        ) from problem
    return str(key)
