"""``quarterjack serve`` on the local cloud, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from quarterjack.local.cloud import LocalCloud
from quarterjack.local.processes import variables
from quarterjack.testing.cloud import fresh_settings

ROOT = Path(__file__).parents[3]
ENDING = 60  # seconds that the server may take to end


@contextmanager
def running_server(cloud: LocalCloud) -> Iterator[dict[str, Any]]:
    """What the server of a fresh installation says of itself: ``url`` and ``key``. It is told to end afterwards, and has to end well."""
    environ = {**os.environ, **cloud.environment, **variables(fresh_settings(cloud))}
    environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "shared"), str(ROOT)])
    words = [sys.executable, "-m", "quarterjack", "--json", "serve", "--port", "0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environ) as server:
        assert server.stdout is not None
        try:
            yield json.loads(server.stdout.readline())
        finally:
            server.terminate()
            assert server.wait(timeout=ENDING) == 0
