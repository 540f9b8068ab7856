"""The window of a map: what enters, what leaves, and which runs are its items."""

from __future__ import annotations

from dataclasses import replace

from quarterjack.domain.names import RunRef, one_off_ref
from quarterjack.domain.run import RunRow, RunState
from quarterjack.state.waits.window import ItemWindow, map_of, map_ref
from quarterjack.stores.records import Record, record_row

PARENT = RunRef("acme/s", "20260504T120000000Z")


def window(size: int = 10, at_a_time: int = 3) -> ItemWindow:
    ref = map_ref(PARENT, "resize")
    return ItemWindow(ref=ref, parent=PARENT, step="resize", job="resize", digest="0a", size=size, at_a_time=at_a_time)


def run(ref: RunRef, number: int, parent: RunRef = PARENT) -> RunRow:
    return RunRow(
        ref=ref, state=RunState.QUEUED, revision=0, job="j", due=0, not_before=0, parent=str(parent), child_no=number
    )


def test_items_enter_in_their_order_as_others_end() -> None:
    first = window().entered()
    assert (first.open, first.cursor, first.room) == ((1, 2, 3), 3, 0)
    second = first.counted({2: "S", 9: "S"}).entered()
    assert (second.open, second.cursor) == ((1, 3, 4), 4)
    last = second.counted({1: "S", 3: "S", 4: "S"}).entered().counted({5: "S", 6: "S", 7: "S"}).entered()
    assert (last.open, last.cursor, last.is_over) == ((8, 9, 10), 10, False)
    assert last.counted({8: "S", 9: "S", 10: "S"}).is_over


def test_an_end_is_counted_once() -> None:
    counted = window().entered().counted({1: "D"})
    assert counted.counted({1: "D"}) == counted
    assert (counted.failed, counted.first_failed) == (1, 1)


def test_a_failure_stops_only_a_map_that_stops() -> None:
    going = window().entered().counted({3: "D", 2: "C"})
    assert (going.failed, going.first_failed, going.room) == (2, 2, 2)
    stopped = replace(going, stops=True)
    assert (stopped.room, stopped.is_over, stopped.counted({1: "S"}).is_over) == (0, False, True)


def test_a_window_is_what_its_record_says() -> None:
    for each in (window(), window(size=1), window().entered().counted({1: "D"})):
        assert ItemWindow.of_body(each.ref, each.as_body(), 0) == each


def test_the_record_of_a_hundred_at_a_time_is_a_write_unit() -> None:
    opened = replace(window(size=100_000, at_a_time=100), open=tuple(range(90_000, 90_200, 2)), cursor=90_200)
    opened = replace(opened, let_in=tuple(number - 150 for number in opened.open))
    row = record_row(Record(owner=opened.ref.owner, key="~window", version=90_000, body=opened.as_body(), expires=1))
    assert sum(len(name) + len(str(each)) for name, each in row.items()) < 1_024


def test_items_of_maps_are_known_by_their_ids() -> None:
    each = window()
    assert map_of(run(each.item(7), 7)) == each.ref
    assert map_of(run(each.item(100_000), 100_000)) == each.ref
    assert map_of(run(each.item(7), 8)) is None
    assert map_of(run(each.item(7), 7, parent=each.ref)) is None, "the item of a batch with that key"
    assert map_of(run(one_off_ref("acme", "nightly:1f:00007"), 7)) is None, "a task"
    assert map_of(run(one_off_ref("acme", "0a"), 7)) is None, "a child"
