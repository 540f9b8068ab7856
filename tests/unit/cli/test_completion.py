"""Completion of names by the protocol of the shells: variables of the environment in, words out."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import pytest
import typer
from quarterjack import Context, Registry, Retry, Scheduler, Settings
from quarterjack.cli import COMPLETES, completion
from quarterjack.cli.app import run, whole
from quarterjack.cli.completion import completing
from quarterjack.domain.queue import Queue
from quarterjack.local.installation import provision
from quarterjack.services import connect, system_clock
from quarterjack.testing.process import Hand, bury_all, make_worker

from tests.support.command_line import environment

Complete = Callable[..., list[str]]
NOWHERE = Settings(endpoint="http://127.0.0.1:1", region="us-east-1")


def bash(*words: str) -> Mapping[str, str]:
    """What bash sets when the cursor is at the last word."""
    line = ["quarterjack", *words]
    return {COMPLETES: "complete_bash", "COMP_WORDS": "\n".join(line), "COMP_CWORD": str(len(line) - 1)}


def zsh(*words: str) -> Mapping[str, str]:
    return {COMPLETES: "complete_zsh", "_TYPER_COMPLETE_ARGS": " ".join(["quarterjack", *words])}


def fish(*words: str) -> Mapping[str, str]:
    return {**zsh(*words), COMPLETES: "complete_fish", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}


@pytest.fixture
def complete(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Complete:
    def ask(*words: str, settings: Settings) -> list[str]:
        with monkeypatch.context() as patch:
            for name, value in {**environment(settings), **bash(*words)}.items():
                patch.setenv(name, value)
            capsys.readouterr()
            with pytest.raises(SystemExit) as end:
                run([])
        out, err = capsys.readouterr()
        assert (end.value.code or 0, err) == (0, "")
        return str(out).split()

    return ask


def leaves(command: Any, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    children = getattr(command, "commands", None)
    if children is None:
        return [(path, command)]
    return [leaf for name, child in children.items() for leaf in leaves(child, (*path, name))]


def test_every_parameter_of_a_known_name_is_completed_but_the_name_of_a_new_schedule() -> None:
    without = {
        (*path, str(one.name))
        for path, command in leaves(whole())
        for one in command.params
        if one.name in completion.COMPLETERS and one._custom_shell_complete is None
    }
    assert without == {("keys", "create", "name"), ("schedules", "create", "name")}
    words = {one.name for _, command in leaves(whole()) for one in command.params}
    assert set(completion.COMPLETERS) <= words


class TestWords:
    @pytest.mark.parametrize(
        ("words", "incomplete", "offered"),
        [
            (("schedules", "create"), ("overlap", "buffer"), ["buffer_one", "buffer_all"]),
            (("schedules", "create"), ("catch_up", "l"), ["latest"]),
            (("schedules", "list"), ("state", "PA"), ["PAUSED"]),
            (("runs", "list"), ("state", "SU"), ["SUCCEEDED", "SUPERSEDED"]),
            (("runs", "list"), ("kind", "one"), ["one-off"]),
            (("schedules", "bulk"), ("action", "re"), ["resume", "retag"]),
        ],
    )
    def test_of_options_that_take_one_of_a_few(
        self, words: tuple[str, ...], incomplete: tuple[str, str], offered: list[str]
    ) -> None:
        command = dict(leaves(whole()))[words]
        parameter = next(one for one in command.params if one.name == incomplete[0])
        context = typer.Context(command, info_name=" ".join(words))
        assert [item.value for item in parameter.shell_complete(context, incomplete[1])] == offered


def test_a_completion_of_its_own_stays() -> None:
    own = typer.Argument(autocompletion=lambda: ["mine"])
    parameter = inspect.Parameter("name", inspect.Parameter.KEYWORD_ONLY, annotation=Annotated[str, own])
    assert completing("get", parameter) == parameter


@pytest.mark.cloud
class TestNames:
    @pytest.fixture
    def there(self, local_settings: Settings) -> Settings:
        """Three schedules of two jobs, a dead run, and a declared queue."""
        provision(local_settings, queues=[Queue(name="reports")])
        jobs = Registry()

        @jobs.job("mail.fail", retry=Retry(max_attempts=1))
        def fail(ctx: Context, payload: object) -> None:
            raise ValueError("never")

        owner = Scheduler(settings=local_settings)
        for name, job in (("nightly", "report.daily"), ("nightly-eu", "report.daily"), ("weekly", "mail.send")):
            owner.create_schedule(name, job, "0 9 * * *")
        services = connect(local_settings)
        owner.submit("mail.fail", idempotency_key="one")
        Hand(worker=make_worker(services, jobs, system_clock, wait=lambda seconds: None)).work()
        bury_all(services, system_clock)
        return local_settings

    def test_of_schedules_jobs_and_queues(self, there: Settings, complete: Complete) -> None:
        assert complete("schedules", "get", "ni", settings=there) == ["nightly", "nightly-eu"]
        assert complete("schedules", "pause", "", settings=there) == ["nightly", "nightly-eu", "weekly"]
        assert complete("schedules", "create", "ni", settings=there) == []
        assert complete("runs", "list", "w", settings=there) == ["weekly"]
        assert complete("dead", "list", "--schedule", "w", settings=there) == ["weekly"]
        assert complete("submit", "", settings=there) == ["mail.send", "report.daily"]
        assert complete("schedules", "list", "--job", "rep", settings=there) == ["report.daily"]
        assert complete("worker", "--queue", "", settings=there) == ["default", "reports"]
        assert complete("schedules", "create", "s", "mail", settings=there) == ["mail.send"]
        assert complete("--tenant", "other", "schedules", "get", "", settings=there) == []

    def test_of_runs(self, there: Settings, complete: Complete) -> None:
        owner = Scheduler(settings=there)
        runs = sorted(owner.trigger("nightly", idempotency_key=key).id for key in ("a", "b"))
        (shared,) = {one.partition("#")[0] for one in runs}
        assert complete("runs", "show", f"{shared}#", settings=there) == runs
        assert complete("runs", "tail", f"{shared}#", settings=there) == runs
        assert complete("why", "ni", settings=there) == ["nightly", "nightly-eu"]
        assert complete("dead", "redrive", "", settings=there) == ["default/~one#once"]

    def test_no_more_than_fifty(self, local_settings: Settings, complete: Complete) -> None:
        owner = Scheduler(settings=local_settings)
        for number in range(51):
            owner.create_schedule(f"s{number:02}", "note", "0 9 * * *")
        assert complete("schedules", "get", "", settings=local_settings) == [f"s{number:02}" for number in range(50)]

    @pytest.mark.parametrize("shell", [bash, zsh, fish])
    def test_by_the_program_itself(self, there: Settings, shell: Callable[..., Mapping[str, str]]) -> None:
        asked = answer(shell("schedules", "get", "week"), there)
        assert "weekly" in asked.stdout
        assert (asked.returncode, asked.stderr) == (0, "")


def answer(asked: Mapping[str, str], settings: Settings) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, **environment(settings), **asked, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        [sys.executable, "-m", "quarterjack"], env=environ, capture_output=True, text=True, check=False, timeout=60
    )


class TestNothing:
    def test_where_nothing_answers(self) -> None:
        asked = answer(bash("schedules", "get", ""), NOWHERE)
        assert (asked.stdout.strip(), asked.stderr, asked.returncode) == ("", "", 0)

    def test_with_a_wrong_setting_or_a_wrong_command(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("QUARTERJACK_SHARDS", "many")
        for words in (("schedules", "get", ""), ("no", "such", "command", "x"), ("worker", "--queue", "")):
            asked = answer(bash(*words), NOWHERE)
            assert (asked.stdout.strip(), asked.stderr) == ("", ""), words

    def test_from_a_cloud_that_takes_too_long(self, complete: Complete, monkeypatch: pytest.MonkeyPatch) -> None:
        waited, over = list[float](), threading.Event()

        def join(thread: threading.Thread, timeout: float | None = None) -> None:
            waited.append(timeout or 0)

        monkeypatch.setattr(completion, "_schedules", lambda *_: over.wait() and [])
        monkeypatch.setattr(threading.Thread, "join", join)
        try:
            assert complete("schedules", "get", "", settings=NOWHERE) == []
        finally:
            over.set()
        assert waited == [completion.PATIENCE]
        assert completion.PATIENCE <= 2
