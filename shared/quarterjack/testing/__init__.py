"""Test your jobs: a harness runs them in memory, under a clock that you set.

Begin with ``Harness``. ``Memory`` is the installation in memory that it uses: every table and queue with the semantics of AWS. A ``Hook``
runs around every request, to inject errors, delays and crashes. ``quarterjack.testing.plugin`` has pytest fixtures for the embedded cloud.
"""

from quarterjack.testing.clock import ManualClock
from quarterjack.testing.harness import Harness
from quarterjack.testing.memory.calls import Crash, Detail, Hook
from quarterjack.testing.memory.installation import Memory

__all__ = ["Crash", "Detail", "Harness", "Hook", "ManualClock", "Memory"]
