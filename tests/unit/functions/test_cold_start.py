"""What a function loads in its first invocation. How long that takes is measured elsewhere; what makes it long is named here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
NOT_AT_START = {
    *("boto3", "botocore.client", "botocore.session", "s3transfer", "urllib3", "requests"),
    *("croniter", "dateutil", "holidays", "yaml", "typer", "aws_lambda_powertools.utilities.data_classes"),
}
TICK = """
import functions.ticker.handler as it
CLOUD.attach(it.services())
assert it.handler({}, CONTEXT)["sent"] >= 3
"""
BATCH = """
import functions.worker.handler as it
from bench.work import CASES, message
CLOUD.attach(it.services())
records = [{"messageId": f"{n}", "receiptHandle": "r", "body": message(CASES[0], n, 60_000).encode()} for n in range(3)]
assert it.handler({"Records": records}, CONTEXT) == {"batchItemFailures": []}
assert CLOUD.deleted == 3
"""
START = "import functions.{function}.handler as it; it.services()"
PROGRAM = """
import sys, time
from types import SimpleNamespace
from bench.tick import Case, cloud_of
CLOUD = cloud_of(Case("minutely", "* * * * *", due=(time.time_ns() // 60_000_000_000 + 1) * 60_000), 3)
CONTEXT = SimpleNamespace(
    function_name="f", memory_limit_in_mb=512, invoked_function_arn="arn", aws_request_id="r", log_stream_name="l",
    get_remaining_time_in_millis=lambda: 60_000,
)
{act}
print(*sys.modules)
"""


def loaded(act: str, folder: Path) -> set[str]:
    """The modules of a new process after it, as on Lambda."""
    environ = {
        **{name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
        "PYTHONPATH": os.pathsep.join([str(ROOT / "shared"), str(ROOT)]),
        "HOME": str(folder),
        "LAMBDA_TASK_ROOT": str(folder),
        "AWS_REGION": "eu-west-1",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "QUARTERJACK_JOBS": "tests.unit.functions.jobs",
        "POWERTOOLS_METRICS_NAMESPACE": "Quarterjack",
        "POWERTOOLS_SERVICE_NAME": "quarterjack-function",
        "_X_AMZN_TRACE_ID": "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=557abcec3ee5a047;Sampled=1",
    }
    program = PROGRAM.format(act=act)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, env=environ)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize("act", [TICK, BATCH, START.format(function="auditor"), START.format(function="historian")])
def test_a_function_starts_without_what_its_first_event_does_not_need(act: str, tmp_path: Path) -> None:
    modules = loaded(act, tmp_path)
    assert not modules & NOT_AT_START
    assert "quarterjack.aws" in modules


def test_the_api_starts_without_what_no_request_needs(tmp_path: Path) -> None:
    modules = loaded("import functions.api.handler as it; it._adapter()", tmp_path)
    assert not modules & (NOT_AT_START - {"dateutil"})
    assert not modules & {"uvicorn", "httpx", "jinja2", "jsonschema_rs"}
    assert {"fastapi", "mangum"} <= modules
