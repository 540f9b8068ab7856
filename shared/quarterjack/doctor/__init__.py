"""The doctor checks an installation from this machine. It writes nothing, and names each problem with its remedy.

Each check is a function that yields findings. A read that AWS refuses is a finding, too, with the name of the action.
"""

from __future__ import annotations

from quarterjack.doctor.checks import run_checks
from quarterjack.doctor.context import Finding, Severity

__all__ = ["Finding", "Severity", "run_checks"]
