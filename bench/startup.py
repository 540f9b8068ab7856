"""What starting costs: processor time of the command line and of importing the SDK, as ratios to ``import boto3``.

python -m bench startup [--repeat 15]

Each case is a fresh process. The cases take turns, so that a machine's changing load meets all of them. A ratio is the case's median
over that of ``import boto3``, both less the median of an interpreter that does nothing.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.report import Table, write

_ROOT = Path(__file__).parents[1]
_COMMAND = "import sys; from quarterjack.cli import main; sys.argv[0] = 'quarterjack'; main()"
CASES: dict[str, tuple[tuple[str, ...], float | None]] = {  # arguments of python -c, and the ratio's limit
    "an interpreter": (("pass",), None),
    "import boto3": (("import boto3",), None),
    "from quarterjack import Scheduler": (("from quarterjack import Scheduler",), 1.2),
    "quarterjack --help": ((_COMMAND, "--help"), 1.5),
    "quarterjack --version": ((_COMMAND, "--version"), 1.5),
    "quarterjack preview": ((_COMMAND, "preview", "*/5 * * * *"), 1.5),
}


def processor_ms(words: Sequence[str]) -> float:
    """Milliseconds of user and system time of one process."""
    environ = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(_ROOT / "shared"), str(_ROOT)]),
        "PYTHONPYCACHEPREFIX": str(_ROOT / "build" / "bytecode"),  # compiled beforehand, as an installed package is
    }
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", *words], check=True, capture_output=True, env=environ)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1_000


def main(arguments: Sequence[str]) -> None:
    """Measure, print, keep; exits with 1 if a ratio is over its limit."""
    parser = argparse.ArgumentParser(prog="bench startup")
    parser.add_argument("--repeat", type=int, default=15)
    repeat = parser.parse_args(arguments).repeat
    for words, _ in CASES.values():
        processor_ms(words)  # compiles
    times: dict[str, list[float]] = {case: [] for case in CASES}
    for _ in range(repeat):
        for case, (words, _) in CASES.items():
            times[case].append(processor_ms(words))
    medians = {case: statistics.median(found) for case, found in times.items()}
    nothing = medians["an interpreter"]
    rows = [
        {
            "case": case,
            "cpu_ms": round(medians[case], 1),
            "ratio": round((medians[case] - nothing) / (medians["import boto3"] - nothing), 2),
            "limit": "" if limit is None else limit,
        }
        for case, (_, limit) in CASES.items()
    ]
    Table(f"start: processor time, median of {repeat}", rows).show()
    write("startup", rows)
    over = [row["case"] for row in rows if row["limit"] != "" and float(str(row["ratio"])) > float(str(row["limit"]))]
    if over:
        raise SystemExit(f"over its limit: {', '.join(map(str, over))}")
