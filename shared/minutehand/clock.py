"""The system's clock, for whoever is given no other."""

from __future__ import annotations

import time


def system_clock() -> int:
    """UTC milliseconds."""
    return time.time_ns() // 1_000_000
