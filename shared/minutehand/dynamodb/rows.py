"""Rows: runs, attempts and entries as DynamoDB items and back. Attributes that say nothing are not written: a row is billed by size."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from minutehand.domain.agenda_entry import AgendaEntry, EntryKind, parse_entry_key
from minutehand.domain.formats.schema import GARBAGE, check_schema, unreadable
from minutehand.domain.names import RunRef
from minutehand.domain.run import FailedAttemptRow, Failure, RunRow, RunState, SiblingRows
from minutehand.domain.times import SECOND
from minutehand.errors import Unreadable
from minutehand.state.conditions import Value

log = logging.getLogger(__name__)

_T = TypeVar("_T")

Item = dict[str, dict[str, Any]]

_NUMBERS = (
    "due",
    "not_before",
    "created_at",
    "fence",
    "attempt",
    "max_attempts",
    "lease_until",
    "started_at",
    "leased_at",
    "ended_at",
    "scheduled_at",
    "skipped",
    "skipped_until",
    "defined_by",
)
_ALWAYS = frozenset(
    {"fence", "attempt", "due", "not_before"}
)  # conditions compare them, so they are there from the start
_TEXTS = (
    *("job", "lease_token", "reason", "payload", "payload_ref", "overrides", "worker"),
    *("result", "result_ref", "stage", "replay_of", "timezone", "backfill", "queue", "act"),
)
_PLAIN = frozenset((*_NUMBERS, *_TEXTS))

_READ_NUMBERS = (*_NUMBERS, "buried_at", "slices")
_INT, _STR = frozenset({int}), frozenset({str})


def encode(value: Value) -> dict[str, Any]:
    """A value in DynamoDB's JSON."""
    kind = type(value)
    if kind is str:
        return {"S": value}
    if kind is int:
        return {"N": str(value)}
    return {"BOOL": value} if kind is bool else {"S": str(value)}


def to_item(row: Mapping[str, Value]) -> Item:
    return {name: encode(value) for name, value in row.items()}


def to_row(item: Mapping[str, Mapping[str, Any]]) -> dict[str, Value]:
    """The reverse of ``to_item``."""
    try:
        return {name: int(v) if kind == "N" else v for name, attribute in item.items() for kind, v in attribute.items()}
    except ValueError:
        return {name: _foreign(attribute) for name, attribute in item.items()}


def _foreign(attribute: Mapping[str, Any]) -> Any:
    """Our numbers are whole. One that is not, a later release's, stays text: it must not spoil the rest of its row."""
    ((kind, value),) = attribute.items()
    return int(value) if kind == "N" and value.removeprefix("-").isdigit() else value


def run_row(run: RunRow) -> dict[str, Value]:
    """A run as it is first written."""
    row: dict[str, Value] = {"owner": run.ref.owner, "key": run.ref.key, "state": str(run.state), "rev": run.revision}
    # Most are not set: they are passed over first.
    return row | {n: value for n, value in vars(run).items() if (value or n in _ALWAYS) and n in _PLAIN}


def claim_row(run: RunRow, retention: int) -> dict[str, Value]:
    """A run as it is claimed. One that is passed over is claimed in its end; it is kept for the retention (ms) from its fire on."""
    row = run_row(run)
    if run.is_terminal:
        row["ttl"] = (max(run.due, run.ended_at or 0) + retention) // SECOND
    return row


def run_of(row: Mapping[str, Any]) -> RunRow:
    """A run from its row; attributes of a later release are passed over. Raises Unreadable, TooNew."""
    if "v" in row:
        check_schema(row, "run")
    try:
        return _run_of(row)
    except GARBAGE as problem:
        raise unreadable(f"run {row.get('owner')}#{row.get('key')}", problem) from problem


def readable(rows: Iterable[Mapping[str, Any]], read: Callable[[Mapping[str, Any]], _T], event: str) -> Iterator[_T]:
    """What ``read`` makes of rows; one that cannot be read, of a later release or garbage, is named and hides no other."""
    for row in rows:
        try:
            yield read(row)
        except Unreadable as problem:
            log.error(event, extra={"owner": row.get("owner"), "key": row.get("key"), "error": str(problem)})


def readable_runs(rows: Iterable[Mapping[str, Any]]) -> Iterator[RunRow]:
    """The runs of rows."""
    return readable(rows, run_of, "run.unreadable")


