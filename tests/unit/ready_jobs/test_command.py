"""The job that runs commands, with real shells: how it ends, what is left of it, and what it is given."""

from __future__ import annotations

import getpass
import os
import signal
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from quarterjack import Registry, Retry, RunState
from quarterjack.errors import InvalidInput
from quarterjack.isolation import perform_isolated
from quarterjack.ready_jobs import command
from quarterjack.ready_jobs.command import LOGGED, TAIL, Command, command_job
from quarterjack.worker.context import Execute

from tests.support.scenes.isolated_jobs import PARENT, Stage, living, until


def stage_of(isolated: Execute | None) -> Stage:
    jobs = Registry()
    command_job(registry=jobs)
    command_job("again", registry=jobs, retry=Retry(max_attempts=3, base=1.0, jitter=0.0))
    made = Stage(jobs)
    made.worker = replace(made.worker, isolated=isolated)
    return made


@pytest.fixture(params=[None, partial(perform_isolated, PARENT)], ids=["command", "process"])
def stage(request: pytest.FixtureRequest) -> Stage:
    """As a job runs on Lambda, and as it does on worker processes."""
    return stage_of(request.param)


@pytest.fixture
def plain() -> Stage:
    """In a thread, where it makes no difference."""
    return stage_of(None)


def leader(folder: Path) -> int:
    """The process group of a command that wrote ``$$`` there."""
    return int((folder / "pid").read_text())


# How it ends.


def test_exit_code_zero_is_success_and_the_end_of_the_output_is_kept(stage: Stage) -> None:
    run = stage.run("command", "echo one; echo two >&2; echo three")
    assert run.state is RunState.SUCCEEDED
    assert (run.result["exit_code"], run.result["output"]) == (0, "one\ntwo\nthree")


def test_another_exit_code_fails_the_run_for_good_with_the_end_of_its_output(stage: Stage) -> None:
    run = stage.run("command", {"command": "echo out; echo 'disk full' >&2; exit 3"})
    assert (run.state, run.error_type, run.error_code) == (RunState.DEAD, "CommandFailed", "exit 3")
    assert run.error == "exit 3: disk full\nbefore that:\nout"


def test_it_is_repeated_if_its_job_says_so(plain: Stage) -> None:
    assert plain.run("again", "exit 1").state is RunState.RETRYING


def test_a_signal_is_named(plain: Stage) -> None:
    run = plain.run("command", {"command": "kill -KILL $$"})
    assert (run.error_code, run.error) == ("SIGKILL", "SIGKILL, without any output")


def test_much_output_costs_no_memory_and_its_end_is_kept(plain: Stage) -> None:
    run = plain.run("command", "i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done; exit 9")
    (attempt,) = run.failed_attempts
    assert attempt.error.startswith("exit 9: line 19999\nbefore that:\n")
    assert attempt.error.endswith("\nline 19997\nline 19998")
    assert TAIL <= len(attempt.error) < 2_000, "what is kept of an error's message"


