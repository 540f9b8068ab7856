"""The calendar: what fires when, by hour, day and search; and what runs between two times."""

from __future__ import annotations

import html
import re
from datetime import UTC, date, datetime, timedelta
from functools import cache
from typing import Any

import pytest
from quarterjack import Rule
from quarterjack.console.count_charts import load_bars, load_words, short_count
from quarterjack.console.pages.fires import firing
from quarterjack.sdk.schedules.forecast_views import ForecastSpan

from tests.support.api import NOON
from tests.support.console import Browser

HOUR = timedelta(hours=1)
BERLIN = "zone=Europe/Berlin"


def console() -> Browser:
    """Of Monday 4 May 2026, 12:00 UTC."""
    browser = Browser()
    given: dict[str, Any] = {"payload": {"to": "Ada"}, "timezone": "Europe/Berlin"}
    browser.scheduler.create_schedule("nightly", "greet", "30 2 * * *", tags={"team": "a"}, **given)
    browser.scheduler.create_schedule("often", "greet", "*/10 6-20 * * 1-5", **given)
    browser.scheduler.create_schedule("over", "greet", "0 0 1 1 *", **given)
    browser.scheduler.pause_schedule("over")
    return browser


@cache
def same() -> Browser:
    """One that no test changes: an application takes half a second."""
    return console()


def rows(page: str) -> dict[str, list[str]]:
    """The cells of the heat map by day, as one reads them."""
    table = page.partition('<table class="heat">')[2].partition("</table>")[0].partition("<tbody>")[2]
    found = {}
    for row in re.findall(r"<tr>(.*?)</tr>", table, re.DOTALL):
        head, *cells = re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)
        found[text(head)] = [text(cell) for cell in cells]
    return found


