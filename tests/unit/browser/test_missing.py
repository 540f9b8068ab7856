"""Where there is no browser: a skip that is told once, or an error where one is asked for."""

from __future__ import annotations

import platform
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.browser import fixtures, installed


@pytest.fixture(autouse=True)
def no_browser(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(installed, "CHROMIUM", tmp_path / "chromium")
    monkeypatch.delenv(installed.REQUIRED, raising=False)


def test_it_is_skipped() -> None:
    with pytest.raises(pytest.skip.Exception, match="run: make browser"):
        fixtures.needed()


def test_it_fails_where_a_browser_is_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(installed.REQUIRED, "required")
    with pytest.raises(pytest.fail.Exception, match="run: make browser"):
        fixtures.needed()


def test_other_machines_are_told_how_to_leave_it_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    assert "not browser" in str(installed.missing())


def test_it_is_counted_apart_from_other_skips() -> None:
    for_browser, other = f"Skipped: {installed.missing()}", "Skipped: for another reason"
    reports: list[Any] = [
        SimpleNamespace(skipped=skipped, longrepr=("file", 1, why))
        for skipped, why in ((True, for_browser), (True, other), (False, ""))
    ]
    counted = [fixtures.pytest_report_teststatus(report) for report in reports]
    assert [status and status[0] for status in counted] == [fixtures.WITHOUT, None, None]


def test_one_line_says_how_many() -> None:
    told = list[str]()
    for stats in ({fixtures.WITHOUT: [None] * 3}, {"skipped": [None]}, {}):
        reporter: Any = SimpleNamespace(stats=stats, write_line=lambda line, **how: told.append(line))
        fixtures.pytest_terminal_summary(reporter)
    assert told == [f"NOT RUN: 3 browser tests: {installed.missing()}"]
