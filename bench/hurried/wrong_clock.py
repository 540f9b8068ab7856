"""The wall clock of a process that is off by the seconds in the file that HURRY_CLOCK names, at any time.

To be imported before anything reads the clock. Only what the scheduler reads is off: jobs and log lines keep the time of the machine.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

VARIABLE = "HURRY_CLOCK"

_true_ns = time.time_ns


def _wrong_ns() -> int:
    return _true_ns() + int(float(_file.read_text()) * 1e9)


if VARIABLE in os.environ:
    _file = Path(os.environ[VARIABLE])
    time.time_ns = _wrong_ns
