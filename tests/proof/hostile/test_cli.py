"""The command line's door: whatever is typed, a command ends with one of its exit codes and a sentence, never with a traceback."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from quarterjack.cli.exits import ExitCode
from quarterjack.settings import Settings

from tests.support.command_line import Say, speaker

pytestmark = pytest.mark.cloud

WORDS = [
    "",
    " ",
    "-",
    "--",
    "-1",
    "0",
    "x" * 5_000,
    "\x00",
    "\udcff",
    "\ud83d",
    "a#b",
    "ä😀",
    "[red]",
    "{",
    "[" * 5_000,
]
WORDS += [
    "nan",
    "inf",
    "1e999",
    "9" * 400,
    "2026-13-45",
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59+00:00",
    "*",
    "%s",
]
WORDS += ["-3d", "3h", "+1h30m", "-999999999999w", "yesterday", "tomorrow 25:61", "today 09:00", "5m", "-0s", "1.5ms"]
WORDS += ["@/nowhere", "@", "/dev/null", "--help", "--json", "s", "acme/s#1", "W10=", "\r\n", "a\tb", "\x1b[31m", "\\"]
COMMANDS = [
    ("schedules", "create", "new", "note", "* * * * *", "--payload", "{}", "--timezone", "UTC", "--tag", "a=b"),
    ("schedules", "update", "s", "--expression", "0 9 * * *", "--description", "text"),
    ("schedules", "list", "--limit", "5", "--prefix", "s", "--state", "ACTIVE", "--cursor", "s"),
    ("schedules", "show", "s"),
    ("schedules", "pause", "s", "--reason", "why", "--until", "2099-01-01T00:00:00Z"),
    ("schedules", "resume", "s"),
    ("schedules", "backfill", "s", "-3d", "now", "--zone", "Europe/Berlin", "--dry-run"),
    ("schedules", "preview", "s", "--after", "2d", "--count", "3"),
    ("freeze", "yesterday", "--yes"),
    ("schedules", "delete", "gone", "--yes"),
    ("runs", "list", "s", "--after", "2026-01-01T00:00:00Z", "--limit", "5", "--cursor", "x"),
    ("runs", "show", "acme/s#000000000000001"),
    ("runs", "cancel", "acme/s#000000000000001", "--yes"),
    ("dead", "list", "--since", "2026-01-01T00:00:00Z", "--job", "note", "--cursor", "x"),
    ("submit", "note", "{}", "--delay", "5", "--key", "k"),
    ("preview", "* * * * *", "--count", "3", "--timezone", "UTC"),
    ("apply", "/dev/null", "--dry-run"),
    ("import", "crontab", "/dev/null"),
]
ASKED = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.generate,),
)


@pytest.fixture
def say(local_settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Say:
    spoken = speaker(local_settings, monkeypatch, capsys)
    spoken("schedules", "create", "s", "note", "0 18 * * *")
    return spoken


def check(say: Say, data: st.DataObject) -> None:
    words = list(data.draw(st.sampled_from(COMMANDS)))
    for place in data.draw(st.sets(st.integers(1, len(words) - 1), min_size=1, max_size=2)):
        words[place] = data.draw(st.sampled_from(WORDS) | st.text(max_size=10))
    words += data.draw(st.sampled_from([[], ["--json"]]))
    said = say(*words)
    assert said.code in set(ExitCode), words
    assert "Traceback" not in said.out + said.err
    assert said.code == ExitCode.DONE or said.err, "it says why"


@ASKED
@given(data=st.data())
def test_what_is_typed_ends_in_a_code_and_a_sentence(say: Say, data: st.DataObject) -> None:
    check(say, data)


@pytest.mark.proof
@settings(ASKED, max_examples=1_000, derandomize=False)
@given(data=st.data())
def test_much_more_that_is_typed(say: Say, data: st.DataObject) -> None:
    check(say, data)
