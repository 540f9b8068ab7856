"""``quarterjack forecast`` as one types it."""

from __future__ import annotations

import pytest

from tests.support.command_line import Say

pytestmark = pytest.mark.cloud


def test_hours_with_bars_and_the_schedules_that_fire(said: Say) -> None:
    empty = said("forecast")
    assert len(empty.out.splitlines()) in (24, 25)
    assert "0 fires of 0 schedules" in empty.err
    said("schedules", "create", "early", "report", "15 2 * * *", "--timezone", "Europe/Berlin", "--tag", "team=a")
    said("schedules", "create", "often", "report", "*/10 * * * *")
    found = said("forecast", "--since", "tomorrow 02:00", "--until", "tomorrow 04:00", "--timezone", "Europe/Berlin")
    lines = found.out.splitlines()
    assert [line.split()[2:5] for line in lines] == [["02:00", "CEST", "7"], ["03:00", "CEST", "6"]] or "CET" in lines[
        0
    ]
    assert lines[0].count("█") == 40 > lines[1].count("█") > 0
    assert "13 fires of 2 schedules; 2 were read" in found.err
    listed = said("forecast", "--schedules", "--tag", "team=a").out
    assert "early" in listed
    assert "often" not in listed


def test_as_json_and_its_refusals(said: Say) -> None:
    said("schedules", "create", "often", "report", "*/10 * * * *")
    said("schedules", "create", "off", "report", "*/10 * * * *")
    said("schedules", "pause", "off")
    (found,) = said("--json", "forecast", "--until", "2d", "--by", "day").json
    assert (found["paused"], found["firing"], found["by"]) == (1, 1, "day")
    assert found["fires"] == sum(span["fires"] for span in found["spans"]) in (287, 288)
    assert "1 are paused" in said("forecast").err
    problem = said("--json", "forecast", "--by", "week").problem
    assert problem["field"] == "--by"
    assert said("--json", "forecast", "--timezone", "Berlin").problem["field"] == "--timezone"
    more = said("forecast", "--limit", "1")
    assert "there are more schedules: --cursor" in more.err
