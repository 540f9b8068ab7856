"""``make aws-proof ENDPOINT=local``: the whole proof on an embedded cloud, and the same interrupted."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from quarterjack.local.processes import inherited

from tests.support.installation.scene import until

pytestmark = pytest.mark.cloud

ROOT = Path(__file__).parents[2]
PATIENCE = 2_400  # seconds; four minutes are usual, eighteen were taken at a load of 40 on two cores
COMMAND = [sys.executable, "-m", "bench.aws_proof", "--endpoint", "local"]
GONE = "- left behind: nothing"


@pytest.mark.proof
def test_everything_that_can_be_shown_here_holds_and_nothing_is_left() -> None:
    done = subprocess.run(
        [*COMMAND, "--rate", "1"],
        cwd=ROOT,
        env=inherited(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    told = done.stdout + done.stderr
    assert done.returncode == 0, told
    for part in (
        "pause",
        "fires, prompt",
        "fires, exact",
        "a worker's process killed",
        "fires, queue-outage",
        "ramp to 1",
    ):
        assert any(line.startswith(f"| {part}") and "| held |" in line for line in done.stdout.splitlines()), told
    for part in ("fires, throttled", "an alarm goes off by its fault", "an alarm arrives", "cost, counted"):
        assert f"| {part} | skipped | skipped: " in done.stdout, told
    assert "accepted p99.9 s" in done.stdout
    assert "started p99.9 s" in done.stdout
    assert GONE in done.stdout


@pytest.mark.proof
def test_after_a_ctrl_c_everything_is_removed() -> None:
    with subprocess.Popen(
        COMMAND, cwd=ROOT, env=inherited(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as proof:
        assert proof.stderr is not None
        assert proof.stdout is not None
        told: list[str] = []
        reader = threading.Thread(target=lambda: told.extend(proof.stderr or ()))
        reader.start()
        until(lambda: any("pause: " in line for line in told) or proof.poll() is not None, PATIENCE)
        assert any("pause: " in line for line in told), told  # it is deployed and has run
        proof.send_signal(signal.SIGINT)
        said = proof.stdout.read()
        reader.join()
    assert proof.returncode == 1, told
    assert "- ended: interrupted" in said
    assert GONE in said
