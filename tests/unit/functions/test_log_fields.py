"""Lines on Lambda say whose they are, whatever a job adds to them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
# In a process of its own: it gives every handler of the root logger its format.
_PROGRAM = """
import logging, sys
from functions import observe

logging.getLogger().addHandler(logging.StreamHandler(sys.stdout))
observe._share_format()
run = {"run_id": "acme/~a#once", "job": "j", "tenant": "acme"}
with observe.around_run(run):
    logging.getLogger("acme").info("said", extra={"run_id": "other/b#1", "tenant": "other", "n": 1})
    logging.getLogger("acme").info("said", extra={"run_id": "acme/~a#once"})
"""


def lines_of(program: str) -> list[dict[str, Any]]:
    """What a program writes to standard output; it writes nothing else."""
    own_code = {"PYTHONPATH": os.pathsep.join([str(ROOT / "shared"), str(ROOT)])}
    environ = os.environ | own_code | {"POWERTOOLS_SERVICE_NAME": "test", "POWERTOOLS_METRICS_NAMESPACE": "test"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environ)
    assert not done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_no_job_logs_in_the_name_of_another_run() -> None:
    spoofed, own = lines_of(_PROGRAM)
    assert (spoofed["run_id"], spoofed["tenant"], spoofed["n"]) == ("acme/~a#once", "acme", 1)
    assert (spoofed["run_id_"], spoofed["tenant_"]) == ("other/b#1", "other")
    assert own["run_id"] == "acme/~a#once"
    assert "run_id_" not in own


def test_where_the_runtime_has_no_handler_every_line_is_written_once() -> None:
    """As in a local cloud: Lambda's own runtime has one."""
    found = lines_of(
        """
import logging
from functions import observe
assert not logging.getLogger().handlers
observe._share_format()
logging.getLogger("acme.jobs").info("of a job")
observe.logger.info("of the function")
"""
    )
    assert [line["message"] for line in found] == ["of a job", "of the function"]
