"""``quarterjack runs list`` over all schedules and one-offs, and the times that options take."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from quarterjack import Settings
from quarterjack.domain.history.entry import Book
from quarterjack.domain.names import fire_ref
from quarterjack.domain.run import Failure, RunState
from quarterjack.domain.times import MINUTE
from quarterjack.errors import InvalidInput
from quarterjack.historian.pages import pages_of
from quarterjack.services import connect, system_clock
from quarterjack.state.history.entries import entry_of

from tests.support.builders import a_run

Say = Callable[..., str]
NOW = datetime(2036, 5, 4, 12, 30, 15, tzinfo=UTC)


@pytest.fixture
def history(local_settings: Settings) -> None:
    """Ten ended runs, the last minutes'; every other one failed."""
    now, entries = system_clock(), []
    for n in range(10):
        at = now - (n + 1) * MINUTE
        run = a_run(
            at, ref=fire_ref("default/billing", at), ended_at=at, started_at=at, attempt=1, state=RunState.SUCCEEDED
        )
        if n % 2:
            failure = Failure(kind="ValueError", message="boom")
            run = a_run(at, ref=run.ref, ended_at=at, state=RunState.DEAD, failure=failure, job="pay")
        entries.append(entry_of(run, at, 2 * n))
    services = connect(local_settings)
    services.history.append(list(pages_of(Book.ENDED, entries, now, services.retention)))


@pytest.mark.cloud
@pytest.mark.usefixtures("history")
def test_failed_runs_of_a_job_are_found(say: Say) -> None:
    lines = say("--json", "runs", "list", "--failed", "--job", "pay", "--since", "-1d").splitlines()
    found = [json.loads(line) for line in lines]
    assert {run["state"] for run in found} == {"DEAD"}
    assert {run["error_type"] for run in found} == {"ValueError"}
    assert len(found) == 5
    assert "billing#" in say("runs", "list", "--state", "DEAD", "--state", "LOST", "--error-type", "ValueError")


@pytest.mark.cloud
@pytest.mark.usefixtures("history")
def test_a_search_goes_on_until_it_has_enough(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quarterjack.history.read.MOST_UNITS", 0)  # a page of an answer ends as soon as it may
    *runs, more = say("--json", "runs", "list", "--limit", "7").splitlines()
    assert (len(runs), [*json.loads(more)]) == (7, ["cursor"])
    assert len(say("--json", "runs", "list").splitlines()) == 10
    text = say("runs", "list", "--limit", "3", "--all-tenants")
    assert "default" in text
    assert "searched back to" in text


@pytest.mark.cloud
@pytest.mark.usefixtures("history")
@pytest.mark.parametrize("options", [("--since", "-3h"), ("--since", "yesterday", "--until", "now"), ()])
def test_the_cursor_that_is_printed_continues_with_the_same_words(say: Say, options: tuple[str, ...]) -> None:
    found, cursor = list[str](), tuple[str, ...]()
    for _ in range(4):
        lines = say("--json", "runs", "list", "--limit", "3", *options, *cursor).splitlines()
        found += [json.loads(line)["id"] for line in lines if line.startswith('{"id"')]
        text = say("runs", "list", "--limit", "3", *options, *cursor)
        cursor = ("--cursor", text.partition("--cursor '")[2].partition("'")[0])
    assert cursor == ("--cursor", "")
    assert len(found) == len(set(found)) == 10


@pytest.mark.cloud
@pytest.mark.usefixtures("history")
def test_a_cursor_belongs_to_the_times_that_were_typed(say: Say) -> None:
    text = say("runs", "list", "--limit", "3", "--since", "-3h")
    cursor = text.partition("--cursor '")[2].partition("'")[0]
    for other in (("--since", "-4h"), ("--since", "2026-01-01T00:00:00Z"), ()):
        with pytest.raises(InvalidInput, match="is not of this listing"):
            say("runs", "list", "--limit", "3", *other, "--cursor", cursor)


@pytest.mark.cloud
def test_the_runs_of_all_tenants_up_to_some_days_ago(say: Say) -> None:
    say("runs", "list", "--all-tenants", "--until", "-2d")


@pytest.mark.cloud
@pytest.mark.usefixtures("history")
def test_statistics_and_a_rebuild(say: Say) -> None:
    lines = [json.loads(line) for line in say("--json", "stats", "--since", "-2d").splitlines()]
    assert sum(line["runs"] for line in lines) == 10
    assert {line["job"] for line in lines} == {"pay", "report"}
    assert (
        "ValueError 5" in say("stats", "--job", "pay", "--since", "-2d") or len(lines) > 2
    )  # two days around midnight
    say("schedules", "create", "billing", "pay", "0 9 * * *")
    days = json.loads(say("--json", "schedules", "describe", "billing"))["days"]
    assert sum(day["runs"] for day in days) == 10
    assert "last days" in say("schedules", "describe", "billing")
    done = json.loads(say("--json", "history", "rebuild", "--since", "yesterday"))
    assert done == {"runs": 0, "added": 0, "corrected": 0, "stopped": False}


@pytest.mark.cloud
def test_options_for_one_schedule_are_refused(say: Say) -> None:
    with pytest.raises(InvalidInput, match="--oldest-first: is for the fires of one schedule"):
        say("runs", "list", "--oldest-first")
