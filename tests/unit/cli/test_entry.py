"""What every command has in common: exit codes, errors for programs, confirmation, colours, completion."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import typer
from quarterjack import errors
from quarterjack.cli.app import run, whole
from quarterjack.cli.commands import COMMANDS as LISTED
from quarterjack.cli.exits import ExitCode, code_of, code_of_run
from quarterjack.cli.shell import Shell
from quarterjack.domain.run import TERMINAL, RunState
from quarterjack.errors import AlreadyExists, Conflict, LeaseLost, Misconfigured, NotFinished, NotFound, Unavailable
from quarterjack.settings import Settings

from tests.support.command_line import Said, Say, environment

CREATE = ("schedules", "create", "s", "j", "rate(1 hour)")


def all_commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    children = getattr(command, "commands", None)
    if children is None:
        yield path, command
    for name, child in (children or {}).items():
        yield from all_commands(child, (*path, name))


COMMANDS = dict(all_commands(whole()))


class TestExitCodes:
    @pytest.mark.parametrize(
        ("problem", "code"),
        [
            (NotFound("x"), 3),
            (Conflict("x"), 4),
            (AlreadyExists("x"), 4),
            (Unavailable("x"), 5),
            (Misconfigured("x"), 6),
            (NotFinished("x"), 7),
            (LeaseLost("x"), 1),
            (errors.InvalidInput("f", 1, "p", "r"), 1),
        ],
    )
    def test_errors_tell_apart(self, problem: errors.QuarterjackError, code: int) -> None:
        assert code_of(problem) == code

    def test_every_end_of_a_run_has_its_own(self) -> None:
        codes = {state: code_of_run(state) for state in TERMINAL}
        assert codes[RunState.SUCCEEDED] == 0
        assert len(set(codes.values())) == len(TERMINAL)

    @pytest.mark.cloud
    def test_as_one_types(self, said: Say) -> None:
        assert said("schedules").code == 2
        assert said("schedules", "creat").code == 2
        assert said("schedules", "get", "s").code == 3
        assert said(*CREATE).code == 0
        assert said(*CREATE).code == 4


class TestJson:
    @pytest.mark.cloud
    @pytest.mark.parametrize("words", [("--json", "schedules", "get", "s"), ("schedules", "get", "s", "--json")])
    def test_before_and_behind_a_command(self, said: Say, words: tuple[str, ...]) -> None:
        said(*CREATE)
        assert said(*words).json[0]["name"] == "s"

    @pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
    def test_every_command_takes_it(self, path: tuple[str, ...]) -> None:
        assert "--json" in {name for parameter in COMMANDS[path].params for name in parameter.opts}

    @pytest.mark.cloud
    def test_errors_too(self, said: Say) -> None:
        missing = said("--json", "schedules", "get", "s")
        assert (missing.out, missing.problem["error"], missing.problem["exit_code"]) == ("", "NotFound", 3)
        bad = said("schedules", "create", "s", "j", "61 * * * *", "--json").problem
        assert (bad["error"], bad["field"], bad["exit_code"]) == ("ExpressionError", "EXPRESSION", 1)
        assert bad["remedy"]
        assert "position" in bad
        usage = said("--json", "schedules", "create")
        assert (usage.problem["error"], usage.code) == ("Usage", 2)

    def test_a_bad_setting_is_an_error_like_any_other(
        self, said_of_nothing: Say, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("QUARTERJACK_SHARDS", "many")
        assert said_of_nothing("--json", "schedules", "list").problem["exit_code"] == 6


@pytest.fixture
def said_of_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Say:
    """Commands where there is no cloud."""
    from tests.support.command_line import speaker

    return speaker(Settings(endpoint="http://127.0.0.1:1", region="us-east-1"), monkeypatch, capsys)


class TestWhatWasTyped:
    """Errors name the option, not the argument that the SDK has for it; and nothing is asked of a cloud before."""

    DAILY = ("schedules", "create", "s", "j", "0 9 * * *")
    NEVER, LATER, SOONER = ((datetime.now(UTC) + timedelta(days=days)).isoformat() for days in (40_000, 20, 10))

    @pytest.mark.parametrize(
        ("words", "option"),
        [
            (("submit", "j", "--at", NEVER), "--at"),
            (("submit", "j", "--at", "soon"), "--at"),
            (("submit", "j", "--at", LATER, "--delay", "1"), "--delay"),
            (("submit", "j", "--key", "a b"), "--key"),
            (("schedules", "trigger", "s", "--key", "a b"), "--key"),
            ((*DAILY, "--retry-base", "-1"), "--retry-base"),
            ((*DAILY, "--retry-cap", "-1"), "--retry-cap"),
            ((*DAILY, "--retry-within", "-1"), "--retry-within"),
            ((*DAILY, "--from", LATER, "--until", SOONER), "--until"),
            (("preview", "0 9 * * *", "--around-dst", "--count", "0"), "--count"),
            (("--prefix", "../x", "schedules", "list"), "--prefix"),
            (("local", "--data", "/dev/null", "--for", "1"), "--data"),
            (("local", "--no-examples", "--for", "1"), "--jobs"),
        ],
    )
    def test_is_named(self, said_of_nothing: Say, words: tuple[str, ...], option: str) -> None:
        refused = said_of_nothing("--json", *words)
        assert (refused.code, refused.problem["field"]) == (1, option)
        assert refused.problem["remedy"]
        assert not {"run_at", "idempotency_key"} & set(re.findall(r"\w+", refused.problem["message"]))

    def test_a_prefix_of_the_environment_is_named_by_its_variable(
        self, said_of_nothing: Say, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("QUARTERJACK_PREFIX", "a/b")
        assert said_of_nothing("--json", "queues").problem["field"] == "QUARTERJACK_PREFIX"


def test_local_takes_jobs_from_the_environment_and_makes_its_folder(
    said_of_nothing: Say, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("quarterjack.local.session.session.run", lambda *_, **__: 0)
    monkeypatch.setenv("QUARTERJACK_JOBS", "mine")
    assert said_of_nothing("local", "--no-examples", "--data", str(tmp_path / "new" / "data")) == Said(0, "", "")
    assert (tmp_path / "new" / "data").is_dir()


@pytest.mark.cloud
class TestConfirmation:
    def test_without_a_terminal_it_takes_a_yes(self, said: Say) -> None:
        said(*CREATE)
        refused = said("schedules", "delete", "s")
        assert refused.code == ExitCode.NOT_CONFIRMED
        assert "--yes" in refused.err
        assert said("schedules", "get", "s").code == 0
        assert said("--json", "schedules", "delete", "s").problem["error"] == "NotConfirmed"
        assert said("schedules", "delete", "s", "--yes").code == 0
        assert said("schedules", "get", "s").code == 3

    @pytest.mark.parametrize(("answer", "code", "left"), [("n\n", 8, 0), ("\n", 8, 0), ("y\n", 0, 3)])
    def test_at_a_terminal_it_asks(
        self, said: Say, local_settings: Settings, answer: str, code: int, left: int
    ) -> None:
        said(*CREATE)
        ours, theirs = pty.openpty()
        asked = subprocess.Popen(
            [sys.executable, "-m", "quarterjack", "schedules", "delete", "s"],
            env={**os.environ, **environment(local_settings), "PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=theirs,
            stderr=subprocess.PIPE,
            text=True,
        )
        os.write(ours, answer.encode())
        _, err = asked.communicate(timeout=60)
        assert asked.returncode == code, err
        assert "Delete" in err
        assert said("schedules", "get", "s").code == left
        os.close(ours)
        os.close(theirs)


class TestLooks:
    @pytest.mark.cloud
    def test_nothing_is_cut_or_wrapped(self, said: Say, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COLUMNS", "40")
        name, words = "n" * 150, "long " * 60
        assert said("schedules", "create", name, "j", "rate(1 hour)", "--description", words).code == 0
        assert f"description  {words.strip()}" in re.sub(
            " +", "  ", said("schedules", "get", name).out.replace("long  ", "long ")
        ) or (words.strip() in said("schedules", "get", name).out)
        assert name in said("schedules", "list").out

    @pytest.mark.parametrize(("no_colour", "coloured"), [("1", False), ("", True)])
    def test_no_color(self, tmp_path: Path, no_colour: str, coloured: bool) -> None:
        """Against a terminal: a pipe has no colours anyway."""
        environ = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "TERM": "xterm-256color",
            "NO_COLOR": no_colour,
        }
        environ |= {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_REGION": "us-east-1"}
        ours, theirs = pty.openpty()
        subprocess.run([sys.executable, "-m", "quarterjack", "doctor"], env=environ, stdout=theirs, check=False)
        shown = os.read(ours, 100_000).decode()
        os.close(ours)
        os.close(theirs)
        assert "no answer" in shown
        assert bool(re.search(r"\x1b\[[0-9;]*3[1-7]m", shown)) is coloured

    def test_progress_is_for_those_who_watch(self, capsys: pytest.CaptureFixture[str]) -> None:
        with Shell(Settings()).progress("working", 10) as advance:
            advance(5)
        assert capsys.readouterr() == ("", "")

    def test_a_question_that_is_left_ends_its_line(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Shell, "can_ask", True)
        monkeypatch.setattr(sys, "stdin", io.StringIO())  # its end is as Ctrl-C
        with pytest.raises(typer.Abort):
            Shell(Settings()).confirm("Delete it", yes=False)
        said = capsys.readouterr().err
        assert said.startswith("Delete it?")
        assert said.endswith("\n")

    def test_nothing_to_do_has_no_progress(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("FORCE_COLOR", "1")  # for rich it is a terminal then
        for total, is_drawn in ((1, True), (0, False)):
            with Shell(Settings()).progress("working", total):
                pass
            assert bool(capsys.readouterr().err) is is_drawn


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_completes_commands(shell: str) -> None:
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "_QUARTERJACK_COMPLETE": f"complete_{shell}"}
    environ |= {"COMP_WORDS": "quarterjack sched", "COMP_CWORD": "1"}
    environ |= {"_TYPER_COMPLETE_ARGS": "quarterjack sched", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    asked = subprocess.run(
        [sys.executable, "-m", "quarterjack"], env=environ, capture_output=True, text=True, check=False
    )
    assert "schedules" in asked.stdout


def test_the_root_says_of_each_command_what_the_command_says_of_itself() -> None:
    """Its help stands in a table, so that listing the commands imports none of them."""
    for name, command in whole().commands.items():
        first = " ".join((command.help or "").split("\n\n")[0].split())
        assert LISTED[name].help == first, name
    assert list(whole().commands) == list(LISTED)


def test_half_a_character_in_an_argument_or_a_result_is_no_traceback() -> None:
    """Results of jobs may have one; standard output of the test's process stands for a terminal in UTF-8."""
    program = "import sys; from quarterjack.cli.app import run; run(['--version']); print('\\ud83d')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "\\ud83d")


def test_an_endpoint_that_does_not_answer_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    at = ("--endpoint", "http://127.0.0.1:1")
    assert run([*at, "schedules", "list"]) == ExitCode.UNAVAILABLE
    assert capsys.readouterr().err.endswith("(at http://127.0.0.1:1, by --endpoint or AWS_ENDPOINT_URL)\n")
    assert run([*at, "--json", "schedules", "list"]) == ExitCode.UNAVAILABLE
    assert json.loads(capsys.readouterr().err)["endpoint"] == "http://127.0.0.1:1"
