"""The example jobs do what they say, and fail when they should."""

from __future__ import annotations

import logging
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from quarterjack.local.session import demo_jobs
from quarterjack.local.session.examples import TEXT, DemoPage

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


def context(*, at: datetime = NOON, attempt: int = 1) -> Any:
    """What these jobs use of a Context."""
    logger = logging.LoggerAdapter(logging.getLogger("quarterjack.job.demo"), {})
    key = f"default/demo#{at:%H%M%S}"
    return SimpleNamespace(idempotency_key=key, scheduled_at=at, attempt=attempt, logger=logger)


def rows(path: Path) -> int:
    with closing(sqlite3.connect(path)) as database:
        return demo_jobs.count(database)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "samples.sqlite3"
    demo_jobs.prepare(path)
    demo_jobs.prepare(path)  # of an earlier session
    return path


class TestCheckPage:
    def test_a_page_that_says_it_passes(self) -> None:
        with DemoPage() as page:
            demo_jobs.check_page(context(), {"url": page.url, "contains": TEXT})

    def test_a_page_that_does_not_fails(self) -> None:
        with DemoPage() as page, pytest.raises(ValueError, match="without 'Closed'"):
            demo_jobs.check_page(context(), {"url": page.url, "contains": "Closed"})

    def test_no_page_fails(self) -> None:
        with DemoPage() as page:
            url = page.url
        with pytest.raises(OSError, match="refused"):
            demo_jobs.check_page(context(), {"url": url, "contains": TEXT})

    def test_a_page_whose_port_is_taken_moves(self) -> None:
        with DemoPage() as page, DemoPage(page.port) as other:
            assert other.port != page.port


class TestSample:
    def test_each_run_adds_one_row_however_often_it_starts(self, database: Path) -> None:
        for at in (NOON, NOON, NOON + timedelta(seconds=5)):
            demo_jobs.sample(context(at=at), {"database": str(database)})
        assert rows(database) == 2


class TestBackup:
    def back_up(self, database: Path, at: datetime = NOON) -> list[Path]:
        folder = database.parent / "backups"
        demo_jobs.back_up(context(at=at), {"database": str(database), "folder": str(folder)})
        return sorted(folder.iterdir())

    def test_the_copy_holds_what_the_original_holds(self, database: Path) -> None:
        demo_jobs.sample(context(), {"database": str(database)})
        (copy,) = self.back_up(database)
        assert copy.name == "samples-20260601T120000.sqlite3"
        assert rows(copy) == 1

    def test_only_the_newest_are_kept_and_no_half_copies(self, database: Path) -> None:
        (database.parent / "backups").mkdir()
        (database.parent / "backups" / "samples-20260601T120000.part").write_bytes(b"cut off")
        copies = [self.back_up(database, NOON + timedelta(minutes=minute)) for minute in range(12)][-1]
        assert [copy.name[-14:-8] for copy in copies] == [f"12{minute:02}00" for minute in range(2, 12)]

    def test_a_copy_that_is_not_whole_is_never_kept(self, database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        counts = iter([5, 3, 5])
        monkeypatch.setattr(demo_jobs, "count", lambda _: next(counts))
        with pytest.raises(ValueError, match="'ok', 3 rows copied of 5 to 5"):
            self.back_up(database)
        assert [path.suffix for path in (database.parent / "backups").iterdir()] == [".part"]


def test_the_flaky_one_fails_as_often_as_it_is_told() -> None:
    for attempt in (1, 2):
        with pytest.raises(ConnectionError, match=f"attempt {attempt}"):
            demo_jobs.flaky(context(attempt=attempt), {"failures": 2})
    demo_jobs.flaky(context(attempt=3), {"failures": 2})


def test_the_doomed_one_always_fails() -> None:
    with pytest.raises(RuntimeError, match="never work"):
        demo_jobs.doomed(context(attempt=9), None)


def test_the_one_off_says_its_text(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        demo_jobs.remind(context(), {"text": "15 seconds have passed"})
    assert caplog.messages == ["reminder"]
