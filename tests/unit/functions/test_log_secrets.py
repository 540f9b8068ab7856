"""Lines on Lambda do not have the secrets that a run has looked up, whoever writes them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
# In a process of its own: it gives every handler of the root logger its format.
_PROGRAM = """
import logging, sys
from functions import observe
from quarterjack import masking

logging.getLogger().addHandler(logging.StreamHandler(sys.stdout))
observe._share_format()
run = {"run_id": "acme/~a#once", "job": "j", "tenant": "acme"}
library = logging.getLogger("library")
with observe.around_run(run):
    library.info("before any secret", extra={"n": 1})
    masking.of_process.add('hush/"0123456789"', "acme")
    masking.of_process.add("acme", "acme")
    library.info('sent %s', 'hush/"0123456789"', extra={"deep": {"a": ['hush/"0123456789"']}, "n": 2})
    library.info({"a": 'hush/"0123456789"'})
    try:
        raise ValueError('hush/"0123456789"')
    except ValueError:
        library.exception("failed")
    library.info("%d sent", 'hush/"0123456789"')
"""


def test_no_line_has_a_secret_and_the_runs_fields_stay() -> None:
    own_code = {"PYTHONPATH": os.pathsep.join([str(ROOT / "shared"), str(ROOT)])}
    environ = os.environ | own_code | {"POWERTOOLS_SERVICE_NAME": "test", "POWERTOOLS_METRICS_NAMESPACE": "test"}
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True, env=environ)
    assert "hush" not in done.stdout + done.stderr
    before, sent, data, failed, slip = map(json.loads, done.stdout.splitlines())
    assert (before["message"], before["n"]) == ("before any secret", 1)
    assert (sent["message"], sent["deep"], sent["n"]) == ("sent [secret]", {"a": ["[secret]"]}, 2)
    assert data["message"] == {"a": "[secret]"}
    assert "ValueError: [secret]" in failed["exception"]
    assert (slip["message"], slip["of"], slip["because"]) == ("line.unwritable", "library", "TypeError")
    for line in (sent, data, failed, slip):
        assert (line["run_id"], line["tenant"], line["job"]) == ("acme/~a#once", "acme", "j")
        assert line.keys() >= {"level", "timestamp", "location", "service"}
