"""The siblings of a run: failed attempts, steps, checkpoints and large results, rows beside the run's row.

An update bills the whole row, so a run's row stays small. Siblings sort before all runs of their owner.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

from quarterjack.domain.names import RunRef
from quarterjack.domain.run import FailedAttemptRow, Failure, RunRow, SiblingRows
from quarterjack.domain.times import DAY, SECOND
from quarterjack.errors import InvalidInput, Misconfigured, QuarterjackError, Unavailable
from quarterjack.state.transition import Value, held
from quarterjack.stores.rows import present, run_key, run_row
from quarterjack.stores.tables import RUNS, JobItems, Row, RowTables, RowWrite, begins_with, put_new, table_of_item
from quarterjack.values import replace, value

# Bytes of a one-off's payload in its own row. A larger one has a sibling row: updates bill the whole row.
INLINE_PAYLOAD = 400
BESIDE, RESULT_NAME = "beside", "last"  # of a large result: what the run's row says instead, and its row's name
_RETRY_SPAN = 14 * DAY  # how long after a failed attempt its run may still be retried
_ATTEMPT = ("number", "fence", "worker", "started_at", "ended_at", "next_attempt_at")  # named as the fields
_FAILURE = {
    "error_type": "kind",
    "error": "message",
    "traceback": "traceback",
    "error_code": "code",
    "permanent": "permanent",
}  # attribute: field


class BesideKind(StrEnum):
    """The kinds of sibling rows that a job writes beside its run's row."""

    STEP = "step"  # the result of one step; recorded once
    CHECKPOINT = "checkpoint"  # the state from which the next slice continues; each replaces the last
    RESULT = "result"  # a result too large for the row
    WAIT = "wait"  # the terms of a wait for the signal of that name
    ASKED = "asked"  # requests of a job that waits, as far as they are too many for the row


@value(kw_only=True)
class CommitResult:
    """The answer to a job's transaction; nothing was written unless it is ``committed``."""

    committed: bool = False
    recorded: bool = False  # the step of that name was recorded before
    refused: int | None = None  # the place of the job's first item whose condition does not hold


