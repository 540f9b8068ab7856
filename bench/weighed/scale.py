"""Where a process says what it weighs: one line of JSON, read by ``bench.memory``."""

from __future__ import annotations

import json
import resource
import sys


def peak() -> float:
    """Megabytes that this process has held at the most."""
    unit = 1 if sys.platform == "darwin" else 1_024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


def say(**figures: float) -> None:
    print(json.dumps(figures))
