"""What processes weigh: peak memory of a large tick and of a worker, CPU from a function's start to its first call of AWS.

python -m bench memory [--fires 100000] [--runs 5000] [--repeat 3]

Each in a fresh process, the interpreter included. AWS is answered in the process as in ``tick`` and ``work``, by a cloud that makes
up what it answers, so that it weighs nothing itself.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.report import Table, write

LIMITS = {"tick": 256, "worker": 120}  # MB
COLD_STARTS = {  # ms of processor time
    **dict.fromkeys(("ticker", "worker", "undertaker", "auditor", "historian"), 400),
    "api": 1_000,
}
_ROOT = Path(__file__).parents[1]


def measured(what: str, argument: object) -> dict[str, float]:
    """What a fresh process says of itself: a module of ``bench/weighed`` and its argument."""
    environ = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(_ROOT / "shared"), str(_ROOT)]),
        "AWS_REGION": "eu-west-1",
        "AWS_ACCESS_KEY_ID": "bench",
        "AWS_SECRET_ACCESS_KEY": "bench",
        "LAMBDA_TASK_ROOT": tempfile.gettempdir(),  # tracing is on, as on Lambda, and this invocation's trace is kept
        "_X_AMZN_TRACE_ID": "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=557abcec3ee5a047;Sampled=1",
        "QUARTERJACK_JOBS": "examples.starter",
        "PYTHONPYCACHEPREFIX": str(_ROOT / "build" / "bytecode"),  # compiled beforehand, as a bundle is
        "POWERTOOLS_METRICS_NAMESPACE": "Quarterjack",
        "POWERTOOLS_SERVICE_NAME": "bench",
    }
    command = [sys.executable, "-m", f"bench.weighed.{what}", str(argument)]
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environ)
    if done.returncode:
        raise SystemExit(done.stderr)
    said: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return said


def row(case: str, size: int, runs: Sequence[dict[str, float]], limit: int) -> dict[str, Any]:
    """The minimum of each figure."""
    least = {name: round(min(run[name] for run in runs), 1) for name in runs[0]}
    return (
        {"case": case, "size": size, "repetitions": len(runs), "before_mb": "", "cpu_ms": ""} | least | {"limit": limit}
    )


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="bench memory")
    parser.add_argument("--fires", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=5_000)
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args(arguments)
    rows = [
        row("tick, hourly cron", given.fires, [measured("tick", given.fires)], LIMITS["tick"]),
        row("worker, no-op, 10 KB payload", given.runs, [measured("worker", given.runs)], LIMITS["worker"]),
    ]
    for function, limit in COLD_STARTS.items():
        measured("start", function)  # so that all is compiled
        starts = [measured("start", function) for _ in range(given.repeat)]
        rows.append(row(f"cold start of the {function}, import to first call", 1, starts, limit))
    write("memory", rows)
    Table("memory", rows).show()
