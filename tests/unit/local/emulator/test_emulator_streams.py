"""The emulator's streams: statements that fail leave nothing, expiry is marked, and a snapshot has the latest changes."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from quarterjack.local.emulator import streams
from quarterjack.local.emulator.streams import complete_streams


class Scoped(dict[tuple[str, str, str], Any]):
    """As MiniStack's dictionaries by account, region and name."""

    all_items = dict.items

    def set_scoped(self, account: str, region: str, name: str, value: Any) -> None:
        self[account, region, name] = value

    def get_scoped(self, account: str, region: str, name: str, default: Any) -> Any:
        return self.get((account, region, name), default)


class Emulator(SimpleNamespace):
    """The functions of MiniStack's module that are replaced, over one table."""

    def __init__(self) -> None:
        self.table: dict[str, Any] = {"TableName": "runs", "items": {}}
        self.emitted: list[dict[str, Any]] = []
        self.restored: list[Any] = []
        super().__init__(
            _set_item=self._set,
            _remove_item=lambda table, partition, key: table["items"].pop((partition, key), None),
            _partiql_insert=lambda key, item: self._written(key, item, 200),
            _partiql_update=lambda key, item: self._written(key, item, 400),
            _partiql_delete=lambda key: (self._remove_item(self.table, "a", key), (200, {}, b""))[1],
            _execute_transaction=lambda status: (self._partiql_insert("t", "item"), (status, {}, b""))[1],
            _build_change_record=lambda name, old, new: {"name": name, "old": old, "new": new},
            _emit_stream_event=lambda _, *change: self.emitted.append(self._build_change_record(*change)),
            get_state=lambda: {"tables": 1},
            _restore_state=self.restored.append,
            _stream_records=Scoped(),
            _stream_trimmed=Scoped(),
            AccountRegionScopedDict=Scoped,
        )

    def _set(self, table: Any, partition: str, key: str, item: Any) -> Any:
        old = table["items"].get((partition, key))
        table["items"][partition, key] = item
        return old

    def _written(self, key: str, item: str, status: int) -> Any:
        self._set_item(self.table, "a", key, item)
        return status, {}, b""


@pytest.fixture
def emulator() -> Any:
    made = Emulator()
    complete_streams(made)
    return made


def test_a_statement_that_succeeds_is_emitted_once(emulator: Any) -> None:
    assert emulator._partiql_insert("k", "one") == (200, {}, b"")
    emulator._partiql_insert("k", "two")
    emulator._partiql_delete("k")
    emulator._partiql_delete("k")
    assert emulator.emitted == [
        {"name": "INSERT", "old": None, "new": "one"},
        {"name": "MODIFY", "old": "one", "new": "two"},
        {"name": "REMOVE", "old": "two", "new": None},
    ]


def test_a_statement_or_a_transaction_that_fails_is_not(emulator: Any) -> None:
    emulator._partiql_update("k", "one")
    emulator._execute_transaction(400)
    assert emulator.emitted == []
    emulator._execute_transaction(200)
    assert len(emulator.emitted) == 1


def test_a_statement_that_raises_leaves_nothing_for_the_next_one(emulator: Any) -> None:
    with pytest.raises(TypeError):
        emulator._partiql_insert("k", "one", "too much")
    emulator._set_item(emulator.table, "a", "k", "put by its own request, which emits by itself")
    assert emulator.emitted == []


def test_the_removal_of_an_expired_row_is_emitted_and_marked(emulator: Any) -> None:
    emulator._set_item(emulator.table, "a", "k", "one")
    emulator._remove_item(emulator.table, "a", "other")
    reaper = threading.Thread(target=emulator._remove_item, args=(emulator.table, "a", "k"), name="dynamodb-ttl-reaper")
    reaper.start()
    reaper.join()
    service = {"Type": "Service", "PrincipalId": "dynamodb.amazonaws.com"}
    assert emulator.emitted == [{"name": "REMOVE", "old": "one", "new": None, "userIdentity": service}]


def test_a_snapshot_has_the_latest_changes_and_how_many_went_before(
    emulator: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "KEPT", 2)
    place = ("1", "us-east-1", "runs")
    emulator._stream_records[place], emulator._stream_trimmed[place] = ["a", "b", "c"], 7
    state = emulator.get_state()
    assert state == {"tables": 1, "stream_records": {place: ["b", "c"]}, "stream_trimmed": {place: 8}}
    other = Emulator()
    complete_streams(other)
    other._restore_state(state)
    assert (other._stream_records, other._stream_trimmed) == ({place: ["b", "c"]}, {place: 8})
    assert other.restored == [state]
    other._restore_state(None)


def test_a_release_that_works_otherwise_is_left_as_it_is() -> None:
    module = SimpleNamespace(_set_item=len)
    complete_streams(module)
    assert module._set_item is len