def test_the_beginning_of_its_output_is_logged(plain: Stage, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    plain.run("command", "i=0; while [ $i -lt 500 ]; do echo line $i; i=$((i+1)); done")
    lines = [record.__dict__["line"] for record in caplog.records if record.getMessage() == "command.output"]
    assert lines == [f"line {number}" for number in range(LOGGED)]


def test_output_that_is_no_text_is_kept_as_far_as_it_is(plain: Stage) -> None:
    assert plain.run("command", r"printf 'a\377b\000c'").result["output"] == "a�b\0c"


# Limits.


def test_at_its_timeout_the_whole_group_is_killed(stage: Stage, tmp_path: Path) -> None:
    line = f"echo $$ > {tmp_path}/pid; echo begun; sleep 300 & sleep 300 | sleep 300"
    run = stage.run("command", {"command": line, "timeout": 1})
    assert (run.state, run.error_type, run.error_code) == (RunState.DEAD, "CommandTimeout", "timeout")
    assert run.error is not None
    assert run.error.endswith(" s: begun")
    assert until(lambda: not living(leader(tmp_path)), 60)


def test_who_ignores_sigterm_is_killed_after_a_grace(
    plain: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "GRACE", 2.0)  # 5 s as installed
    line = f"echo $$ > {tmp_path}/pid; trap 'echo asked' TERM; while true; do sleep 0.1; done"
    run = plain.run("command", {"command": line, "timeout": 0.5})
    assert run.error is not None
    assert "asked" in run.error
    assert run.error_type == "CommandTimeout"
    assert until(lambda: not living(leader(tmp_path)), 60)
    assert run.ended_at is not None
    assert run.started_at is not None
    assert (run.ended_at - run.started_at).total_seconds() >= command.GRACE


def test_a_cancelled_command_ends_with_its_group(stage: Stage, tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    started = stage.start("command", {"command": f"echo $$ > {mark}; sleep 300 & sleep 300"}, mark=mark)
    stage.scheduler.cancel_run(started.run_id)
    stage.beat()
    started.end()
    assert stage.scheduler.get_run(started.run_id).state is RunState.CANCELLED
    assert until(lambda: not living(leader(tmp_path)), 60)


def test_a_command_whose_lease_is_lost_ends_with_its_group(stage: Stage, tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    started = stage.start("command", {"command": f"echo $$ > {mark}; sleep 300 & sleep 300"}, mark=mark)
    stage.take_over(started.run_id)
    stage.beat()
    started.end()
    assert until(lambda: not living(leader(tmp_path)), 60)


def test_what_it_leaves_running_is_left_alone_and_not_waited_for(stage: Stage, tmp_path: Path) -> None:
    run = stage.run("command", f"echo $$ > {tmp_path}/pid; sleep 300 & echo started")
    try:
        assert (run.state, run.result["output"]) == (RunState.SUCCEEDED, "started")
        assert len(living(leader(tmp_path))) == 1
    finally:
        os.killpg(leader(tmp_path), signal.SIGKILL)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux kills a group for a closed pipe")
def test_a_worker_that_dies_takes_its_commands_along(tmp_path: Path) -> None:
    program = f"""
import sys
sys.path[:0] = {sys.path!r}
from tests.unit.ready_jobs.test_command import stage_of
stage_of(None).run("command", "echo $$ > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/pid; sleep 300 & sleep 300 | cat")
"""
    worker = subprocess.Popen([sys.executable, "-c", program])
    try:
        assert until((tmp_path / "pid").exists, 60)
        assert until(lambda: len(living(leader(tmp_path))) >= 3, 60), "the shell, its two sleeps, its cat"
    finally:
        worker.kill()
        worker.wait()
    assert until(lambda: not living(leader(tmp_path)), 60)


# What it is given.


def test_environment_directory_shell_and_standard_input(plain: Stage, tmp_path: Path) -> None:
    given = {
        "command": "echo $GREETING; pwd; cat; echo ${BASH_VERSION:+bash}",
        "shell": "/bin/bash",
        "environment": {"GREETING": "hello"},
        "directory": str(tmp_path),
        "stdin": "one\ntwo\n",
    }
    assert plain.run("command", given).result["output"] == f"hello\n{tmp_path}\none\ntwo\nbash"


def test_it_starts_in_the_home_folder_and_reads_nothing(plain: Stage) -> None:
    home = os.environ["HOME"]
    assert plain.run("command", "pwd; cat").result["output"] == home


def test_it_knows_its_run(plain: Stage) -> None:
    run = plain.run("command", "echo $QUARTERJACK_RUN_ID $QUARTERJACK_ATTEMPT $QUARTERJACK_SCHEDULED_AT")
    assert run.result["output"] == f"{run.id} 1 {run.due.isoformat()}"


def test_words_need_no_shell(plain: Stage) -> None:
    assert plain.run("command", {"argv": ["echo", "$HOME; two  words"]}).result["output"] == "$HOME; two  words"


def test_it_runs_as_its_user_or_not_at_all(plain: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    me = getpass.getuser()
    assert plain.run("command", {"command": "id -un", "user": me}).result["output"] == me
    run = plain.run("command", {"command": "id -un", "user": "nobody-of-this-name"})
    assert (run.state, run.error_type) == (RunState.DEAD, "Permanent")
    if os.geteuid() == 0:
        run = plain.run("command", {"command": "id -un; id -Gn; echo $HOME", "user": "daemon", "directory": "/"})
        assert run.result["output"].split()[0] == "daemon"
        assert "root" not in run.result["output"]
    monkeypatch.setattr(os, "geteuid", lambda: 54_321)
    run = plain.run("command", {"command": "id -un", "user": "root"})
    assert run.error_type == "Permanent"
    assert "cannot change; start it as root or as root" in str(run.error)


@pytest.mark.parametrize(
    "payload",
    [
        None,
        7,
        {},
        {"command": ""},
        {"command": "a", "argv": ["b"]},
        {"comand": "a"},
        {"argv": "ls -l"},
        {"argv": [1]},
        {"command": "a", "environment": {"A": 1}},
        {"command": "a", "environment": {"A=B": "1"}},
        {"command": "a\0b"},
        {"command": "a", "timeout": "5"},
        {"command": "a", "user": 0},
    ],
)
def test_a_payload_that_is_no_command_is_refused_before_anything_runs(payload: Any) -> None:
    with pytest.raises(InvalidInput, match="payload"):
        Command.of(payload)


def test_a_run_with_a_bad_payload_or_a_missing_program_is_dead_at_once(plain: Stage) -> None:
    for given in ({"argv": ["/no/such/program"]}, {"command": "true", "directory": "/no/such"}, {"nothing": 1}):
        run = plain.run("again", given)
        assert (run.state, run.error_type) == (RunState.DEAD, "Permanent")
