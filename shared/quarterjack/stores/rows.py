"""Runs, attempts and agenda entries as rows of DynamoDB and back. Empty attributes are not written: a row is billed by size."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from quarterjack.domain.message import GARBAGE, check_schema, unreadable
from quarterjack.domain.names import RunRef
from quarterjack.domain.payload import tags_of
from quarterjack.domain.policies import Priority
from quarterjack.domain.run import (
    AgendaEntry,
    EntryKind,
    Failure,
    RunRow,
    RunState,
    parse_entry_key,
)
from quarterjack.domain.times import SECOND
from quarterjack.errors import QuarterjackError, TooNew, Unreadable
from quarterjack.state.transition import Value
from quarterjack.stores.tables import TABLES

log = logging.getLogger(__name__)

_P = ParamSpec("_P")
_T = TypeVar("_T")
OnUnread = Callable[[Mapping[str, Any], Unreadable], None]  # a row, and why it cannot be read

_KEYS = dict.fromkeys(name for table in TABLES for name in (table.hash_key, table.range_key))
_LOGGED = {"name": "schedule"}  # a record of the log has a name of its own
_SHOWN = 10  # problems that one error names

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
    "published_at",
    "turn_waited_since",
    "ended_at",
    "scheduled_at",
    "skipped",
    "skipped_until",
    "defined_by",
    "child_no",
    "wait_no",
    "wake_at",
    "parked_at",
    "asked_before",
)
_TEXTS = (
    *("job", "lease_token", "reason", "payload", "payload_ref", "overrides", "worker"),
    *("result", "result_ref", "stage", "replay_of", "timezone", "backfill", "queue", "act", "actor"),
    *("parent", "awaits", "asked", "unique", "app_version", "tags"),
)
_PLAIN = frozenset((*_NUMBERS, *_TEXTS))

# Of the attributes that a field of the same name takes as they are.
_TYPES: Mapping[str, type] = {
    **dict.fromkeys((*_NUMBERS, "buried_at", "slices", "relisted"), int),
    **dict.fromkeys(_TEXTS, str),
}


def present(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row without the attributes that are None: these are not stored."""
    if None not in row.values():
        return dict(row)
    return {name: value for name, value in row.items() if value is not None}


