"""The extra local: the embedded cloud with the example jobs, for 15 seconds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

COMMAND = [str(Path(sys.executable).with_name("quarterjack")), "local", "--for", "15"]
done = subprocess.run(COMMAND, capture_output=True, text=True, check=False)
assert done.returncode == 0, done.stdout + done.stderr
assert "0 missing, 0 double" in done.stdout, done.stdout