class Siblings:
    """The rows that workers write beside the rows of runs. ``retention``: milliseconds for which ended runs stay."""

    def __init__(self, tables: RowTables, *, retention: int) -> None:
        self._tables, self._retention = tables, retention

    def record(self, attempt: FailedAttemptRow) -> None:
        """Put the immutable row of a failed attempt."""
        row = attempt_row(attempt, (attempt.ended_at + self._retention + _RETRY_SPAN) // SECOND)
        self._tables.write("record", RowWrite(table=RUNS, row=row, kind="put"))

    def attempts(self, ref: RunRef) -> Sequence[FailedAttemptRow]:
        """The failed attempts of a run, oldest first."""
        return self.read(ref).attempts

    def keep(self, ref: RunRef, *, fence: int, kind: BesideKind, name: str, text: str, expires: int) -> bool:
        """Put a sibling row of a run, in one transaction with the check that the lease of this ``fence`` still holds the run.

        False, and nothing is written, if it does not, or if a STEP of that ``name`` exists. ``text`` is JSON, ``expires`` is UTC ms.
        """
        writes = _writes(ref, fence, kind, name, text, expires)
        # A heartbeat on the run's row is a conflict.
        return self._tables.transact(f"keep {kind}", writes, f"{kind} {name!r} of run {ref}")

    def commit(
        self, ref: RunRef, *, fence: int, step: str, text: str, expires: int, items: Sequence[Mapping[str, Any]]
    ) -> CommitResult:
        """Record a step as ``keep`` does, in one transaction with a job's own ``items`` (as boto3's ``transact_write_items`` takes them).

        Raises InvalidInput for items that DynamoDB does not take, or of a table of Quarterjack's; Misconfigured, Unavailable.
        """
        writes = _writes(ref, fence, BesideKind.STEP, step, text, expires)
        try:
            refused = self._tables.commit("commit", writes, items, f"transaction {step!r} of run {ref}")
        except QuarterjackError as problem:
            raise _of_job(problem, items) from problem
        if 0 in refused:
            return CommitResult()
        if 1 in refused:
            return CommitResult(recorded=True)
        return CommitResult(refused=min(refused) - len(writes)) if refused else CommitResult(committed=True)

    def put_payloads(self, payloads: Mapping[RunRef, str], *, expires: int) -> None:
        """Put payloads (JSON text) beside rows of runs that will be put: of keys that nobody else uses. ``expires``: UTC ms.

        Raises Unavailable.
        """
        puts = [payload_put(ref, text) for ref, text in payloads.items()]
        writes = [replace(put, row={**put.row, "ttl": expires // SECOND}) for put in puts]
        if self._tables.store_all("put_payloads", writes):
            raise Unavailable("payloads of runs were not accepted; try again")

    def read(self, ref: RunRef) -> SiblingRows:
        """All sibling rows of a run, in one query."""
        return sibling_rows(ref, self._tables.rows("beside", begins_with(RUNS, ref.owner, beside_prefix(ref))))


def _writes(ref: RunRef, fence: int, kind: BesideKind, name: str, text: str, expires: int) -> list[RowWrite]:
    """The check of the lease, and the put of a sibling row."""
    row: Row = {"owner": ref.owner, "key": f"{beside_prefix(ref)}{kind}#{name}"}
    row |= {"text": text, "ttl": (expires + _RETRY_SPAN) // SECOND}
    put = put_new(RUNS, row) if kind is BesideKind.STEP else RowWrite(table=RUNS, row=row, kind="put")
    return [RowWrite(table=RUNS, row=run_key(ref), only_if=held(fence), kind="check"), put]


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


def result_key(ref: RunRef) -> Row:
    """The key of the row that has a run's large result: its own row says BESIDE."""
    return {"owner": ref.owner, "key": f"{beside_prefix(ref)}{BesideKind.RESULT}#{RESULT_NAME}"}


def beside_prefix(ref: RunRef) -> str:
    """The keys of a run's sibling rows begin so: attempts, steps, checkpoint, result, payload.

    They sort before all runs, so that a listing of runs never reads them.
    """
    return f"#{ref.key}#"


def sibling_rows(ref: RunRef, rows: Iterable[Mapping[str, Any]]) -> SiblingRows:
    """A run's siblings from their rows."""
    attempts, steps, waits, kept, asked = [], {}, {}, {}, list[str]()
    for row in rows:
        kind, _, name = row["key"].removeprefix(beside_prefix(ref)).partition("#")
        if kind == "attempt":
            attempts.append(attempt_of(ref, row))
        elif kind == "step":
            steps[name] = row["text"]
        elif kind == BesideKind.WAIT:
            waits[name] = row["text"]
        elif kind == BesideKind.ASKED:
            asked += json.loads(row["text"])
        elif "text" in row:
            kept[kind] = row["text"]
    return SiblingRows(
        attempts=tuple(attempts),
        steps=steps,
        checkpoint=kept.get("checkpoint"),
        result=kept.get("result"),
        asked=tuple(asked),
        waits=waits,
    )


def attempt_row(attempt: FailedAttemptRow, expires: int) -> dict[str, Value]:
    """The row of a failed attempt; ``expires`` in epoch seconds."""
    row = {name: getattr(attempt, name) for name in _ATTEMPT}
    row |= {name: getattr(attempt.failure, field) for name, field in _FAILURE.items()}
    key = f"{beside_prefix(attempt.run)}attempt#{attempt.fence:06d}"
    return present(row | {"owner": attempt.run.owner, "key": key, "ttl": expires})


def attempt_of(ref: RunRef, row: Mapping[str, Any]) -> FailedAttemptRow:
    failure = Failure(**{field: row[name] for name, field in _FAILURE.items() if name in row})
    given: dict[str, Any] = {"next_attempt_at": None} | {name: row[name] for name in _ATTEMPT if name in row}
    return FailedAttemptRow(run=ref, failure=failure, **given)


# Payloads of one-offs.


def new_run(run: RunRow) -> list[RowWrite]:
    """The writes of a one-off: its row, unless the key exists, and a larger payload beside it.

    They go in one transaction: a payload without its run could be taken for another's.
    """
    row = run_row(run)
    if len(str(row.get("payload", "")).encode()) <= INLINE_PAYLOAD:
        return [put_new(RUNS, row)]
    beside = payload_put(run.ref, str(row.pop("payload")))
    return [put_new(RUNS, row | {"payload_beside": True}), beside]


def payload_put(ref: RunRef, payload: str | None) -> RowWrite:
    """The write of the payload beside a run's row; None: its removal."""
    row = run_key(payload_ref(ref))
    if payload is None:
        return RowWrite(table=RUNS, row=row, kind="delete")
    return RowWrite(table=RUNS, row=row | {"payload": payload}, kind="put")


def payload_ref(ref: RunRef) -> RunRef:
    """The key of the payload beside a run's row."""
    return RunRef(ref.owner, f"{beside_prefix(ref)}payload")
