"""LocalEmu, which continues LocalStack's community edition, as a child process: queues, buckets, topics, parameters and secrets.

``make localemu`` installs it into an environment of its own, of Python 3.13: on 3.11 each of its calls ends in a syntax error of its
code, though it says that it runs there. Its DynamoDB is moto's, so the tests put DynamoDB Local in its place.
"""

from __future__ import annotations

import os
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from quarterjack.local.loopback import LOOPBACK

from tests.support.emulator_process import running

PYTHON = Path(__file__).parents[2] / ".localemu" / "bin" / "python"
MISSING = "LocalEmu is not installed; run: make localemu"
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_SWITCHES = {
    "DISABLE_EVENTS": "1",  # LocalStack's name for its telemetry; LocalEmu 1.3 has none
    "SKIP_SSL_CERT_DOWNLOAD": "1",
    "SKIP_INFRA_DOWNLOADS": "1",
    "ENABLE_CONFIG_UPDATES": "0",
    "SQS_DISABLE_CLOUDWATCH_METRICS": "1",  # a thread that nobody needs
    "SQS_ENDPOINT_STRATEGY": "path",  # URLs of queues with the address, not a name that a resolver has to know
    "OUTBOUND_HTTP_PROXY": "http://127.0.0.1:9",  # nothing listens there: it reaches nobody
    "OUTBOUND_HTTPS_PROXY": "http://127.0.0.1:9",
}


@contextmanager
def running_localemu() -> Iterator[str]:
    """The address of a fresh LocalEmu that answers."""
    assert PYTHON.exists(), MISSING

    def command(folder: Path, port: int) -> tuple[Sequence[str], Mapping[str, str]]:
        address = f"{LOOPBACK}:{port}"
        own = {"HOME": str(folder), "TMPDIR": str(folder), "FILESYSTEM_ROOT": str(folder / "data")}
        where = {"GATEWAY_LISTEN": address, "LOCALEMU_HOST": address, "PATH": os.environ.get("PATH", os.defpath)}
        return [str(PYTHON), "-m", "localemu.runtime.main"], _SWITCHES | own | where

    with running("LocalEmu", command, is_ready=_is_healthy) as address:
        yield address


def _is_healthy(port: int) -> bool:
    try:
        with _DIRECT.open(f"http://{LOOPBACK}:{port}/_localemu/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
