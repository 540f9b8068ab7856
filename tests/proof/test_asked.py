"""A proof that is asked for nothing, or for what there is not, says so: its last line would read as if nothing had broken."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("program", "given", "field"),
    [
        ("simulate", ["--for", "0"], "--for"),
        ("simulate", ["--for", "nan"], "--for"),
        ("simulate", ["--for", "soon"], "--for"),
        ("simulate", ["--histories", "0"], "--histories"),
        ("simulate", ["--processes", "-1"], "--processes"),
        ("mutants", ["--workers", "0"], "--workers"),
        ("mutants", ["no such breakage"], "names"),
        ("chaos", ["--for", "-1"], "--for"),
    ],
)
def test_nothing_asked_is_refused(program: str, given: list[str], field: str) -> None:
    said = subprocess.run(
        [sys.executable, "-m", f"tests.support.{program}", *given],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert said.returncode == 2
    assert field in said.stderr.splitlines()[-1]
    assert "violations" not in said.stdout