def text(markup: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", markup)).split())


def link(page: str, label: str) -> str:
    found = re.search(rf'<a [^>]*href="/console/t/default/([^"]+)"[^>]*aria-label="{re.escape(label)}"', page)
    assert found, page
    return html.unescape(found[1])


def test_a_week_by_the_hour_of_a_zone() -> None:
    page = same().get(f"calendar?{BERLIN}")
    found = rows(page)
    assert list(found) == ["Mon 4 May", "Tue 5 May", "Wed 6 May", "Thu 7 May", "Fri 8 May", "Sat 9 May", "Sun 10 May"]
    assert found["Mon 4 May"] == [*["past"] * 14, "5", *["6"] * 6, *["·"] * 3, "41"], "since 14:00, which was claimed"
    assert found["Tue 5 May"] == ["·", "·", "1", *["·"] * 3, *["6"] * 15, *["·"] * 3, "91"]
    assert found["Sun 10 May"][-1] == "1"
    assert "<strong>407</strong>" in page
    assert "2 schedules" in page
    assert "None in Europe/Berlin in this time." in page
    assert page.count("2026-05-04 14:00") >= 2
    assert 'name="from" type="datetime-local" value="2026-05-05T02:00"' in page, "tomorrow's maintenance"


def test_a_cell_leads_to_the_schedules_that_fire_in_it() -> None:
    browser = same()
    address = link(browser.get(f"calendar?{BERLIN}&q=tag:team"), "1 fire, Tue 5 02:00")
    assert address == (
        "calendar/fires?q=tag%3Ateam&zone=Europe%2FBerlin&from=2026-05-05T00%3A00%3A00Z&to=2026-05-05T01%3A00%3A00Z"
    )
    page = browser.get(address)
    assert "1 fire of 1 schedule" in page
    assert text(page.partition("<tbody>")[2].partition("</tr>")[0]) == (
        "2026-05-05 02:30:00 Europe/Berlin nightly greet 30 2 * * * 1"
    )
    assert (
        "quarterjack forecast --since 2026-05-05T00:00:00Z --until 2026-05-05T01:00:00Z --timezone Europe/Berlin"
        in page
    )


def test_a_month_with_holidays_peaks_and_quiet_times() -> None:
    page = same().get(f"calendar?{BERLIN}&show=month&holidays=DE-BY")
    found = rows(page)
    assert len(found) == 31
    assert "Thu 14 May Ascension Day" in found
    assert "Quiet times" in page
    longest = text(page.partition("Longest quiet time")[2].partition("</div>")[0])
    assert longest == "23 h from 2026-05-09 03:00 Europe/Berlin"
    peaks = page.partition("<h2>Peaks</h2>")[2].partition("</ul>")[0]
    assert peaks.count("6 fires") == 5


def test_days_on_which_the_clocks_change() -> None:
    page = same().get(f"calendar?{BERLIN}&from=2027-03-27&q=nightly")
    found = rows(page)
    assert found["Sun 28 Mar clocks go forward from 02:00 to 03:00"][2:4] == ["no such hour", "1"]
    autumn = same().get(f"calendar?{BERLIN}&from=2026-10-24&q=often")
    (day,) = [name for name in rows(autumn) if name.startswith("Sun 25 Oct")]
    assert day == "Sun 25 Oct clocks go back from 03:00 to 02:00"
    address = link(autumn, "0 fires, Sun 25 02:00")
    assert address.endswith("from=2026-10-25T00%3A00%3A00Z&to=2026-10-25T02%3A00%3A00Z"), "two hours of elapsed time"


def test_what_would_run_between_two_times() -> None:
    browser = same()
    page = browser.get(f"calendar/fires?from=2026-05-05T02:00&to=2026-05-05T06:30&{BERLIN}")
    assert [text(row) for row in re.findall(r"<tr>(<td.*?)</tr>", page, re.DOTALL)] == [
        "2026-05-05 02:30:00 Europe/Berlin nightly greet 30 2 * * * 1",
        "2026-05-05 06:00:00 Europe/Berlin often greet */10 6-20 * * 1-5 3",
    ]
    assert "4 fires, the most 3 from Tue 5 May 06:00 on; 3 of 5 parts are quiet" in page
    quiet = browser.get(f"calendar/fires?from=2026-05-05T03:00&to=2026-05-05T04:00&{BERLIN}")
    assert "A maintenance window fits here." in quiet
    assert "1 schedule is paused" in quiet
    assert "30 2 * * *" in browser.get(f"calendar/fires?{BERLIN}"), "tomorrow from two to four"
    assert "0 fires of 0 schedules" in browser.get("calendar/fires?from=2026-05-05T21:00"), "an hour"


def test_of_many_the_first_are_listed_and_all_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quarterjack.console.pages.fires.firing.ROWS", 2)
    browser = Browser()
    for number in range(4):
        browser.scheduler.create_schedule(f"s{number}", "greet", f"{number} * * * *", payload={"to": "Ada"})
    page = browser.get("calendar/fires?from=2026-05-04T13:00Z")
    assert "4 fires of 4 schedules" in page
    assert "The first 2 of 4 are listed." in page
    address = re.search(r'href="/console/t/default/([^"]+)">List up to 1,000', page)
    assert address
    assert ">s3<" in browser.get(html.unescape(address[1]))
    monkeypatch.setattr("quarterjack.console.pages.fires.firing._READ", 3)
    page = browser.get("calendar/fires?from=2026-05-04T13:00Z")
    assert "The first 3 schedules are counted." in page
    following = re.search(r'href="/console/t/default/([^"]+)">count the next ones', page)
    assert following
    page = browser.get(html.unescape(following[1]))
    assert "These are further schedules, 1 of them." in page
    assert "1 fire of 1 schedule" in page
    whole = re.search(r'href="/console/t/default/([^"]+)">count up to 10,000 at once', page)
    assert whole
    page = browser.get(html.unescape(whole[1]))
    assert "4 fires of 4 schedules" in page
    assert "counted" not in page
    assert "count=all" in link(browser.get("calendar?count=all"), "4 fires, Mon 4 13:00")


@pytest.mark.parametrize("page", ["calendar", "calendar/fires"])
@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("zone=Berlin", "is not a zone"),
        ("q=state:paused", "names a state, which a forecast does not filter by"),
        ("q=tag:", "nothing behind the colon"),
        ("from=soon", "is not a "),
        ("from=2020-01-01&to=2020-01-02", "is past"),
        ("cursor=x", "is not of this listing"),
        ("count=some", "Use all, or leave it out"),
    ],
)
def test_what_cannot_be_read_is_shown_with_its_fault(page: str, query: str, said: str) -> None:
    found = same().get(f"{page}?{query}", 422)
    if said == "is past" and page == "calendar/fires":
        said = "is not after since and now"
    assert said in html.unescape(found)
    assert 'role="alert"' in found


