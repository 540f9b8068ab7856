"""A session in this process: what it prints, with and without a terminal, and what it does about processes that end."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import signal
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from quarterjack.cli.exits import ExitCode
from quarterjack.cli.shell import stop_on_signals
from quarterjack.errors import JobError, Unavailable
from quarterjack.local import installation
from quarterjack.local.cloud import LocalCloud
from quarterjack.local.cloud_guard import CloudDied
from quarterjack.local.processes import ProcessGroup, ProcessRole, roles, variables
from quarterjack.local.session.session import LocalOptions, UncleanSession, run
from quarterjack.local.session.verifier import StartLog
from quarterjack.settings import Settings, from_environment
from rich.console import Console

from tests.support.parts import in_rotation

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


@in_rotation(of=6)
def test_without_a_terminal_each_end_is_a_line() -> None:
    console = screen(terminal=False)
    assert run(LocalOptions(workers=1), console, stop_when(console, r"sample +SUCCEEDED")) == 0
    text = printed(console)
    assert re.search(r"^\d\d:\d\d:\d\d  fails twice +RETRYING +\d+ ms late +ConnectionError$", text, re.MULTILINE)
    assert re.search(r"^\d\d:\d\d:\d\d  sample +SUCCEEDED +\d+ ms late", text, re.MULTILINE)
    assert "Ctrl-C ends with a summary" in text


@in_rotation(of=6)
def test_no_examples_leaves_room_for_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    console = screen(terminal=True)
    options = LocalOptions(examples=False, jobs=("tests.support.installation.work",), workers=1)
    assert run(options, console, stop_when(console, "nothing yet")) == 0
    assert "0 runs started (without the examples no fires are compared), 0 double" in printed(console)


@in_rotation(of=6)
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


class TestCloudThatDies:
    @pytest.fixture
    def clouds(self, monkeypatch: pytest.MonkeyPatch) -> list[LocalCloud]:
        """The clouds that were started, the last one last."""
        started, start = list[LocalCloud](), LocalCloud.start

        def noted(cloud: LocalCloud) -> LocalCloud:
            started.append(cloud)
            return start(cloud)

        monkeypatch.setattr(LocalCloud, "start", noted)
        return started

    @pytest.mark.parametrize("terminal", [True, False])
    @in_rotation(of=6)
    def test_ends_the_session_without_a_verdict(self, terminal: bool, clouds: list[LocalCloud]) -> None:
        console, never = screen(terminal=terminal), threading.Event()
        shown = stop_when(console, r"sample .*SUCCEEDED")

        def kill() -> None:
            shown.wait()
            os.kill(clouds[-1].pid, signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        with pytest.raises(CloudDied, match=r"was killed by SIGKILL.*start it again; its tables.*its log: ") as died:
            run(LocalOptions(workers=1), console, never)
        killer.join()
        assert "missing" not in printed(console)
        log = Path(str(died.value).rpartition(" ")[2])
        assert log.exists()
        shutil.rmtree(log.parent)

    def test_during_the_start_is_said_too(
        self, clouds: list[LocalCloud], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        create = installation.create_queues

        def create_queues(*given: Any) -> dict[str, str]:
            os.kill(clouds[-1].pid, signal.SIGKILL)
            return create(*given)

        monkeypatch.setattr(installation, "create_queues", create_queues)
        data = tmp_path / "kept"
        with pytest.raises(CloudDied, match=f"start it again with --data {data}, which has the state of"):
            run(LocalOptions(data=data), screen(terminal=False), threading.Event())

    def test_is_not_taken_for_the_cause_of_what_it_did_not_cause(self, clouds: list[LocalCloud]) -> None:
        with pytest.raises(
            JobError, match=r"\Ajobs='no.such.package' cannot be imported: No module named 'no'; is it installed"
        ):
            run(LocalOptions(jobs=("no.such.package",)), screen(terminal=False), threading.Event())


class TestProcessGroup:
    def test_a_job_that_crashes_its_worker_is_named(self, tmp_path: Path) -> None:
        def event(run: str, job: str, word: str = "started") -> str:
            return json.dumps({"event": f"run.{word}", "run_id": run, "job": job}) + "\n"

        log = tmp_path / "broken.log"
        log.write_text(event("a/s#0", "of.yesterday"))
        with ProcessGroup([ProcessRole("broken", ("worker",))], Settings(), {}, tmp_path) as group:
            for crash in range(3):
                lines = [event("a/s#1", "bad.job"), event("a/s#2", "good.job"), event("a/s#3", f"other.{crash}")]
                with log.open("a") as file:
                    file.writelines([*lines, event("a/s#2", "good.job", "ended")])
                assert group["broken"].wait(60) == ExitCode.MISCONFIGURED
                if crash < 2:
                    group.replace_ended()
            with pytest.raises(Unavailable, match="each time while it ran job 'bad"):
                group.replace_ended()

    @in_rotation(of=6)
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
            "historian",
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
