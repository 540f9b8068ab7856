"""The tutorial and the page about testing, followed as a reader follows them: files typed in, commands typed in."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.doc_pages import page
from tests.support.installation.local_command import read_until
from tests.support.installation.scene import ROOT, until

pytestmark = [pytest.mark.check, pytest.mark.cloud]

_FILE = re.compile(r"```python\n(# (\w+\.py)\n.*?)```", re.DOTALL)


def type_in(name: str, folder: Path) -> list[str]:
    """Write the files of a page; their names."""
    files = _FILE.findall(page(name).text)
    for text, file in files:
        (folder / file).write_text(text)
    return [file for _, file in files]


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """A reader's shell: no AWS account, nothing of these tests."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "QUARTERJACK_", "PYTEST"))
    }
    return {
        **kept,
        "PYTHONPATH": str(ROOT / "shared"),
        "TMPDIR": str(tmp_path),
        "PYTHONUNBUFFERED": "1",
        "COLUMNS": "160",
    }


@pytest.fixture
def second_terminal(tmp_path: Path, environ: dict[str, str]) -> Iterator[dict[str, str]]:
    """The environment of one, after the first has started the tutorial's scheduler and printed its line."""
    type_in("docs/tutorial.md", tmp_path)
    (line,) = (
        line for line in page("docs/tutorial.md").shell_lines() if line.endswith("local --jobs greetings --no-examples")
    )
    command = [sys.executable, "-m", "quarterjack", *shlex.split(line)[1:]]
    with subprocess.Popen(command, cwd=tmp_path, env=environ, stdout=subprocess.PIPE, text=True) as first:
        try:
            exported = read_until(first, "export AWS_ENDPOINT_URL", 60).split("export ")[1].split()
            yield {**environ, **dict(pair.split("=", 1) for pair in exported)}
        finally:
            first.terminate()
            rest, _ = first.communicate(timeout=60)
        assert first.returncode == 0, rest
        assert "0 double" in rest


def test_the_tutorial_from_end_to_end(tmp_path: Path, second_terminal: dict[str, str]) -> None:
    def say(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, *words], cwd=tmp_path, env=second_terminal, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout

    def shown(run_id: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(say("-m", "quarterjack", "--json", "runs", "show", run_id))
        return found

    def kill_worker_of(run_id: str) -> None:
        assert until(lambda: shown(run_id)["worker"] is not None, 60)
        _, number, _ = shown(run_id)["worker"].split(":")
        os.kill(int(number), signal.SIGKILL)

    commands = [line for line in page("docs/tutorial.md").shell_lines() if line.startswith("quarterjack ")]
    assert len(commands) >= 9
    for command in commands:
        words = shlex.split(command)
        if words[1:3] == ["runs", "tail"]:
            kill_worker_of(words[3])
        if words[1:3] == ["runs", "list"]:  # at first it says on standard error that there is none
            assert until(lambda: "SUCCEEDED" in say("-m", "quarterjack", "runs", "list", "hello"), 60), "it fires"
        assert say("-m", *words), command
    reminded = say("remind.py")
    assert reminded.startswith("SUCCEEDED Hello Grace, it is ")
    assert say("remind.py") == reminded, "the key stands for the run that was"

    letter, tour = "default/~letter-to-alan#once", "default/~tour#once"
    assert until(lambda: shown(letter)["state"] == "SUCCEEDED", 60)
    assert shown(letter)["attempt"] == 3
    assert (shown(tour)["state"], shown(tour)["attempt"]) == ("SUCCEEDED", 2), "killed once"


@pytest.mark.parametrize("name", ["docs/tutorial.md", "docs/how-to/test-locally.md"])
def test_the_tests_that_a_page_shows_pass(name: str, tmp_path: Path, environ: dict[str, str]) -> None:
    tests = [file for file in type_in(name, tmp_path) if file.startswith("test_")]
    assert tests
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
