"""Drill of releases: an upgrade by one release and its roll-back, process by process, with runs under way."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
from functools import cache
from pathlib import Path

from tests.support.drills.siege import Drill, Siege
from tests.support.released import commits

ROOT = Path(__file__).parents[3]
_BETWEEN = 0.5  # seconds from process to process
_MIXED = 4.0  # seconds in which half of the processes are of either release


@cache
def _former() -> tuple[str, str]:
    """The latest release, and the path from which its processes import."""
    release, commit = list(commits().items())[-1]
    folder = ROOT / "build" / "releases" / release
    packed = subprocess.run(["git", "-C", str(ROOT), "archive", commit, "shared", "functions", "bench", "tests"],
                            check=True, capture_output=True).stdout  # fmt: skip
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    path = f"{folder / 'shared'}:{folder}"
    asked = [sys.executable, "-P", "-c", "import quarterjack, bench; print(quarterjack.__file__, bench.__path__[0])"]
    found = subprocess.run(asked, check=True, capture_output=True, text=True, env={"PYTHONPATH": path}).stdout
    assert all(one.startswith(str(folder)) for one in found.split()), found
    return release, path


def _begin(siege: Siege) -> None:
    """The installation runs the former release."""
    for name in siege.troupe.names:
        siege.environ[name] = siege.environ[name] | {"PYTHONPATH": _former()[1]}


def _deploy(siege: Siege, path: str) -> None:
    """Replace half of the processes, let both halves run side by side, and replace the others."""
    names = siege.troupe.names
    for number, name in enumerate([*names[::2], *names[1::2]]):
        if number == len(names[::2]):
            siege.go_on(_MIXED)
        siege.redeploy(name, PYTHONPATH=path)
        siege.go_on(_BETWEEN)


def _upgrade(siege: Siege) -> None:
    siege.type("cdk deploy")
    _deploy(siege, f"{ROOT / 'shared'}:{ROOT}")
    siege.go_on(_MIXED)


def _roll_back(siege: Siege) -> None:
    siege.say(f"back to {_former()[0]}")
    siege.type("cdk deploy")
    _deploy(siege, _former()[1])


UPGRADED = Drill(
    name="upgraded and rolled back",
    done="Processes of the latest release are replaced by those of the present code, one by one, and these by the former again.",
    runbook="bad-deployment",
    prepare=_begin,
    act=_upgrade,
    procedure=_roll_back,
    explains=frozenset({"asked to end"}),
)
