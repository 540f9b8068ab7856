"""The extra cli: the installed command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

COMMAND = str(Path(sys.executable).with_name("quarterjack"))


def said(*words: str) -> str:
    return subprocess.run([COMMAND, *words], capture_output=True, text=True, check=True).stdout


assert "schedules" in said("--help")
assert "03:00" in said("preview", "30 2 * * *", "--timezone", "Europe/Berlin", "--after", "2026-03-28T12:00:00Z")
