"""The page of a schedule: what its runs took, what changed and by whom, fires around a clock change, and its deletion."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from quarterjack import Tenants
from quarterjack.console.pages.schedules.detail import charts, differences
from quarterjack.console.run_charts import Dot, DotChart, percentile
from quarterjack.timing import Rule
from quarterjack.web import Actor

from tests.support.api import NOON
from tests.support.console import Browser

PAGE = "schedule/team~a"


def console(**options: Any) -> Browser:
    browser = Browser(**options)
    browser.scheduler.create_schedule(
        "team/a", "greet", "0 * * * *", timezone="Europe/Berlin", payload={"to": "Ada", "token": "t1"}
    )
    return browser


def run(minute: int, took: float, state: str = "SUCCEEDED") -> Any:
    due = NOON + timedelta(minutes=minute)
    return SimpleNamespace(
        due=due, state=state, started_at=due, ended_at=due + timedelta(seconds=took), lateness=timedelta(seconds=1)
    )


def test_a_chart_has_one_path_for_each_outcome_and_says_its_figures() -> None:
    duration, lateness = charts([run(3, 4), run(2, 1, "DEAD"), run(1, 2), run(0, 1)])
    drawn = str(duration.drawn())
    assert drawn.count("<path") == 4  # good, bad, median, p95
    assert drawn.count('class="bad"') == drawn.count('class="good"') == 1
    assert duration.in_words == "Duration of 4 runs: median 1 s, 95th percentile 4 s, most 4 s"
    assert lateness.most == timedelta(seconds=1)
    assert "style" not in drawn


def test_dots_lie_within_the_drawing_from_the_earliest_at_the_left_to_the_latest() -> None:
    dots = [Dot(NOON + timedelta(minutes=n), timedelta(seconds=n), "SUCCEEDED") for n in (2, 0, 1)]
    assert 'class="good" d="M6 94h0M500 32h0M994 6h0"' in str(DotChart("Duration", dots).drawn())


@pytest.mark.parametrize(("values", "share", "found"), [([3, 1, 2], 0.5, 2), ([1], 0.95, 1), (range(1, 101), 0.95, 95)])
def test_a_percentile_is_one_of_the_values(values: Any, share: float, found: int) -> None:
    assert percentile([timedelta(seconds=n) for n in values], share) == timedelta(seconds=found)


def test_fewer_than_two_runs_are_no_chart() -> None:
    assert charts([run(0, 1)]) == []


def test_a_schedule_shows_what_each_revision_changed_without_secrets() -> None:
    browser = console()
    browser.scheduler.update_schedule("team/a", expression="5 * * * *", payload={"to": "Bob", "token": "t2"})
    page = browser.get(PAGE)
    assert "<code>expression</code> <del>0 * * * *</del>" in page
    assert "<code>payload.to</code> <del>Ada</del>" in page
    assert "<code>payload.token</code> <del>[redacted]</del>" in page
    assert "<del>t1" not in page


def test_differences_are_told_word_by_word_with_units() -> None:
    found = differences(
        {"retry": (None, {"max_attempts": 3, "base": 90.0}), "tags": ({"a": "1"}, {}), "timeout": (30.0, None)}
    )
    said = [(one.word, one.before, one.after) for one in found]
    assert said == [
        ("retry.max_attempts", None, "3"),
        ("retry.base", None, "1 min 30 s"),
        ("tags.a", "1", None),
        ("timeout", "30 s", None),
    ]


def test_it_says_who_paused_it_when_and_why() -> None:
    browser = console(actor=Actor(name="alice@acme", operator=True))
    browser.confirm(f"{PAGE}/act?do=pause", reason="the warehouse moves")
    page = browser.get(f"{PAGE}?done=pause")
    assert "app:alice@acme" in page
    assert "the warehouse moves" in page
    assert "No next fire: it is paused" in page


def test_next_fires_explain_a_change_of_the_clocks() -> None:
    browser = console()
    browser.scheduler.create_schedule(
        "clocks",
        "greet",
        Rule(expression="30 2 * * *", timezone="Europe/Berlin", start=datetime(2026, 10, 23, tzinfo=UTC)),
    )
    page = browser.get("schedule/clocks")
    assert "clocks go back from 03:00 to 02:00" in page


def test_a_preview_counts_fires_and_runs() -> None:
    page = console().get(f"{PAGE}/act?do=pause")
    assert "<dt>Fires in 24 h</dt><dd>24</dd>" in page
    assert "<dd>0 waiting, 0 running</dd>" in page


def test_a_schedule_is_deleted_after_a_warning() -> None:
    browser = console()
    assert "It cannot be undone" in browser.get(f"{PAGE}/act?do=delete")
    answer = browser.confirm(f"{PAGE}/act?do=delete", reason="not needed")
    assert answer.headers["location"] == "/console/t/default/schedules?deleted=team%2Fa"
    assert "Deleted: team/a" in browser.get("schedules?deleted=team/a")
    browser.get(PAGE, status=404)


def test_parts_that_are_refused_leave_the_others() -> None:
    browser = console(actor=Actor(name="eve@acme", operator=True))
    tenants = Tenants(services=browser.scheduler.session.services, clock=browser.scheduler.session.clock)
    tenants.grant("default", browser.scheduler.session.services.identity(), "admin")
    tenants.grant("default", "app:eve@acme", "read-schedules")
    page = browser.get(PAGE)
    assert page.count("You have no grant to see this.") == 3  # runs, backfills, and who did what
    assert "Hidden: you have no grant to read payloads." in page
    assert "<code>0 * * * *</code>" in page
