"""``backfills`` lists those of all schedules, the newest first, whatever became of their schedules."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from quarterjack.errors import InvalidInput
from quarterjack.owner.backfill import records
from quarterjack.testing import Harness

from tests.support.api import NOON, greeting_jobs


@pytest.fixture
def harness() -> Harness:
    made = Harness(greeting_jobs(), at=NOON)
    for name in ("a", "b", "c"):
        made.scheduler.create_schedule(name, "greet", "0 * * * *", payload={"to": "Ada"})
    return made


def begin(harness: Harness, name: str) -> str:
    end: datetime = harness.clock.now()
    done = harness.scheduler.backfill(name, end - timedelta(hours=3), end, current=True, dry_run=False, concurrency=1)
    harness.clock.advance(timedelta(milliseconds=5))
    assert done.id is not None
    return done.id


def ids(page: Any) -> list[str]:
    return [one.id for one in page.items]


def test_the_newest_comes_first_and_pages_follow_each_other(harness: Harness) -> None:
    begun = [begin(harness, name) for name in ("a", "b", "a", "c")]
    assert harness.scheduler.backfills().cursor is None
    assert ids(harness.scheduler.backfills()) == begun[::-1]
    found: list[str] = []
    cursor: str | None = None
    for _ in range(2):
        page = harness.scheduler.backfills(limit=2, cursor=cursor)
        found, cursor = found + ids(page), page.cursor
    assert (found, cursor) == (begun[::-1], None)
    assert [one.schedule for one in harness.scheduler.backfills().items] == ["c", "a", "b", "a"]


def test_only_those_in_a_state(harness: Harness) -> None:
    first, second = begin(harness, "a"), begin(harness, "b")
    harness.scheduler.pause_backfill("a", first)
    assert ids(harness.scheduler.backfills(state="PAUSED")) == [first]
    assert ids(harness.scheduler.backfills(state="RUNNING", limit=1)) == [second]
    harness.advance(hours=1)
    assert ids(harness.scheduler.backfills(state="DONE")) == [second]
    with pytest.raises(InvalidInput, match="state"):
        harness.scheduler.backfills(state="LATE")  # type: ignore[arg-type]


def test_a_dry_run_is_not_listed_and_a_deleted_schedules_is(harness: Harness) -> None:
    harness.scheduler.backfill("a", NOON - timedelta(hours=3), NOON, current=True)
    assert not harness.scheduler.backfills().items
    begun = begin(harness, "a")
    harness.scheduler.delete_schedule("a")
    assert ids(harness.scheduler.backfills()) == [begun]


def test_a_line_without_its_backfill_is_passed_over(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line is written first: a process that dies between the two leaves it alone."""
    begun, other = begin(harness, "a"), begin(harness, "b")
    services = harness.scheduler.session.services
    (record,) = services.records.listed("default/b", "~backfill~")
    services.records.remove(record)
    assert ids(harness.scheduler.backfills()) == [begun]
    assert other not in ids(harness.scheduler.backfills(limit=1))


def test_lines_expire_later_after_an_act(harness: Harness) -> None:
    begun = begin(harness, "a")
    services = harness.scheduler.session.services

    def line() -> Any:
        (found,) = services.records.listed("default/~backfills", records.LINE)
        return found

    before = line()
    harness.clock.advance(timedelta(minutes=2))
    harness.scheduler.pause_backfill("a", begun)
    assert line().version == before.version + 1
    assert line().expires >= before.expires + 60_000
