"""What a fire and a run execute stays within its bounds: nobody pays for what only some use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.check
def test_a_tick_and_a_worker_execute_no_more_than_their_bounds() -> None:
    """In a process of its own: a tracer of instructions would slow every thread of this one."""
    command = [sys.executable, "-m", "bench", "bytecode", "--fires", "250", "--dry"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    parts = ("tick", "work", "one-offs")
    assert [line.split()[0] for line in done.stdout.splitlines() if line.startswith(parts)] == [*parts]
