"""For tests of yours: a clock that you set, an installation in memory, and a harness that runs your jobs on both.

``minutehand.testing.plugin`` offers the embedded cloud as pytest fixtures.
"""

from minutehand.testing.calls import Crash, Detail, Hook
from minutehand.testing.clock import ManualClock
from minutehand.testing.memory import Memory

__all__ = ["Crash", "Detail", "Hook", "ManualClock", "Memory"]
