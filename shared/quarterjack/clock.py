"""The system's clock, the default where no other clock is passed."""

from __future__ import annotations

import time


def system_clock() -> int:
    """UTC milliseconds."""
    return time.time_ns() // 1_000_000
