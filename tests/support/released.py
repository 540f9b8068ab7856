"""The releases that are out, and their commits. What is kept of them under tests/data does not change any more."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
LINE = "0.3"  # of the present code: the line whose forms and surface are compared with it
_KNOWN = Path(__file__).parents[1] / "data" / "releases.json"


def commits() -> dict[str, str]:
    """By line, in their order, the commit of its first release."""
    return dict(json.loads(_KNOWN.read_text()))


def check_open() -> None:
    """Ends the program if the line of the present code is out: what it has then is kept as that of the next line."""
    if LINE in commits():
        sys.exit(f"{LINE} is out, and what it has is not written again: set LINE in {__file__} to the next line")


@cache
def checked_out() -> Path:
    """A folder with all files of the latest release."""
    line, commit = list(commits().items())[-1]
    folder = ROOT / "build" / "releases" / line
    packed = subprocess.run(["git", "-C", str(ROOT), "archive", commit], check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def path_of(folder: Path) -> str:
    """The ``PYTHONPATH`` of a checkout."""
    return f"{folder / 'shared'}:{folder}"
