"""The stack on an embedded cloud, deployed by the real CDK command line: what ``make deploy-local`` does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.check, pytest.mark.cloud]

ROOT = Path(__file__).parents[2]
PATIENCE = 900  # seconds; a minute is usual


def test_the_deployed_functions_run_a_schedule() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "infra.deploy_local"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for part in ("worker", "worker-reports", "undertaker", "ticker", "auditor", "api"):
        assert f"{part}: " in done.stdout
    assert "PASSED" in done.stdout.splitlines()[-1]
