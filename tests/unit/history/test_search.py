"""What a search wants, what a page's summary rules out, and how pages of many runs of one instant are divided."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from quarterjack.domain.history.entry import Book, HistoryEntry, RunKind
from quarterjack.domain.history.run_change import RunChange
from quarterjack.domain.names import aside_ref, fire_ref, one_off_ref
from quarterjack.domain.run import Failure, RunState
from quarterjack.domain.times import DAY, HOUR, from_ms
from quarterjack.errors import TooNew, Unreadable
from quarterjack.historian.context import HistorianContext
from quarterjack.historian.page_compaction import compact_pages
from quarterjack.historian.pages import write_pages
from quarterjack.history.read import Reading, parse_position
from quarterjack.ports.services import Services
from quarterjack.state.history.codec import decode, encode
from quarterjack.state.history.entries import PAGE, PART, corrected, entry_of, order_of, parts
from quarterjack.state.history.search import MOST_NAMES, Search, summary_from, summary_of
from quarterjack.stores.history.pages import ReadMeter
from quarterjack.testing import ManualClock, Memory

from tests.support.builders import NOON, OWNER, a_one_off, a_run


def an_entry(n: int = 0, **changes: Any) -> HistoryEntry:
    given: dict[str, Any] = {"ref": fire_ref(OWNER, NOON + n), "state": RunState.SUCCEEDED, "ended_at": NOON + n}
    tags = changes.pop("tags", {})
    again = changes.pop("again", False)
    run = a_run(NOON + n, **(given | changes))
    return replace(entry_of(run, run.ended_at or 0, order_of(n + 1), again=again), tags=tags)


FAILED = an_entry(
    1,
    state=RunState.DEAD,
    job="pay",
    failure=Failure(kind="ValueError", message="m"),
    tags={"team": "red"},
    ref=aside_ref("acme/billing/a", NOON, "trigger-1"),
)
SEARCHES = [
    Search(states=frozenset({RunState.DEAD})),
    Search(job="pay"),
    Search(schedule="billing/a"),
    Search(prefix="billing/"),
    Search(tag=("team", "red")),
    Search(tag=("team", None)),
    Search(error_type="ValueError"),
    Search(kinds=frozenset({RunKind.TRIGGER})),
]


@pytest.mark.parametrize("search", SEARCHES, ids=str)
def test_a_summary_rules_out_what_is_in_no_entry(search: Search) -> None:
    others = [an_entry(n) for n in range(3)]
    assert not any(search.wants(vars(entry)) for entry in others)
    assert search.wants(vars(FAILED))
    assert not summary_of(others).may_hold(search)
    assert summary_of([*others, FAILED]).may_hold(search)


@pytest.mark.parametrize("search", SEARCHES, ids=str)
def test_a_page_with_changes_is_never_ruled_out(search: Search) -> None:
    assert summary_of([an_entry(), an_entry(1, again=True)]).may_hold(search)


@pytest.mark.parametrize("search", SEARCHES[1:7], ids=str)
def test_a_page_of_very_many_names_is_not_ruled_out_for_their_sake(search: Search) -> None:
    many = [
        an_entry(
            n,
            ref=fire_ref(f"acme/s{n}", NOON),
            job=f"j{n}",
            failure=Failure(kind=f"E{n}", message=""),
            tags={f"k{n}": "v"},
        )
        for n in range(MOST_NAMES + 1)
    ]
    assert summary_of(many).may_hold(search)


def test_a_summary_survives_its_json() -> None:
    summary = summary_of([an_entry(), FAILED])
    assert summary_from(summary.as_list()) == summary


def test_a_correction_lies_between_two_changes() -> None:
    order = order_of(7)
    for _ in range(40):
        assert order <= corrected(order) < order_of(8)
        order = corrected(order)
    assert corrected(order_of(7)) > order_of(7)


def test_entries_of_every_kind_survive_a_page() -> None:
    entries = [
        an_entry(0),
        FAILED,
        an_entry(
            2, ref=aside_ref(OWNER, NOON + 2, "gap"), skipped=5, skipped_until=NOON + HOUR, state=RunState.SKIPPED
        ),
        an_entry(3, backfill="b1", replay_of="acme/~x#once", started_at=NOON, attempt=3, fence=5, reason="ä" * 200),
        an_entry(4, ref=one_off_ref("acme", "k"), due=NOON - 100 * DAY, created_at=0),
        an_entry(5, ref=one_off_ref("acme", "r"), replay_of=str(FAILED.run), app_version="1.4"),
    ]
    assert decode("acme", encode(entries)) == sorted(entries, key=lambda entry: entry.at)
    assert encode(entries) == encode(entries[::-1])
    assert decode("acme", encode([])) == []


@pytest.mark.parametrize(
    ("body", "problem"),
    [(b"", Unreadable), (b"\x02abc", TooNew), (b"\x01abc", Unreadable), (encode([FAILED])[:-5], Unreadable)],
)
def test_a_page_that_cannot_be_read_says_so(body: bytes, problem: type[Exception]) -> None:
    with pytest.raises(problem):
        decode("acme", body)


def test_the_form_of_this_release_stays_readable() -> None:
    """Once 0.2 is released, a change of the columns needs another form."""
    body = bytes.fromhex(FORM_1)
    assert decode("acme", body) == [an_entry(0), FAILED]


FORM_1 = (
    "01958ec10a83300c86df25e7ca5a1141c1c3b07d82b15d4a0f1dab52e854323d0ce99e7d75d681bb2d97fc49f8bffc322532"
    "a5459615394d6928c21499a18292e57e15d4130968861e472070b5ced9ae3d6850611d1615a53bc06b44dbb606130691d468"
    "f7307ea7259cce752d04173c20b838f20feefb65d0cfcd4da33329167a1cbac939bfbf6f9d2df4c6a20998186543ad2eb934"
    "0217ed262310fb9ff33f7245cd301a7d8732c4bf8157ea0d"
)


@pytest.fixture
def services() -> Services:
    return Memory(ManualClock(from_ms(NOON))).connect()


def tell(services: Services, *changes: RunChange) -> None:
    write_pages(changes, HistorianContext(services=services, now=NOON, batch="b"))


def read(services: Services, book: Book) -> Reading:
    return Reading(services.history, "acme", book, Search(), after=0, upto=NOON + DAY, meter=ReadMeter())


def test_runs_of_one_instant_are_listed_once_each(services: Services) -> None:
    runs = [a_one_off(f"k{n}", state=RunState.SUCCEEDED, ended_at=NOON) for n in range(7)]
    tell(services, *(RunChange(ref=run.ref, sequence=n, at=NOON, old=None, new=run) for n, run in enumerate(runs)))
    found, position = [], None
    while True:
        reading = read(services, Book.ENDED)
        entry = next(reading.entries(position), None)
        if entry is None:
            break
        found.append(entry.run)
        position = parse_position(str(reading.position))
    assert found == sorted(run.ref for run in runs)


def test_a_run_that_ended_leaves_the_open_book(services: Services) -> None:
    run = a_one_off()
    tell(services, RunChange(ref=run.ref, sequence=1, at=NOON, old=None, new=run))
    assert [entry.run for entry in read(services, Book.OPEN).entries()] == [run.ref]
    ended = replace(run, state=RunState.CANCELLED, ended_at=NOON)
    tell(services, RunChange(ref=run.ref, sequence=2, at=NOON, old=run, new=ended))
    assert list(read(services, Book.OPEN).entries()) == []


def test_a_run_that_begins_and_ends_in_one_batch_is_in_no_open_book(services: Services) -> None:
    run = a_one_off()
    ended = replace(run, state=RunState.SUCCEEDED, ended_at=NOON)
    tell(
        services,
        RunChange(ref=run.ref, sequence=1, at=NOON, old=None, new=run),
        RunChange(ref=run.ref, sequence=2, at=NOON, old=run, new=ended),
    )
    assert list(services.history.tenants(Book.OPEN, NOON // DAY)) == []


def test_an_hour_is_folded_into_parts_that_do_not_overlap() -> None:
    entries = [an_entry(-(n // 3), job=f"j{n % 3}", again=n % 90 == 0) for n in range(2 * PART + 100)]
    found = list(parts(entries))
    assert sum(len(page) for pages in found for page in pages) == len(entries)
    ends = [(min(e.at for page in pages for e in page), max(e.at for page in pages for e in page)) for pages in found]
    assert all(later[0] > earlier[1] for later, earlier in pairwise(ends))
    for pages in found:
        assert max(map(len, pages)) <= PAGE
        assert {entry.again for entry in pages[0]} == {True}
        assert not any(entry.again for page in pages[1:] for entry in page)
    assert all(len({entry.job for entry in page}) == 1 for pages in found[:2] for page in pages[1:])


def test_a_busy_hour_is_kept_as_it_is(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quarterjack.historian.page_compaction.MOST", 5)
    runs = [a_one_off(f"k{n}", state=RunState.SUCCEEDED, ended_at=NOON + n) for n in range(7)]
    tell(services, *(RunChange(ref=run.ref, sequence=n, at=NOON, old=None, new=run) for n, run in enumerate(runs)))
    report = compact_pages(services, clock=lambda: NOON + 5 * HOUR, budget=HOUR)
    assert (report.hours, report.kept, report.entries) == (1, 1, 0)
    assert len(list(read(services, Book.ENDED).entries())) == len(runs)


def test_a_fold_whose_time_is_over_goes_on_the_next_time(services: Services) -> None:
    runs = [a_run(NOON + n * HOUR, state=RunState.SUCCEEDED, ended_at=NOON + n * HOUR) for n in range(3)]
    tell(services, *(RunChange(ref=run.ref, sequence=n, at=NOON, old=None, new=run) for n, run in enumerate(runs)))
    assert compact_pages(services, clock=lambda: NOON + 2 * DAY, budget=0).stopped == 1
    assert compact_pages(services, clock=lambda: NOON + 2 * DAY, budget=HOUR).hours == 3
    assert compact_pages(services, clock=lambda: NOON + 2 * DAY, budget=HOUR).hours == 0
