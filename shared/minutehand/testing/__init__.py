"""Test your jobs: a harness runs them in memory, under a clock that you set.

Begin with ``Harness``. ``Memory`` is the installation in memory that it uses: every table and queue with the semantics of AWS. A ``Hook``
runs around every request, to inject errors, delays and crashes. ``minutehand.testing.plugin`` has pytest fixtures for the embedded cloud.
"""

from minutehand.testing.clock import ManualClock
from minutehand.testing.harness import Harness
from minutehand.testing.memory.calls import Crash, Detail, Hook
from minutehand.testing.memory.installation import Memory

__all__ = ["Crash", "Detail", "Harness", "Hook", "ManualClock", "Memory"]
