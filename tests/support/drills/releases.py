"""Drill of releases: an upgrade by one release and its roll-back, process by process, with runs under way."""

from __future__ import annotations

import subprocess
import sys
from functools import cache

from tests.support.drills.siege import Drill, Siege
from tests.support.released import ROOT, checked_out, path_of

_BETWEEN = 0.5  # seconds from process to process
_MIXED = 4.0  # seconds in which half of the processes are of either release


@cache
def _former() -> str:
    """The path from which processes of the latest release import."""
    folder = checked_out()
    asked = [sys.executable, "-P", "-c", "import quarterjack, bench; print(quarterjack.__file__, bench.__path__[0])"]
    environ = {"PYTHONPATH": path_of(folder)}
    found = subprocess.run(asked, check=True, capture_output=True, text=True, env=environ).stdout
    assert all(one.startswith(str(folder)) for one in found.split()), found
    return environ["PYTHONPATH"]


def _begin(siege: Siege) -> None:
    """The installation runs the former release."""
    for name in siege.troupe.names:
        siege.environ[name] = siege.environ[name] | {"PYTHONPATH": _former()}


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
    _deploy(siege, path_of(ROOT))
    siege.go_on(_MIXED)


def _roll_back(siege: Siege) -> None:
    siege.type("cdk deploy")
    _deploy(siege, _former())


UPGRADED = Drill(
    name="upgraded and rolled back",
    done="Processes of the latest release are replaced by those of the present code, one by one, and these by the former again.",
    runbook="bad-deployment",
    prepare=_begin,
    act=_upgrade,
    procedure=_roll_back,
    explains=frozenset({"asked to end"}),
)
