"""The doctor: looks an installation over from where you are, writes nothing, and says what is wrong and what mends it.

Each check is a function that yields findings. What AWS refuses to show is a finding too, with the name of the action.
"""

from __future__ import annotations

from minutehand.doctor.checks import run_checks
from minutehand.doctor.findings import Finding, Severity

__all__ = ["Finding", "Severity", "run_checks"]
