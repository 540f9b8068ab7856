"""For tests of yours: a harness that runs your jobs in memory, under a clock that you set.

``Harness`` is the way in. ``Memory`` is the installation beneath it: every table and queue with the semantics of AWS, and a ``Hook``
around every call for what shall fail, stall or crash there. ``minutehand.testing.plugin`` offers the embedded cloud as pytest fixtures.
"""

from minutehand.testing.clock import ManualClock
from minutehand.testing.harness import Harness
from minutehand.testing.memory.calls import Crash, Detail, Hook
from minutehand.testing.memory.installation import Memory

__all__ = ["Crash", "Detail", "Harness", "Hook", "ManualClock", "Memory"]
