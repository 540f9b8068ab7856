"""The ledger in memory: transitions are interpreted on rows, by the rules by which DynamoDB evaluates conditions."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from zlib import crc32

from minutehand.domain.names import RunRef
from minutehand.domain.run import WAITING, FailedAttemptRow, RunRow, RunState, SiblingRows
from minutehand.domain.times import DAY, SECOND, stamp
from minutehand.dynamodb.cursors import decode_cursor, encode_cursor
from minutehand.dynamodb.rows import (
    attempt_row,
    beside_key,
    beside_of,
    beside_prefix,
    claim_row,
    readable_runs,
    run_of,
    run_row,
)
from minutehand.errors import Unreadable
from minutehand.ports.ledger import BatchReadResult, BesideKind, ClaimResult, TransitionResult
from minutehand.ports.page import RowPage
from minutehand.state.conditions import AllOf, AnyOf, Condition, holds
from minutehand.state.transitions.transition import Once, Plus, Transition, held
from minutehand.testing.memory.calls import Calls, Detail, by_count
from minutehand.testing.memory.tables import MemoryTable, Row

INLINE_PAYLOAD = 400  # bytes, as in ``store.ledger``
PAGE = 200  # rows of one query: DynamoDB's megabyte holds some 2,000, but small pages find more interleavings
STATEMENTS = 25
READS = 100
_FIRST, _LAST = stamp(0), stamp(10**15 - 1)
_ASIDE = "\x7f"  # after all rows of an instant: those aside of its fire as well
_RETRY_SPAN = 14 * DAY


class MemoryLedger:
    """Runs in memory."""

    def __init__(self, calls: Calls, rows: MemoryTable[str, Row], *, retention: int) -> None:
        self._calls, self._rows, self._retention = calls, rows, retention

    # Claims.

    def claim(self, runs: Sequence[RunRow]) -> ClaimResult:
        detail = Detail(place="runs", verb="claim", items=tuple(run.ref for run in runs))
        answers = self._calls.many(
            "BatchExecuteStatement", detail, lambda i: self._insert(runs[i]), batches=by_count(STATEMENTS)
        )
        created = frozenset(runs[i].ref for i, there in answers.items() if there is None)
        existing: dict[RunRef, RunRow] = {}
        unreadable = set()
        for place, there in answers.items():
            try:
                if there is not None:
                    existing[runs[place].ref] = run_of(there)
            except Unreadable:
                unreadable.add(runs[place].ref)
        return ClaimResult(created=created, existing=existing, unreadable=frozenset(unreadable))

    def _insert(self, run: RunRow) -> Row | None:
        """Put a run's row unless its key exists; the row that is there."""
        there = self._rows.get(*run.ref)
        if there is None:
            self._rows.put(*run.ref, claim_row(run, self._retention))
        return there

    def submit(self, run: RunRow) -> RunRow | None:
        row = run_row(run)
        payload = row.get("payload", "")
        detail = Detail(place="runs", verb="submit", items=(run.ref,))
        if len(str(payload).encode()) <= INLINE_PAYLOAD:
            there = self._calls.one("PutItem", detail, lambda: self._insert(run))
        else:
            there = self._calls.one("TransactWriteItems", detail, lambda: self._insert_with_payload(run), token=True)
        return None if there is None else self.read(run.ref)

    def _insert_with_payload(self, run: RunRow) -> Row | None:
        there = self._insert(run)
        if there is None:
            row = run_row(run)
            beside = _beside(run.ref)
            self._rows.put(*beside, {"owner": beside.owner, "key": beside.key, "payload": row.pop("payload")})
            self._rows.put(*run.ref, row | {"payload_beside": True})
        return there

    # Transitions.

    def move(self, ref: RunRef, transition: Transition) -> TransitionResult:
        detail = Detail(place="runs", verb=transition.name, items=(ref,))
        applied, row = self._calls.one("UpdateItem", detail, lambda: self._apply(ref, transition))
        if row is None or "state" not in row:
            return TransitionResult(applied=False, run=None)
        if not applied:
            return TransitionResult(applied=holds(transition.already, row), run=run_of(row))
        if "payload_beside" in row and "ttl" in transition.changes:
            self._expire_payload(ref, row["ttl"])
        return TransitionResult(applied=True, run=run_of(row))

    def _apply(self, ref: RunRef, transition: Transition) -> tuple[bool, Row | None]:
        """Whether the guard let the changes through, and the row as it is now."""
        row = self._rows.get(*ref)
        if row is None or not holds(transition.guard, row):
            return False, row
        changed = changed_row(row, transition)
        self._rows.put(*ref, changed)
        return True, changed

    def _expire_payload(self, ref: RunRef, expires: int) -> None:
        beside = _beside(ref)
        detail = Detail(place="runs", verb="expire_payload", items=(beside,))

        def write() -> None:
            self._rows.put(*beside, (self._rows.get(*beside) or {}) | {"ttl": expires})

        self._calls.one("UpdateItem", detail, write)

    def move_all(self, moves: Sequence[tuple[RunRef, Transition]]) -> Mapping[RunRef, bool]:
        for _, transition in moves:
            _check_batchable(transition)
        verb = moves[0][1].name if moves else "move_all"
        detail = Detail(place="runs", verb=verb, items=tuple(ref for ref, _ in moves))
        answers = self._calls.many(
            "BatchExecuteStatement", detail, lambda i: self._apply(*moves[i]), batches=by_count(STATEMENTS)
        )
        return {
            moves[i][0]: applied or (row is not None and holds(moves[i][1].already, row))
            for i, (applied, row) in answers.items()
        }

    def lease_all(
        self, leases: Sequence[tuple[RunRef, Transition]], *, known: Collection[RunRef] = ()
    ) -> Mapping[RunRef, TransitionResult]:
        for _, lease in leases:
            _check_batchable(lease)
        detail = Detail(place="runs", verb="lease", items=tuple(ref for ref, _ in leases))
        answers = self._calls.many(
            "BatchExecuteStatement", detail, lambda i: self._apply(*leases[i]), batches=by_count(STATEMENTS)
        )
        result = {}
        for i, (applied, row) in answers.items():
            ref, lease = leases[i]
            with suppress(Unreadable):
                taken = applied and ref in known
                result[ref] = TransitionResult(applied=True, run=None) if taken else _leased(lease, applied, row)
        return result

    # Reads.

    def read(self, ref: RunRef) -> RunRow | None:
        row = self._get(ref, "read")
        if row is not None and "payload_beside" in row:
            beside = self._get(_beside(ref), "read_payload")
            row = row | ({"payload": beside["payload"]} if beside else {})
        return None if row is None else run_of(row)

    def _get(self, ref: RunRef, verb: str) -> Row | None:
        return self._calls.one("GetItem", Detail(place="runs", verb=verb, items=(ref,)), lambda: self._rows.get(*ref))

    def look(self, refs: Sequence[RunRef]) -> BatchReadResult:
        wanted = list(dict.fromkeys(refs))
        detail = Detail(place="runs", verb="look", items=tuple(wanted))
        answers = self._calls.many(
            "BatchGetItem", detail, lambda i: self._rows.get(*wanted[i]), batches=by_count(READS)
        )
        unanswered = {ref for i, ref in enumerate(wanted) if i not in answers}
        found: dict[RunRef, RunRow] = {}
        for i, row in answers.items():
            try:
                found |= {} if row is None else {wanted[i]: run_of(row)}
            except Unreadable:
                unanswered.add(wanted[i])
        return BatchReadResult(found=found, unanswered=frozenset(unanswered))

    def never_leased(self, owner: str, *, after: int | None, upto: int | None = None) -> Iterator[RunRow]:
        rows = self._between(owner, after, upto, "never_leased")
        return readable_runs(row for row in rows if row.get("state") == RunState.QUEUED)

    def window(self, owner: str, *, after: int, upto: int) -> Iterator[RunRow]:
        return readable_runs(self._between(owner, after, upto, "window"))

    def unfinished(self, *, segment: int, segments: int) -> Iterator[RunRow]:
        states = [*WAITING, RunState.RUNNING]
        rows = self._calls.one(
            "Scan",
            Detail(place="runs", verb="unfinished"),
            lambda: [row for owner, _, row in self._rows if crc32(owner.encode()) % segments == segment],
        )
        return readable_runs(row for row in rows if row.get("state") in states)

    def latest(self, owner: str, *, upto: int) -> Iterator[RunRow]:
        return readable_runs(self._between(owner, None, upto, "latest", newest_first=True, page=5))

    def succeeded(self, owner: str, *, after: int, upto: int) -> Iterator[RunRow]:
        rows = self._between(owner, after, upto, "succeeded", newest_first=True, page=100)
        return (run_of(row) for row in rows if row["state"] == RunState.SUCCEEDED)

    def page(
        self, owner: str, *, after: int | None, upto: int | None, limit: int, cursor: str | None, newest_first: bool
    ) -> RowPage:
        start = None if cursor is None else decode_cursor(cursor, owner)
        rows = self._between(owner, after, upto, "page", newest_first=newest_first, start=start)
        taken = list(islice(rows, limit + 1))
        more = encode_cursor(taken[limit - 1]) if len(taken) > limit else None
        return RowPage(items=list(readable_runs(taken[:limit])), cursor=more)

    def _between(
        self,
        owner: str,
        after: int | None,
        upto: int | None,
        verb: str,
        *,
        newest_first: bool = False,
        start: str | None = None,
        page: int | None = None,
    ) -> Iterator[Row]:
        """Rows of an owner with fires in ``(after, upto]``, a query for each page as they are asked for."""
        first = _FIRST if after is None else stamp(after) + _ASIDE
        last = (_LAST if upto is None else stamp(upto)) + _ASIDE
        while first <= last:
            found = self._calls.one(
                "Query",
                Detail(place="runs", verb=verb),
                lambda start=start: self._rows.page(
                    owner, first, last, limit=page or PAGE, after=start, backwards=newest_first
                ),  # type: ignore[misc]
            )
            yield from (row for _, row in found.items)
            if found.last is None:
                return
            start = found.last

    # Attempts.

    def record(self, attempt: FailedAttemptRow) -> None:
        row = attempt_row(attempt, (attempt.ended_at + self._retention + _RETRY_SPAN) // SECOND)
        ref = RunRef(attempt.run.owner, str(row["key"]))
        self._calls.one(
            "PutItem", Detail(place="runs", verb="record", items=(ref,)), lambda: self._rows.put(*ref, dict(row))
        )

    def attempts(self, ref: RunRef) -> Sequence[FailedAttemptRow]:
        return self.beside(ref).attempts

    # What lies beside a run.

    def keep(self, ref: RunRef, *, fence: int, kind: BesideKind, name: str, text: str, expires: int) -> bool:
        detail = Detail(place="runs", verb=f"keep {kind}", items=(ref,))
        place = beside_key(ref, kind, name)

        def put() -> bool:
            row = self._rows.get(*ref)
            there = self._rows.get(*place) is not None
            if row is None or not holds(held(fence), row) or (kind is BesideKind.STEP and there):
                return False
            ttl = (expires + _RETRY_SPAN) // SECOND
            self._rows.put(*place, {"owner": place.owner, "key": place.key, "text": text, "ttl": ttl})
            return True

        return self._calls.one("TransactWriteItems", detail, put, token=True)

    def beside(self, ref: RunRef) -> SiblingRows:
        prefix = beside_prefix(ref)
        found = self._calls.one(
            "Query",
            Detail(place="runs", verb="beside"),
            lambda: self._rows.page(ref.owner, prefix, prefix + "~", limit=1_000_000),
        )
        return beside_of(ref, [row for _, row in found.items])


def _leased(lease: Transition, applied: bool, row: Row | None) -> TransitionResult:  # noqa: FBT001 (an answer)
    if row is None or "state" not in row:
        return TransitionResult(applied=False, run=None)
    return TransitionResult(applied=applied or holds(lease.already, row), run=run_of(row))


def changed_row(row: Row, transition: Transition) -> Row:
    """A row with a transition's changes made."""
    changed = dict(row)
    for name, change in transition.changes.items():
        match change:
            case None:
                changed.pop(name, None)
            case Plus(amount):
                changed[name] = row[name] + amount
            case Once(value):
                changed.setdefault(name, value)
            case str():
                changed[name] = str(change)
            case _:
                changed[name] = change
    return changed


def _check_batchable(transition: Transition) -> None:
    """What PartiQL cannot say beside the key is refused here too."""
    dependent = [name for name, change in transition.changes.items() if isinstance(change, (Plus, Once))]
    if dependent or _has_alternatives(transition.guard):
        raise TypeError(f"transition {transition.name} cannot be batched: {dependent or 'its guard has alternatives'}")


def _has_alternatives(clause: Condition) -> bool:
    return isinstance(clause, AnyOf) or (
        isinstance(clause, AllOf) and any(_has_alternatives(part) for part in clause.parts)
    )


def _beside(ref: RunRef) -> RunRef:
    return RunRef(ref.owner, f"#{ref.key}#payload")
