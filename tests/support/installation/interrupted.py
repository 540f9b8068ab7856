"""The command line that says ``MOMENT`` at a chosen moment of its start, and waits there for a signal.

python -m tests.support.installation.interrupted MOMENT COMMAND…
"""

from __future__ import annotations

import os
import signal
import sys
from importlib import import_module
from importlib.abc import MetaPathFinder
from typing import Any

WORD = "MOMENT"
# Functions by moment; the moment is the first call of one.
CALLS = {
    "cloud": "quarterjack.local.cloud:LocalCloud._choose_port",
    "cloud answers": "quarterjack.local.cloud:_answers",
    "tables": "quarterjack.local.installation:create_queues",
    "queues of jobs": "quarterjack.local.installation:declared_queues",
    "processes": "quarterjack.local.processes:ProcessGroup.follow",
    "workers": "quarterjack.local.installation:LocalInstallation.wait_until_ready",
    "examples": "quarterjack.local.session.session:LocalSession.schedule",
    "jobs": "quarterjack.cli.installation.processes:load_jobs",
    "queue": "quarterjack.daemon.roles:check_declared",
}


def pause() -> None:
    os.write(1, f"{WORD}\n".encode())
    signal.pause()


class Import(MetaPathFinder):
    """The moment at which a module is imported."""

    def __init__(self, name: str) -> None:
        self._name = name

    def find_spec(self, name: str, *_: Any) -> None:
        if name == self._name:
            pause()


def arrange(moment: str) -> None:
    if moment not in CALLS:
        sys.meta_path.insert(0, Import(moment))
        return
    module, _, path = CALLS[moment].partition(":")
    *within, name = path.split(".")
    home: Any = import_module(module)
    for part in within:
        home = getattr(home, part)
    original = getattr(home, name)

    def pausing(*given: Any, **named: Any) -> Any:
        setattr(home, name, original)
        pause()
        return original(*given, **named)

    setattr(home, name, pausing)


if __name__ == "__main__":
    arrange(sys.argv[1])
    from quarterjack.cli import main

    sys.argv[1:] = sys.argv[2:]
    main()