@pytest.mark.parametrize(
    ("query", "said"), [("show=year", "Use one of week, month"), ("holidays=XX", "not a known calendar")]
)
def test_what_only_the_calendar_asks(query: str, said: str) -> None:
    assert said in html.unescape(same().get(f"calendar?{query}", 422))


def test_the_end_is_after_the_beginning() -> None:
    said = same().get("calendar/fires?from=2026-05-05T02:00&to=2026-05-05T02:00", 422)
    assert "is not after the beginning" in said


def test_earlier_and_later_days() -> None:
    browser = same()
    page = browser.get(f"calendar?{BERLIN}")
    assert '<span class="button quiet" aria-disabled="true">Earlier</span>' in page
    later = re.search(r'href="/console/t/default/([^"]+)">Later', page)
    assert later
    page = browser.get(html.unescape(later[1]))
    assert next(iter(rows(page))) == "Mon 11 May"
    earlier = re.search(r'href="/console/t/default/([^"]+)">Earlier', page)
    assert earlier
    assert html.unescape(earlier[1]) == "calendar?zone=Europe%2FBerlin", "today"


def test_without_a_schedule_it_says_what_to_do() -> None:
    empty = Browser()
    assert "quarterjack schedules create" in empty.get("calendar")
    assert "quarterjack schedules create" in empty.get("calendar/fires")
    assert "Nothing matches" in same().get("calendar?q=nowhere")


def test_a_freeze_and_what_is_not_counted_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    browser = console()
    browser.scheduler.freeze(NOON + HOUR)
    assert "Frozen until" in browser.get("calendar")
    browser.scheduler.create_schedule(
        "dense", "greet", Rule.of("* * * * * *", exclude=["5 5 5 * * *"]), payload={"to": "Ada"}
    )
    monkeypatch.setattr("quarterjack.sdk.schedules.forecast._STEPS_OF_ONE", 1_000)
    page = browser.get("calendar")
    assert "Not counted" in page
    assert '<a href="/console/t/default/schedule/dense">dense</a>' in page


def test_names_are_text() -> None:
    page = same().get("calendar?q=%3Cscript%3E&holidays=%22%3E", 422)
    assert "<script>" not in page.partition("<main")[2]


def spans(*fires: int) -> list[ForecastSpan]:
    return [ForecastSpan(start=NOON + n * HOUR, end=NOON + (n + 1) * HOUR, fires=f) for n, f in enumerate(fires)]


def test_the_drawing_of_some_spans() -> None:
    drawn = str(load_bars(spans(0, 2, 4)))
    assert drawn.count("<path") == 1
    assert 'd="M333.3 100V50.0h266.7V100zM666.7 100V0.0h266.7V100z"' in drawn
    assert "6 fires, the most 4 from Mon 4 May 14:00 on; 1 of 3 parts are quiet" in drawn
    assert load_words(spans(0, 0)) == load_words([]) == "no fires"
    assert str(load_bars([])).count("<path") == 1


def test_counts_of_four_characters() -> None:
    numbers = [0, 999, 1_000, 9_949, 9_950, 99_999, 999_999, 1_000_000, 32_260_443, 5_000_000_000]
    assert [short_count(number) for number in numbers] == (
        ["0", "999", "1.0k", "9.9k", "10k", "100k", "1000k", "1.0M", "32M", "5.0G"]
    )


def test_days_of_an_address() -> None:
    assert firing.day_of(None, datetime(2026, 5, 4, 23, tzinfo=UTC), UTC) == date(2026, 5, 4)
