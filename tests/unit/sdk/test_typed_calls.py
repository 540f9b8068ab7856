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


def test_the_guide_shows_only_calls_that_mypy_refuses() -> None:
    lines = (CALLS / "wrong.py").read_text(encoding="utf-8").splitlines()
    refused = {line.partition("  # error:")[0].strip() for line in lines if EXPECTED.search(line)}
    guide = (ROOT / "docs" / "how-to" / "write-a-job.md").read_text(encoding="utf-8")
    _, _, section = guide.partition("### What a type checker finds")
    shown = section.partition("```python\n")[2].partition("```")[0].partition("\n\n")[0].splitlines()
    assert len(shown) >= 4
    assert [line for line in shown if line not in refused] == []
