"""The doctor: looks an installation over from where you are, writes nothing, and says what is wrong and what mends it.

Each check is a function that yields findings. What AWS refuses to show is a finding too, with the name of the action.
"""

from __future__ import annotations

from minutehand.doctor.examine import examine
from minutehand.doctor.findings import Finding, Verdict

__all__ = ["Finding", "Verdict", "examine"]
