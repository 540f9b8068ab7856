"""What a function loads before its first event. How long that takes is measured elsewhere; what makes it long is named here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
NOT_AT_START = {"boto3", "croniter", "holidays", "pynamodb", "requests", "s3transfer", "yaml", "typer"}


@pytest.mark.parametrize("function", ["auditor", "ticker", "undertaker", "worker"])
def test_a_function_starts_without_what_its_first_event_does_not_need(function: str, tmp_path: Path) -> None:
    """As on Lambda, with tracing: its patches import what they patch."""
    environ = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "shared"), str(ROOT)]),
        "LAMBDA_TASK_ROOT": str(tmp_path),
        "AWS_REGION": "eu-west-1",
        "POWERTOOLS_METRICS_NAMESPACE": "Minutehand",
        "POWERTOOLS_SERVICE_NAME": f"minutehand-{function}",
        "POWERTOOLS_TRACE_DISABLED": "false",
    }
    program = f"import functions.{function}.handler as it; it.services(); import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, env=environ)
    assert done.returncode == 0, done.stderr
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert not loaded & NOT_AT_START
    assert loaded >= {"botocore", "minutehand", "aws_xray_sdk"}