def reads(
    what: str,
) -> Callable[[Callable[Concatenate[Mapping[str, Any], _P], _T]], Callable[Concatenate[Mapping[str, Any], _P], _T]]:
    """Decorate a function that makes an object from a row: Unreadable for a row that is no such object, TooNew for a later schema.

    ``what`` names the object for the error, with the row's attributes in braces.
    """

    def decorate(
        parse: Callable[Concatenate[Mapping[str, Any], _P], _T],
    ) -> Callable[Concatenate[Mapping[str, Any], _P], _T]:
        @wraps(parse)
        def read(row: Mapping[str, Any], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
            if "v" in row:
                check_schema(row, what.format_map(defaultdict(lambda: None, row)))
            try:
                return parse(row, *args, **kwargs)
            except (*GARBAGE, QuarterjackError) as problem:
                raise unreadable(what.format_map(defaultdict(lambda: None, row)), problem) from problem

        return read

    return decorate


def run_key(ref: RunRef) -> dict[str, Any]:
    """The key of a run's row."""
    return {"owner": ref.owner, "key": ref.key}


def run_ref(row: Mapping[str, Any]) -> RunRef:
    """The reverse of ``run_key``."""
    return RunRef(row["owner"], row["key"])


def run_row(run: RunRow) -> dict[str, Value]:
    """A run as it is first written. Zeros are not, but where conditions compare them."""
    row: dict[str, Value] = {"owner": run.ref.owner, "key": run.ref.key, "state": str(run.state), "rev": run.revision}
    row |= {"due": run.due, "not_before": run.not_before, "fence": run.fence, "attempt": run.attempt}
    fields = vars(run)
    set_fields = filter(fields.get, fields)  # most are not
    return row | {name: fields[name] for name in set_fields if name in _PLAIN}


def claim_row(run: RunRow, retention: int) -> dict[str, Value]:
    """A run as it is claimed. A skipped fire is claimed in its terminal state; it is kept for the retention (ms) from its fire on."""
    row = run_row(run)
    if run.is_terminal:
        row["ttl"] = (max(run.due, run.ended_at or 0) + retention) // SECOND
    if run.payload_beside:  # it was put before: of an item of a map
        row["payload_beside"] = True
    return row


def passed_over(row: Mapping[str, Any], problem: Unreadable) -> None:
    """Of who need not know which rows cannot be read."""


def readable(
    rows: Iterable[Mapping[str, Any]],
    read: Callable[[Mapping[str, Any]], _T],
    event: str,
    on_unread: OnUnread = passed_over,
) -> Iterator[_T]:
    """The objects that ``read`` makes of rows. A row that cannot be read, of a later release or garbage, is logged and left out.

    Who must not leave out any is told of it by ``on_unread``.
    """
    for row in rows:
        try:
            yield read(row)
        except Unreadable as problem:
            key = {_LOGGED.get(name, name): row[name] for name in _KEYS if name in row}
            log.error(event, extra=key | {"error": str(problem)})
            on_unread(row, problem)


def refuse_unread(problems: Collection[Unreadable], what: str) -> None:
    """Raise the problems of ``what``, rows that a complete reading may not leave out, as one: TooNew, or Unreadable if none is."""
    if problems:
        kind = TooNew if any(isinstance(problem, TooNew) for problem in problems) else Unreadable
        shown = "; ".join(sorted(map(str, problems))[:_SHOWN])
        more = "" if len(problems) <= _SHOWN else f"; and {len(problems) - _SHOWN} more"
        raise kind(f"{len(problems)} {what} cannot be read: {shown}{more}")


@reads("run {owner}#{key}")
def run_of(row: Mapping[str, Any]) -> RunRow:
    """A run from its row; attributes of a later release are ignored. Raises Unreadable, TooNew."""
    fields = {name: row[name] for name in _TYPES.keys() & row.keys()}
    if [*map(type, fields.values())] != [*map(_TYPES.get, fields)]:
        raise TypeError("an attribute is not of its type")
    tags_of(fields.get("tags"))
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
        **fields,
    )


def readable_runs(rows: Iterable[Mapping[str, Any]], on_unread: OnUnread = passed_over) -> Iterator[RunRow]:
    """The runs of rows."""
    return readable(rows, run_of, "run.unreadable", on_unread)


def shard_key(shard: int | str) -> str:
    """The partition of a shard's entries, or of a wait queue."""
    return shard if isinstance(shard, str) else f"{shard:04d}"


def entry_row(entry: AgendaEntry) -> dict[str, Value]:
    """An entry as a row: a chain's entry has ``after``, the others have their age."""
    row: dict[str, Value] = {"shard": shard_key(entry.shard), "entry": entry.key}
    if entry.queue is not None:
        row["queue"] = entry.queue
    if entry.job is not None:
        row["job"] = entry.job
    if entry.priority is not Priority.NORMAL:
        row["priority"] = str(entry.priority)
    if entry.kind is EntryKind.CHAIN:
        row["after"] = entry.after
    else:
        row["created_at"] = entry.created_at
    return row


@reads("entry {entry}")
def entry_of(row: Mapping[str, Any]) -> AgendaEntry:
    """An entry from its row. Raises Unreadable, TooNew."""
    due, kind, identity = parse_entry_key(row["entry"])
    return AgendaEntry(
        shard=int(row["shard"]) if row["shard"].isdecimal() else str(row["shard"]),
        due=due,
        kind=kind,
        id=identity,
        after=int(row.get("after", 0)),
        failures=int(row.get("failures", 0)),
        created_at=int(row.get("created_at", 0)),
        queue=None if row.get("queue") is None else str(row["queue"]),
        job=None if row.get("job") is None else str(row["job"]),
        priority=Priority(row["priority"]) if "priority" in row else Priority.NORMAL,
    )
