"""The streams of the emulator's tables: what MiniStack leaves out of them, added.

In MiniStack (1.5) neither a PartiQL statement's write nor the removal of an expired row reaches the stream of its table, and a snapshot
has no streams. In AWS and in DynamoDB Local both do, and a stream outlives every process. ``complete_streams`` replaces private
functions of ``ministack.services.dynamodb``; a release that lacks one of them is left as it is, and the contract suite fails.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from functools import wraps
from typing import Any

KEPT = 5_000  # changes of each stream in a snapshot, the latest: a snapshot is written anew at every change

_EXPIRY_THREAD = "dynamodb-ttl-reaper"
_SERVICE = {"Type": "Service", "PrincipalId": "dynamodb.amazonaws.com"}
_STATEMENTS = ("_partiql_insert", "_partiql_update", "_partiql_delete")
_NEEDED = (
    *_STATEMENTS,
    *("_execute_transaction", "_set_item", "_remove_item", "_emit_stream_event", "_build_change_record"),
    *("get_state", "_restore_state", "_stream_records", "_stream_trimmed", "AccountRegionScopedDict"),
)

Answer = tuple[int, Any, Any]  # HTTP status, headers, body


def complete_streams(dynamodb: Any) -> None:
    """Let the streams of MiniStack's module of DynamoDB have every write of their tables, and let its snapshots have the streams."""
    if not all(hasattr(dynamodb, name) for name in _NEEDED):
        return
    _Statements(dynamodb).install()
    _mark_expiries(dynamodb)
    _keep_streams(dynamodb)


class _Statements:
    """Notes the items that statements write, and emits them when the statement, or the transaction around it, has succeeded."""

    def __init__(self, dynamodb: Any) -> None:
        self._dynamodb = dynamodb
        self._current = threading.local()  # its `writes`: those of the statement that this thread executes

    def install(self) -> None:
        module = self._dynamodb
        for name in (*_STATEMENTS, "_execute_transaction"):
            setattr(module, name, self._emitting(getattr(module, name)))
        module._set_item = self._noting_put(module._set_item)  # noqa: SLF001 (there is no other way in)
        module._remove_item = self._noting_removal(module._remove_item)  # noqa: SLF001 (the same)

    def _emitting(self, execute: Callable[..., Answer]) -> Callable[..., Answer]:
        @wraps(execute)
        def executed(*args: Any) -> Answer:
            if getattr(self._current, "writes", None) is not None:  # a statement of a transaction, which emits
                return execute(*args)
            writes: list[tuple[Any, ...]] = []  # arguments of _emit_stream_event
            self._current.writes = writes
            try:
                answer = execute(*args)
            finally:
                self._current.writes = None
            if answer[0] == 200:
                for write in writes:
                    self._dynamodb._emit_stream_event(*write)  # noqa: SLF001 (the same)
            return answer

        return executed

    def _noting_put(self, put: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(put)
        def noted(table: Any, partition: str, key: str, item: Any) -> Any:
            old = put(table, partition, key, item)
            self._note(table, old, item)
            return old

        return noted

    def _noting_removal(self, remove: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(remove)
        def noted(table: Any, partition: str, key: str) -> Any:
            old = remove(table, partition, key)
            if old is not None:
                self._note(table, old, None)
            if old is not None and _is_expiry():
                self._dynamodb._emit_stream_event(table["TableName"], "REMOVE", old, None)  # noqa: SLF001 (the same)
            return old

        return noted

    def _note(self, table: Any, old: Any, new: Any) -> None:
        writes = getattr(self._current, "writes", None)
        if writes is not None:
            name = "INSERT" if old is None else "REMOVE" if new is None else "MODIFY"
            writes.append((table["TableName"], name, old, new))


def _is_expiry() -> bool:
    """Whether this is the thread that removes expired rows."""
    return threading.current_thread().name == _EXPIRY_THREAD


def _mark_expiries(dynamodb: Any) -> None:
    """Let a record say that DynamoDB itself removed the row."""
    build = dynamodb._build_change_record  # noqa: SLF001 (the same)

    @wraps(build)
    def built(*args: Any) -> Any:
        record = build(*args)
        return record | {"userIdentity": _SERVICE} if _is_expiry() else record

    dynamodb._build_change_record = built  # noqa: SLF001 (the same)


def _keep_streams(dynamodb: Any) -> None:
    """Let a snapshot have the latest changes of each stream."""
    state, restore = dynamodb.get_state, dynamodb._restore_state  # noqa: SLF001 (the same)
    records, trimmed = dynamodb._stream_records, dynamodb._stream_trimmed  # noqa: SLF001 (the same)

    @wraps(state)
    def get_state() -> Any:
        latest, gone = dynamodb.AccountRegionScopedDict(), dynamodb.AccountRegionScopedDict()
        for place, there in records.all_items():
            left_out = max(0, len(there) - KEPT)
            latest.set_scoped(*place, copy.deepcopy(there[left_out:]))
            gone.set_scoped(*place, trimmed.get_scoped(*place, 0) + left_out)
        return state() | {"stream_records": latest, "stream_trimmed": gone}

    @wraps(restore)
    def _restore_state(data: Any) -> None:
        restore(data)
        records.update((data or {}).get("stream_records", {}))
        trimmed.update((data or {}).get("stream_trimmed", {}))

    dynamodb.get_state, dynamodb._restore_state = get_state, _restore_state  # noqa: SLF001 (the same)
