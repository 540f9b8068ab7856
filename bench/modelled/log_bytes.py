"""Bytes of log: what a run, a fire, a tick and an audit cause, Lambda's own lines included.

    python -m bench.modelled.log_bytes        measures them

The tables of costs are made of LOG_BYTES; a test holds them to what is measured. The lines of jobs' own loggers come on top.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from bench.modelled.function_logs import MARK, REQUEST

# Measured in November 2026 on Python 3.11.
LOG_BYTES: Mapping[str, int] = {
    "run": 1_250,  # of a full batch: its two lines, and its tenth of the batch's metrics
    "run alone": 2_130,  # the same of a run that has an invocation for itself
    "fire": 4,  # of a tick that claims many: the lag of each is a value of a metric
    "tick": 1_120,  # that finds nothing
    "audit": 1_160,  # the same
}
BATCH = 10  # messages of a full batch
FIRES = 200  # that a tick of the measurement claims
_ROOT = Path(__file__).parents[2]
# Lambda's lines of an invocation in its text format, which is the default, with a trace of X-Ray.
PLATFORM = len(
    f"START RequestId: {REQUEST} Version: $LATEST\n"
    f"END RequestId: {REQUEST}\n"
    f"REPORT RequestId: {REQUEST}\tDuration: 123.45 ms\tBilled Duration: 124 ms\tMemory Size: 512 MB\tMax Memory Used: 110 MB\t\n"
    "XRAY TraceId: 1-5759e988-bd862e3fe1be46a994272793\tSegmentId: 53995c3f42cd8ad8\tSampled: true\t\n"
)


def measured() -> dict[str, float]:
    """LOG_BYTES, measured here."""
    idle = of_invocation("ticker", 0)
    return {
        "run": of_invocation("worker", BATCH) / BATCH,
        "run alone": of_invocation("worker", 1),
        "fire": (of_invocation("ticker", FIRES) - idle) / FIRES,
        "tick": idle,
        "audit": of_invocation("auditor", 0),
    }


def of_invocation(part: str, entries: int) -> float:
    """Bytes of an invocation with so many messages or fires, on the average; the first one is left out, which publishes the jobs."""
    command = [sys.executable, "-m", "bench.modelled.function_logs", part, str(entries)]
    done = subprocess.run(command, cwd=_ROOT, env=_environment(part), stdout=subprocess.PIPE, check=True)
    invocations = done.stdout.split(MARK.encode())[2:]
    return sum(map(len, invocations)) / len(invocations) + PLATFORM


def _environment(part: str) -> dict[str, str]:
    """As the stack gives it to the function, whose name is its service."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AWS_", "POWERTOOLS_", "QUARTERJACK_"))
    }
    return kept | {
        "AWS_DEFAULT_REGION": "us-east-1",
        "POWERTOOLS_METRICS_NAMESPACE": "Quarterjack",
        "POWERTOOLS_SERVICE_NAME": f"quarterjack-{part}",
        "_X_AMZN_TRACE_ID": "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1",
    }


if __name__ == "__main__":
    print(json.dumps({name: round(size) for name, size in measured().items()}, indent=1))
