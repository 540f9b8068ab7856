"""mypy finds each wrong call, and lets each right one through."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
CALLS = ROOT / "tests" / "support" / "typed_calls"
EXPECTED = re.compile(r"# error: (.+)$")
SAID = re.compile(r"^(.+?):(\d+): error: (.+)$", re.MULTILINE)


@pytest.fixture(scope="module")
def said() -> dict[tuple[str, int], str]:
    """What mypy says, by file and line."""
    words = ["--strict", "--no-error-summary", "--cache-dir", str(ROOT / "build" / "mypy-calls")]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--config-file",
            str(ROOT / "pyproject.toml"),
            *words,
            *map(str, sorted(CALLS.glob("*.py"))),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.stderr, done.stderr
    found = SAID.findall(done.stdout)
    assert len(found) == len({(file, line) for file, line, _ in found}), "one error a line"
    return {(Path(file).name, int(line)): text for file, line, text in found}


@pytest.mark.check
def test_mypy_finds_each_wrong_call_and_no_other(said: dict[tuple[str, int], str]) -> None:
    lines = (CALLS / "wrong.py").read_text(encoding="utf-8").splitlines()
    expected = {
        ("wrong.py", number): found[1] for number, line in enumerate(lines, 1) if (found := EXPECTED.search(line))
    }
    assert set(said) == set(expected)
    for place, words in expected.items():
        assert said[place].startswith(words)


def test_they_are_ten_and_the_guide_lists_them() -> None:
    wrong = (CALLS / "wrong.py").read_text(encoding="utf-8").partition("# More of the kind")[0]
    listed = [line.partition("  # error:")[0].strip() for line in wrong.splitlines() if EXPECTED.search(line)]
    assert len(listed) == 10
    guide = (ROOT / "docs" / "how-to" / "write-a-job.md").read_text(encoding="utf-8")
    assert [line for line in listed if line not in guide] == []
