"""The history's books: pages and indexes are read as they were written, days are noted, late writes are known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from quarterjack.domain.history.entry import Book
from quarterjack.domain.history.run_change import RunChange
from quarterjack.domain.names import fire_ref
from quarterjack.domain.run import RunState
from quarterjack.domain.times import DAY, HOUR, MINUTE
from quarterjack.historian.pages import LARGE, MANY, pages_of
from quarterjack.history.read import Reading
from quarterjack.ports.services import Services
from quarterjack.state.history.codec import decode, encode
from quarterjack.state.history.entries import entry_of, order_of, placed
from quarterjack.state.history.search import Search, summary_of
from quarterjack.stores.history.pages import HistoryPage, Hour, PagePut, ReadMeter

from tests.support.builders import NOON, OWNER, a_run

TODAY, NOW = NOON // DAY, NOON + HOUR // 2
HOUR_OF_DAY = NOON // HOUR % 24


def some(count: int, *, at: int = NOON, job: str = "report") -> list[PagePut]:
    runs = [
        a_run(at + n, ref=fire_ref(OWNER, at + n), state=RunState.SUCCEEDED, ended_at=at + n, job=job)
        for n in range(count)
    ]
    return list(pages_of(Book.ENDED, [entry_of(run, run.due, 2) for run in runs], NOW, 90 * DAY))


def hours_of(services: Services) -> dict[int, Hour]:
    """The folded hours of the day, by hour."""
    return {hour.number: hour for hour in services.history.hours("acme", Book.ENDED, TODAY, ReadMeter())}


def listed(services: Services, search: Search | None = None) -> list[int]:
    reading = Reading(
        services.history, "acme", Book.ENDED, search or Search(), after=0, upto=NOON + DAY, meter=ReadMeter()
    )
    return [entry.at - NOON for entry in reading.entries()]


def test_pages_of_every_size_are_read_as_they_were_written(services: Services) -> None:
    assert not listed(services)
    services.history.append(some(3))
    assert listed(services) == [2, 1, 0]
    services.history.append(some(LARGE))
    assert listed(services) == list(range(LARGE - 1, -1, -1))
    services.history.append(some(2 * MANY))  # in several partitions
    assert listed(services) == list(range(2 * MANY - 1, -1, -1))
    assert listed(services, Search(job="another")) == []


def test_a_page_that_is_appended_again_replaces_itself(services: Services) -> None:
    for _ in range(2):
        services.history.append(some(2))
    (found,) = services.history.pages("acme", Book.ENDED, TODAY, 1, first=0, last=NOON + DAY, meter=ReadMeter())
    assert len(list(found)) == 1


def test_sequence_numbers_of_forty_digits_are_kept_and_compared(services: Services) -> None:
    """A stream's may be as long; a number of DynamoDB has 38 digits."""
    greatest = 10**40 - 1
    run = a_run(NOON, ref=fire_ref(OWNER, NOON), state=RunState.SUCCEEDED, ended_at=NOON)
    for sequence, error in ((greatest - 1, "first"), (greatest, "last"), (greatest - 2, "before")):
        change = RunChange(ref=run.ref, sequence=sequence, at=NOON, old=None, new=replace(run, reason=error))
        services.history.append(list(pages_of(Book.ENDED, placed([change])[Book.ENDED], NOW, 90 * DAY)))
    reading = Reading(
        services.history, "acme", Book.ENDED, Search(), after=0, upto=NOON + DAY, meter=ReadMeter(), whole=True
    )
    assert [(entry.reason, entry.order) for entry in reading.entries()] == [("last", order_of(greatest))]


def test_days_and_tenants_are_noted(services: Services) -> None:
    meter = ReadMeter()
    services.history.append([*some(1), *some(1, at=NOON + 3 * DAY)])
    days = services.history.days("acme", Book.ENDED, first=0, last=TODAY + 9, meter=meter)
    assert [day.number for day in days] == [TODAY + 3, TODAY]
    assert services.history.days("acme", Book.OPEN, first=0, last=TODAY + 9, meter=meter) == []
    assert list(services.history.tenants(Book.ENDED, TODAY)) == ["acme"]
    assert list(services.history.tenants(Book.OPEN, TODAY)) == []
    assert meter.units == 2


