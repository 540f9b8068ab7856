"""A session in this process: what it prints, with and without a terminal, and what it does about processes that end."""

from __future__ import annotations

import io
import os
import re
import signal
import tempfile
import threading
import time
from pathlib import Path

import pytest
from minutehand.cli.shell import ExitCode, stop_on_signals
from minutehand.errors import Unavailable
from minutehand.local.processes import ProcessGroup, ProcessRole, roles, variables
from minutehand.local.session.session import LocalOptions, UncleanSession, run
from minutehand.local.session.verifier import StartLog
from minutehand.settings import Settings, from_environment
from rich.console import Console

pytestmark = pytest.mark.cloud


def screen(*, terminal: bool) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=130, color_system=None)


def printed(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def stop_when(console: Console, pattern: str) -> threading.Event:
    """An event that is set as soon as the console shows ``pattern``."""
    stop = threading.Event()

    def watch() -> None:
        deadline = time.monotonic() + 30
        while not re.search(pattern, printed(console)) and time.monotonic() < deadline:
            stop.wait(0.1)
        stop.set()

    threading.Thread(target=watch, daemon=True).start()
    return stop


def test_a_terminal_shows_a_live_table_and_the_summary(monkeypatch: pytest.MonkeyPatch) -> None:
    before = dict(os.environ)
    console = screen(terminal=True)
    assert run(LocalOptions(), console, stop_when(console, r"sample .*SUCCEEDED")) == 0
    text = printed(console)
    for heading in ("schedule", "when", "next fire", "last run", "lateness", "runs", "state"):
        assert heading in text
    assert re.search(r"check-page +rate\(10 seconds\) +\d\d:\d\d:\d\d \(in \d+ s\)", text)
    assert "0 missing, 0 double" in text
    assert dict(os.environ) == before


def test_without_a_terminal_each_end_is_a_line() -> None:
    console = screen(terminal=False)
    assert run(LocalOptions(workers=1), console, stop_when(console, r"sample +SUCCEEDED")) == 0
    text = printed(console)
    assert re.search(r"^\d\d:\d\d:\d\d  fails twice +RETRYING +\d+ ms late +ConnectionError$", text, re.MULTILINE)
    assert re.search(r"^\d\d:\d\d:\d\d  sample +SUCCEEDED +\d+ ms late", text, re.MULTILINE)
    assert "Ctrl-C ends with a summary" in text


def test_no_examples_leaves_room_for_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    console = screen(terminal=True)
    options = LocalOptions(examples=False, jobs=("tests.support.installation.work",), workers=1)
    assert run(options, console, stop_when(console, "nothing yet")) == 0
    assert "0 fires of the examples were due" in printed(console)


def test_a_verdict_that_is_not_clean_is_an_error_and_the_logs_stay(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(StartLog, "twice", lambda _: ["default/sample#1"])
    console = screen(terminal=False)
    with pytest.raises(UncleanSession, match="the logs of all processes are in") as problem:
        run(LocalOptions(workers=1), console, stop_when(console, r"RETRYING"))
    assert "double: default/sample#1" in printed(console)
    folder = Path(str(problem.value).rpartition(" ")[2])
    assert (folder / "worker-1.log").exists()


class TestProcessGroup:
    def test_what_ends_by_itself_is_started_again_but_not_for_ever(self, tmp_path: Path) -> None:
        group = ProcessGroup([ProcessRole("broken", ("worker",))], Settings(), {}, tmp_path)
        with group:
            for _ in range(2):
                assert group["broken"].wait(60) == ExitCode.MISCONFIGURED
                assert group.replace_ended() == ["broken"]
            assert group["broken"].wait(60) == ExitCode.MISCONFIGURED
            with pytest.raises(Unavailable, match=r"(?s)broken ended 3 times in 60 s.*no jobs; name the package"):
                group.replace_ended()

    def test_the_usual_processes(self) -> None:
        assert [role.name for role in roles(tickers=2, workers=2, jobs=["a", "b"])] == [
            "worker-1",
            "worker-2",
            "ticker-1",
            "ticker-2",
            "undertaker",
        ]
        assert roles(jobs=["a", "b"])[0].arguments == ("worker", "--jobs", "a", "--jobs", "b", "--concurrency", "10")

    def test_its_processes_make_the_same_settings(self) -> None:
        settings = Settings(prefix="p", tenant="t", bucket="b", shards=4, retention_days=7, claim_by="put")
        assert from_environment(variables(settings)) == settings


class TestSignals:
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_the_first_is_an_event_and_the_second_acts_as_ever(self, number: signal.Signals) -> None:
        heard: list[int] = []
        before = signal.signal(number, lambda found, _: heard.append(found))
        try:
            with stop_on_signals() as stop:
                os.kill(os.getpid(), number)
                assert stop.wait(1)
                assert heard == []
                os.kill(os.getpid(), number)
                assert heard == [number]
            assert signal.getsignal(number) is not before
        finally:
            signal.signal(number, before)
