"""A client of the HTTP API that a generator makes from its document: ``make client-generator`` installs the generator."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

GENERATOR = Path(__file__).parents[2] / "build" / "client-generator"
PACKAGE = "generated_client"


def generate(document: dict[str, Any], folder: Path) -> str:
    """Write the client's package into a folder; what the generator says about the document. Skips the test where there is none."""
    if not GENERATOR.is_dir():
        pytest.skip("there is no generator of clients; run: make client-generator")
    source = folder / "openapi.json"
    source.write_text(json.dumps(document))
    words = ("generate", "--path", str(source), "--output-path", str(folder / PACKAGE), "--meta", "none")
    path = os.pathsep.join([str(GENERATOR), str(Path(sys.executable).parent)])
    done = subprocess.run(
        [sys.executable, "-m", "openapi_python_client", *words],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": path, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@contextmanager
def importable(folder: Path) -> Iterator[None]:
    """Let ``import generated_client`` find the package of a folder, for the time of the block."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
            del sys.modules[name]