def test_what_is_written_into_a_closed_hour_is_late(services: Services) -> None:
    def late() -> Mapping[int, int]:
        (day,) = services.history.days("acme", Book.ENDED, first=0, last=TODAY, meter=ReadMeter())
        return day.late

    hour = NOON // HOUR
    services.history.close(hour)
    services.history.append(some(1))
    assert late() == {}
    services.history.close(hour + 1)
    services.history.close(hour)  # by a process that stalled
    services.history.append(some(2))  # whatever its clock says
    assert late() == {HOUR_OF_DAY: hour + 2}
    services.history.close(hour + 5)
    services.history.append(some(3))
    assert late() == {HOUR_OF_DAY: hour + 6}
    assert [(one.day, one.written) for one in services.history.late(Book.ENDED)] == [(TODAY, hour + 6)]


def test_an_hour_is_read_as_it_was_folded(services: Services) -> None:
    services.history.append(some(1))
    for count in (3, 900):  # in the index, and beside it
        entries = decode("acme", some(count)[0].body)
        page = HistoryPage(last=entries[-1].at, part=1, body=encode(entries), summary=summary_of(entries))
        hour = Hour(number=HOUR_OF_DAY, folded=NOW // HOUR + count, pages=[page])
        services.history.fold("acme", Book.ENDED, TODAY, hour, NOON + 90 * DAY)
        services.history.note_folded("acme", Book.ENDED, TODAY, hour.folded)
        (day,) = services.history.days("acme", Book.ENDED, first=0, last=TODAY, meter=ReadMeter())
        found = hours_of(services)[HOUR_OF_DAY]
        assert day.folded == found.folded == hour.folded
        assert [one.summary for one in found.pages] == [page.summary]
        assert services.history.bodies(found.pages, ReadMeter()) == [page.body]
        assert len(listed(services)) == count
    older = Hour(number=HOUR_OF_DAY, folded=NOW // HOUR)
    services.history.fold("acme", Book.ENDED, TODAY, older, NOON + 90 * DAY)  # by a process that stalled
    assert hours_of(services)[HOUR_OF_DAY].folded > older.folded


def test_many_folded_hours_are_read_the_latest_first_as_they_are_asked_for(services: Services) -> None:
    for number in range(24):
        services.history.fold("acme", Book.ENDED, TODAY, Hour(number=number, folded=NOW // HOUR), NOON + 90 * DAY)
    meter = ReadMeter()
    found = services.history.hours("acme", Book.ENDED, TODAY, meter, last=22)
    assert next(found).number == 22
    assert meter.requests == 1
    assert [hour.number for hour in found] == list(range(21, -1, -1))
    assert meter.requests in (2, 3)


def test_pages_are_read_between_two_places(services: Services) -> None:
    services.history.append([page for n in range(0, 60, 10) for page in some(1, at=NOON + n * MINUTE)])
    bounds = {"first": NOON + 10 * MINUTE, "last": NOON + 30 * MINUTE}
    (pages,) = services.history.pages("acme", Book.ENDED, TODAY, 1, **bounds, meter=ReadMeter())
    assert [(page.last - NOON) // MINUTE for page in pages] == [30, 20, 10]


def test_totals_of_hours_are_read_by_hour_and_a_stalled_writer_does_not_replace_a_later_count(
    services: Services,
) -> None:
    history, now = services.history, NOON // HOUR
    history.put_totals("acme", TODAY, HOUR_OF_DAY, {"SUCCEEDED": 3, "DEAD": 1}, folded=7)
    history.put_totals("acme", TODAY, HOUR_OF_DAY, {"SUCCEEDED": 2}, folded=6)
    history.put_totals("acme", TODAY - 1, 23, {"LOST": 1}, folded=7)
    history.put_totals("globex", TODAY, HOUR_OF_DAY, {"DEAD": 9}, folded=7)
    meter = ReadMeter()
    assert history.totals("acme", first=now - 48, last=now, meter=meter) == {
        TODAY * 24 - 1: {"LOST": 1},
        now: {"SUCCEEDED": 3, "DEAD": 1},
    }
    assert meter.units == 1
    assert history.totals("acme", first=now, last=now, meter=meter) == {now: {"SUCCEEDED": 3, "DEAD": 1}}
    assert history.totals("acme", first=now + 1, last=now + 9, meter=meter) == {}
    assert not history.stats("acme", first=TODAY, last=TODAY, hourly=True, meter=meter)
