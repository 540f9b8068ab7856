"""The command line as one types it, against a fresh installation."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from quarterjack import Settings, cli
from quarterjack.extras import install_remedy
from quarterjack.local.processes import variables

pytestmark = pytest.mark.cloud

Say = Callable[..., tuple[int, str, str]]


@pytest.fixture
def say(local_settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Say:
    """Run a command; its exit code, output and errors."""
    for name, value in variables(local_settings).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", str(local_settings.endpoint))
    monkeypatch.setenv("AWS_REGION", str(local_settings.region))
    monkeypatch.setenv("COLUMNS", "200")

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["quarterjack", *words])
        with pytest.raises(SystemExit) as end:
            cli.main()
        out, err = capsys.readouterr()
        code = end.value.code
        return code if isinstance(code, int) else 0, out, err

    return run


def told(say: Say, *words: str) -> list[Any]:
    """What a command prints as JSON lines."""
    code, out, err = say("--json", *words)
    assert code == 0, err
    return [json.loads(line) for line in out.splitlines()]


CREATE = ("schedules", "create", "nightly", "reports.daily", "30 2 * * *", "--timezone", "Europe/Berlin")


class TestSchedules:
    def test_created_with_everything_and_shown(self, say: Say) -> None:
        words = ("--payload", '{"day": 1}', "--description", "the report", "--tag", "team=data", "--tag", "env=test")
        (created,) = told(say, *CREATE, *words, "--start", "exact", "--max-attempts", "5")
        (shown,) = told(say, "schedules", "get", "nightly")
        assert created["name"] == shown["name"] == "nightly"
        assert shown["payload"] == {"day": 1}
        assert shown["tags"] == {"team": "data", "env": "test"}
        assert (shown["state"], shown["timezone"], len(shown["next_fires"])) == ("ACTIVE", "Europe/Berlin", 5)

    def test_the_table_is_for_people(self, say: Say) -> None:
        say(*CREATE)
        code, out, _ = say("schedules", "list")
        assert code == 0
        heading, row = (line.split() for line in out.splitlines())
        assert heading == ["name", "state", "next", "fire", "job", "expression", "timezone"]
        assert row[:2] + row[-7:] == ["nightly", "ACTIVE", "reports.daily", "30", "2", "*", "*", "*", "Europe/Berlin"]
        assert row[4:6] in (["02:30", "CET"], ["02:30", "CEST"])
        assert row[6:-7][0] == "(in"
        _, out, _ = say("schedules", "get", "nightly")
        assert "next fires" in out
        assert re.search(r"\w{3} \d{4}-\d\d-\d\d 02:30 CES?T \(in .*(h|min|s)\)\n", out)

    def test_a_long_list_says_that_there_is_more(self, say: Say) -> None:
        for name in ("a-1", "a-2", "b-1"):
            say("schedules", "create", name, "j", "rate(1 hour)")
        assert [line["name"] for line in told(say, "schedules", "list", "--prefix", "a-")] == ["a-1", "a-2"]
        assert "there are more" in say("schedules", "list", "--limit", "2")[2]
        assert len(told(say, "schedules", "list", "--limit", "2")) == 2

    def test_its_life(self, say: Say) -> None:
        say(*CREATE)
        assert told(say, "schedules", "pause", "nightly", "--reason", "holidays")[0]["reason"] == "holidays"
        assert told(say, "schedules", "list", "--state", "PAUSED")[0]["name"] == "nightly"
        assert told(say, "schedules", "resume", "nightly")[0]["state"] == "ACTIVE"
        changed = told(say, "schedules", "update", "nightly", "--expression", "0 3 * * *", "--payload", "[2]")[0]
        assert (changed["expression"], changed["timezone"]) == ("0 3 * * *", "Europe/Berlin")
        assert told(say, "schedules", "get", "nightly")[0]["payload"] == [2]
        told(say, "schedules", "update", "nightly", "--payload", "null")
        assert told(say, "schedules", "get", "nightly")[0]["payload"] is None
        assert say("schedules", "delete", "nightly", "--yes")[0] == 0
        assert told(say, "schedules", "list") == []


class TestRuns:
    def test_submitted_shown_and_listed(self, say: Say) -> None:
        (run,) = told(say, "submit", "orders.ship", "--payload", '{"order": 7}', "--delay", "3600", "--key", "order-7")
        assert run["id"] == "default/~order-7#once"
        (shown,) = told(say, "runs", "show", run["id"])
        assert (shown["state"], shown["payload"], shown["lateness"]) == ("QUEUED", {"order": 7}, None)
        (later,) = told(say, "submit", "orders.ship", "--at", "2090-01-01T00:00:00+01:00")
        assert later["due"] == "2089-12-31T23:00:00+00:00"

    def test_the_runs_of_a_schedule(self, say: Say) -> None:
        say("schedules", "create", "often", "j", "rate(10 seconds, from=2026-01-01T00:00:00Z)")
        now = datetime.now(UTC).isoformat()
        assert all(run["due"] <= now for run in told(say, "runs", "list", "often")), "what is to come is left out"
        runs = told(say, "runs", "list", "often", "--limit", "3", "--upcoming")
        assert [run["due"] for run in runs] == sorted((run["due"] for run in runs), reverse=True)
        assert all(run["due"] > now for run in runs)
        oldest = told(say, "runs", "list", "often", "--oldest-first", "--upcoming")
        assert [run["due"] for run in oldest] == sorted(run["due"] for run in oldest)
        after = told(say, "runs", "list", "often", "--oldest-first", "--upcoming", "--after", oldest[0]["due"])
        assert after[0]["id"] == oldest[1]["id"]
        code, out, err = say("runs", "list", "often", "--limit", "2", "--upcoming")
        assert code == 0
        assert "QUEUED" in out
        assert "there are more" in err


class TestPreview:
    def test_it_needs_no_cloud(self, say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
        words = (
            "preview",
            "30 2 * * *",
            "--timezone",
            "Europe/Berlin",
            "--after",
            "2026-03-27T12:00:00Z",
            "--count",
            "2",
        )
        assert told(say, *words) == ["2026-03-28T02:30:00+01:00", "2026-03-29T03:00:00+02:00"]
        _, out, _ = say(*words)
        assert out.splitlines() == ["Sat 2026-03-28 02:30:00+01:00  CET", "Sun 2026-03-29 03:00:00+02:00  CEST"]

    def test_around_the_changes_of_the_clocks(self, say: Say) -> None:
        words = (
            "preview",
            "30 2 * * *",
            "--timezone",
            "Europe/Berlin",
            "--after",
            "2026-11-21T00:00:00Z",
            "--count",
            "1",
        )
        rows = told(say, *words, "--around-dst")
        assert [(row["at"], row["mark"]) for row in rows] == [
            ("2027-03-27T02:30:00+01:00", ""),
            ("2027-03-28T03:00:00+02:00", "forward"),
            ("2027-03-28T03:00:00+02:00", "gap"),
            ("2027-10-31T02:30:00+02:00", "first pass"),
            ("2027-10-31T02:00:00+01:00", "back"),
            ("2027-11-01T02:30:00+01:00", ""),
        ]
        assert say(*words, "--explain")[1].splitlines()[0] == "At 02:30"

    def test_what_spreads_by_a_key_needs_one(self, say: Say) -> None:
        assert say("preview", "H * * * *")[0] == 1
        assert len(told(say, "preview", "H * * * *", "--key", "acme/report", "--count", "3")) == 3

    def test_an_end_is_said(self, say: Say) -> None:
        assert say("preview", "at(2020-01-01T00:00:00)")[1].strip() == "no further fire"


class TestRefusals:
    @pytest.mark.parametrize(
        ("words", "expected", "problem"),
        [
            (("schedules", "get", "nothing"), 3, "has no schedule of that name"),
            (("schedules", "create", "x", "j", "61 * * * *"), 1, "EXPRESSION="),
            (("schedules", "create", "x", "j", "rate(1 hour)", "--payload", "{"), 1, "payload='{': is not JSON"),
            (("schedules", "create", "x", "j", "rate(1 hour)", "--tag", "a"), 1, "tag='a': has no value"),
            (("schedules", "update", "x"), 1, "nothing to change"),
            (("submit", "j", "--at", "soon"), 1, "at='soon': is not a date and time"),
            (("submit", "j", "--at", "2030-01-01T00:00:00"), 1, "has no time zone; write e.g. 2030-01-01T00:00:00Z"),
            (("--tenant", "a/b", "schedules", "list"), 1, "tenant='a/b'"),
            (("worker",), 6, "no jobs; name the package"),
            (("worker", "--jobs", "no_such_package"), 1, "jobs='no_such_package' cannot be imported"),
        ],
    )
    def test_one_line_says_what_and_what_instead(
        self, say: Say, words: tuple[str, ...], expected: int, problem: str
    ) -> None:
        code, _, err = say(*words)
        assert code == expected
        assert err.startswith("error: ")
        assert problem in err
        assert err.count("\n") == 1

    def test_a_wrong_prefix_is_explained(self, say: Say) -> None:
        code, _, err = say("--prefix", "elsewhere", "schedules", "list")
        assert code == 6
        assert "QUARTERJACK_PREFIX" in err


def test_payload_from_standard_input(say: Say, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given = tmp_path / "payload.json"
    given.write_text('{"large": true}')
    with given.open() as file:
        monkeypatch.setattr(sys, "stdin", file)
        (run,) = told(say, "submit", "j", "--payload", "-", "--delay", "60")
    assert told(say, "runs", "show", run["id"])[0]["payload"] == {"large": True}


def test_the_audit_reports(say: Say) -> None:
    say(*CREATE)
    assert told(say, "audit")


def test_python_minus_m_is_the_command(say: Say) -> None:
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    asked = subprocess.run(
        [sys.executable, "-m", "quarterjack", "--help"], env=environ, capture_output=True, text=True, check=True
    )
    for command in (
        "local",
        "schedules",
        "runs",
        "submit",
        "preview",
        "worker",
        "ticker",
        "undertaker",
        "historian",
        "audit",
    ):
        assert command in asked.stdout


def test_without_its_extra_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match=re.escape(install_remedy("cli"))):
        cli.main()
