"""The extra local beside pytest: the fixtures of the embedded cloud."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

Path("conftest.py").write_text('pytest_plugins = ["quarterjack.testing.plugin"]\n')
Path("test_jobs.py").write_text("def test_it(local_settings):\n    assert local_settings.endpoint\n")
done = subprocess.run([sys.executable, "-m", "pytest", "-q"], capture_output=True, text=True, check=False)
assert done.returncode == 0, done.stdout + done.stderr
assert "1 passed" in done.stdout, done.stdout
