"""The history's books: pages by place, days and late hours noted, later folds are not replaced."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pytest
from quarterjack.domain.history.entry import Book
from quarterjack.domain.names import fire_ref
from quarterjack.domain.run import RunState
from quarterjack.domain.times import DAY, HOUR
from quarterjack.errors import Unavailable
from quarterjack.historian.pages import LARGE, pages_of
from quarterjack.ports.services import Services
from quarterjack.state.history.entries import entry_of
from quarterjack.stores.history.books import INLINE
from quarterjack.stores.history.pages import HistoryPage, Hour, PagePut, ReadMeter
from quarterjack.testing.memory.calls import Detail, Hook
from quarterjack.testing.memory.installation import Memory

from tests.support.builders import NOON, OWNER, a_run

TODAY, THIS_HOUR = NOON // DAY, NOON // HOUR
EXPIRES = NOON + 90 * DAY


def pages(count: int = 1, at: int = NOON) -> list[PagePut]:
    runs = [a_run(at + n, ref=fire_ref(OWNER, at + n), state=RunState.SUCCEEDED, ended_at=at + n) for n in range(count)]
    return list(pages_of(Book.ENDED, [entry_of(run, run.due, 2) for run in runs], NOON, 90 * DAY))


def appended(services: Services, *, first: int = 0, last: int = NOON + DAY) -> list[HistoryPage]:
    found = services.history.pages("acme", Book.ENDED, TODAY, 8, first=first, last=last, meter=ReadMeter())
    return [page for partition in found for page in partition]


def hour(services: Services) -> Hour:
    (found,) = services.history.hours("acme", Book.ENDED, TODAY, ReadMeter())
    return found


def test_pages_are_read_by_their_latest_place(services: Services) -> None:
    early, late = pages(at=NOON), pages(at=NOON + 10)
    services.history.append([*early, *late])
    services.history.append(late)
    assert [page.last for page in appended(services)] == [NOON + 10, NOON], "a page that comes twice is one"
    assert [page.last for page in appended(services, last=NOON + 9)] == [NOON]
    assert [page.last for page in appended(services, first=NOON + 1)] == [NOON + 10]
    assert services.history.bodies(appended(services), ReadMeter()) == [late[0].body, early[0].body]


class Refusing(Hook):
    """The first item of each batch of pages is not accepted."""

    def before_call(self, operation: str, detail: Detail) -> Collection[int]:
        return [0] if detail.verb == "append" else ()


def test_a_page_that_was_not_accepted_is_missed(memory: Memory) -> None:
    with pytest.raises(Unavailable, match="1 of 2 pages"):
        memory.connect(Refusing()).history.append([*pages(), *pages(at=NOON + 1)])


def test_the_body_of_a_large_page_lies_beside_its_summary(services: Services) -> None:
    large = pages(LARGE)
    services.history.append(large)
    (page,) = appended(services)
    assert page.body is None
    assert page.summary == large[0].summary
    assert services.history.bodies([page], ReadMeter()) == [large[0].body]
    with pytest.raises(Unavailable, match="1 of 1"):
        services.history.bodies([replace(page, key="b#none")], ReadMeter())


def test_days_and_tenants_of_pages_are_noted(services: Services) -> None:
    services.history.append([replace(page, spread=True) for page in pages()] + pages(at=NOON - DAY))
    days = services.history.days("acme", Book.ENDED, first=0, last=TODAY, meter=ReadMeter())
    assert [(day.number, day.spreads) for day in days] == [(TODAY, 8), (TODAY - 1, 1)]
    assert services.history.days("acme", Book.ENDED, first=TODAY + 1, last=TODAY, meter=ReadMeter()) == []
    assert list(services.history.tenants(Book.ENDED, TODAY)) == ["acme"]
    assert list(services.history.tenants(Book.ENDED, TODAY, begin="b")) == []


def test_what_comes_after_its_hour_was_closed_is_noted_as_late(services: Services) -> None:
    services.history.append(pages())
    assert list(services.history.late(Book.ENDED)) == []
    services.history.close(THIS_HOUR + 1)
    services.history.close(THIS_HOUR)  # a slower process
    services.history.append(pages(at=NOON + 1))
    (late,) = services.history.late(Book.ENDED)
    assert (late.tenant, late.day, late.written) == ("acme", TODAY, THIS_HOUR + 2)
    (day,) = services.history.days("acme", Book.ENDED, first=TODAY, last=TODAY, meter=ReadMeter())
    assert day.late == {THIS_HOUR % 24: THIS_HOUR + 2}
    services.history.forget_late(replace(late, written=late.written - 1))
    assert list(services.history.late(Book.ENDED)) == [late]
    services.history.forget_late(late)
    assert list(services.history.late(Book.ENDED)) == []


@pytest.mark.parametrize("size", [1, INLINE + 1])
def test_a_folded_hour_is_read_as_it_was_stored_and_not_replaced_by_an_earlier_fold(
    services: Services, size: int
) -> None:
    (put,) = pages(LARGE)
    page = HistoryPage(last=put.last, part=1, body=b"x" * size, summary=put.summary)
    folded = Hour(number=3, folded=THIS_HOUR, pages=[page])
    services.history.fold("acme", Book.ENDED, TODAY, folded, EXPIRES)
    assert services.history.bodies(hour(services).pages, ReadMeter()) == [b"x" * size]
    assert (hour(services).number, hour(services).folded, hour(services).pages[0].part) == (3, THIS_HOUR, 1)
    services.history.fold("acme", Book.ENDED, TODAY, replace(folded, folded=THIS_HOUR - 1, pages=[]), EXPIRES)
    assert hour(services).folded == THIS_HOUR
    assert list(services.history.hours("acme", Book.ENDED, TODAY, ReadMeter(), first=4)) == []
    services.history.append(pages())
    services.history.note_folded("acme", Book.ENDED, TODAY, THIS_HOUR)
    (day,) = services.history.days("acme", Book.ENDED, first=TODAY, last=TODAY, meter=ReadMeter())
    assert day.folded == THIS_HOUR


def test_statistics_and_totals_are_those_of_the_latest_fold(services: Services) -> None:
    def put(folded: int, body: bytes, runs: int) -> None:
        services.history.put_stats("acme", TODAY, 3, [body, body], folded)
        services.history.put_stats("acme", TODAY, None, [body], folded)
        services.history.put_totals("acme", TODAY, 3, {"SUCCEEDED": runs}, folded)

    for folded, body, runs in ((5, b"new", 2), (4, b"old", 1)):
        put(folded, body, runs)
    meter = ReadMeter()
    how = {"first": TODAY, "last": TODAY, "meter": meter}
    assert services.history.stats("acme", hourly=True, **how) == {(TODAY, 3): [b"new", b"new"]}  # type: ignore[arg-type]
    assert services.history.stats("acme", hourly=False, **how) == {(TODAY, None): [b"new"]}  # type: ignore[arg-type]
    totals = services.history.totals("acme", first=TODAY * 24, last=TODAY * 24 + 3, meter=meter)
    assert totals == {TODAY * 24 + 3: {"SUCCEEDED": 2}}
    assert services.history.totals("acme", first=TODAY * 24, last=TODAY * 24 + 2, meter=meter) == {}
    assert meter.requests == 4