def _run_of(row: Mapping[str, Any]) -> RunRow:
    numbers = {name: row[name] for name in _READ_NUMBERS if name in row}
    texts = {name: row[name] for name in _TEXTS if name in row}
    if not (_INT.issuperset(map(type, numbers.values())) and _STR.issuperset(map(type, texts.values()))):
        raise TypeError("an attribute is not of its type")
    failure = None
    if "error_type" in row:
        failure = Failure(kind=row["error_type"], message=row.get("error", ""), code=row.get("error_code"))
    return RunRow(
        ref=RunRef(row["owner"], row["key"]),
        state=RunState(row["state"]),
        revision=row["rev"],
        failure=failure,
        progress=row["progress"] / 1_000 if "progress" in row else None,
        cancel_requested=bool(row.get("cancel_requested", False)),
        unstarted=bool(row.get("unstarted", False)),
        payload_beside=bool(row.get("payload_beside", False)),
        **numbers,
        **texts,
    )


def attempt_prefix(ref: RunRef) -> str:
    """Sibling rows sort before all runs, so that a listing of runs never reads them."""
    return f"#{ref.key}#attempt#"


def beside_prefix(ref: RunRef) -> str:
    """What lies beside a run: attempts, steps, checkpoint, result, payload."""
    return f"#{ref.key}#"


def beside_key(ref: RunRef, kind: str, name: str) -> RunRef:
    """The row of something beside a run."""
    return RunRef(ref.owner, f"{beside_prefix(ref)}{kind}#{name}")


def beside_of(ref: RunRef, rows: Iterable[Mapping[str, Any]]) -> SiblingRows:
    """All that lies beside a run, from its rows."""
    attempts, steps, kept = [], {}, {}
    for row in rows:
        kind, _, name = row["key"].removeprefix(beside_prefix(ref)).partition("#")
        if kind == "attempt":
            attempts.append(attempt_of(ref, row))
        elif kind == "step":
            steps[name] = row["text"]
        elif "text" in row:
            kept[kind] = row["text"]
    return SiblingRows(
        attempts=tuple(attempts), steps=steps, checkpoint=kept.get("checkpoint"), result=kept.get("result")
    )


def attempt_row(attempt: FailedAttemptRow, expires: int) -> dict[str, Value]:
    """The row of a failed attempt; ``expires`` in epoch seconds."""
    row: dict[str, Value | None] = {
        "owner": attempt.run.owner,
        "key": f"{attempt_prefix(attempt.run)}{attempt.fence:06d}",
        "number": attempt.number,
        "fence": attempt.fence,
        "worker": attempt.worker,
        "started_at": attempt.started_at,
        "ended_at": attempt.ended_at,
        "error_type": attempt.failure.kind,
        "error": attempt.failure.message,
        "traceback": attempt.failure.traceback,
        "error_code": attempt.failure.code,
        "permanent": attempt.failure.permanent,
        "next_attempt_at": attempt.next_attempt_at,
        "ttl": expires,
    }
    return {name: value for name, value in row.items() if value is not None}


def attempt_of(ref: RunRef, row: Mapping[str, Any]) -> FailedAttemptRow:
    return FailedAttemptRow(
        run=ref,
        number=row["number"],
        fence=row["fence"],
        worker=row["worker"],
        started_at=row["started_at"],
        ended_at=row["ended_at"],
        failure=Failure(
            kind=row["error_type"],
            message=row["error"],
            traceback=row.get("traceback", ""),
            code=row.get("error_code"),
            permanent=bool(row.get("permanent", False)),
        ),
        next_attempt_at=row.get("next_attempt_at"),
    )


def shard_key(shard: int) -> str:
    return f"{shard:04d}"


def entry_row(entry: AgendaEntry) -> dict[str, Value]:
    """A chain's entry needs no more than its place and ``after``; of the others it matters how old they are."""
    row: dict[str, Value] = {"shard": shard_key(entry.shard), "entry": entry.key}
    if entry.queue is not None:
        row["queue"] = entry.queue
    if entry.kind is EntryKind.CHAIN:
        return row | {"after": entry.after}
    return row | {"created_at": entry.created_at}


def entry_of(row: Mapping[str, Any], shard: int) -> AgendaEntry:
    """An entry from its row. Raises Unreadable, or TooNew."""
    if "v" in row:
        check_schema(row, "entry")
    try:
        return _entry_of(row, shard)
    except GARBAGE as problem:
        raise unreadable("entry", problem) from problem


def _entry_of(row: Mapping[str, Any], shard: int) -> AgendaEntry:
    due, kind, identity = parse_entry_key(row["entry"])
    return AgendaEntry(
        shard=shard,
        due=due,
        kind=kind,
        id=identity,
        after=int(row.get("after", 0)),
        failures=int(row.get("failures", 0)),
        created_at=int(row.get("created_at", 0)),
        queue=None if row.get("queue") is None else str(row["queue"]),
    )
