"""The processes of a peer while it is measured."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.meter import cpu_of_tree
from bench.observed import witness
from bench.peers.install import Missing
from bench.peers.plan import VARIABLE, Plan

_ROOT = Path(__file__).parents[2]
_GRACE = 10.0  # seconds to end
_TAIL = 400  # characters of a log that an error repeats


@dataclass
class Peers:
    """Those of one peer under one plan; ``folder`` has their witness and their logs."""

    python: Path
    module: str
    plan: Plan
    folder: Path
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, role: str) -> None:
        """Start one and wait until it is set up, which must be before anything is due."""
        environ = {
            **os.environ,
            "PYTHONPATH": str(_ROOT),
            VARIABLE: self.plan.encode(),
            witness.FOLDER: str(self.folder),
        }
        with self._log(role).open("wb") as log:
            self.running[role] = subprocess.Popen(
                [str(self.python), "-m", self.module, role],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environ,
                cwd=self.folder,
                start_new_session=True,
            )
        while not (self.folder / f"{role}.ready").exists():
            if self.running[role].poll() not in (None, 0):
                raise Missing(f"{role} ended: {self.tail(role)}")
            if time.time() > self.plan.first - 1:
                raise Missing(f"{role} was not ready in time: {self.tail(role)}")
            time.sleep(0.05)

    def cpu(self) -> float:
        """CPU seconds of all of them that still run, children included."""
        return sum(cpu_of_tree(process.pid) for process in self.running.values() if process.poll() is None)

    @property
    def pids(self) -> list[int]:
        """Of those that still run, their children left out: they are as nice."""
        return [process.pid for process in self.running.values() if process.poll() is None]

    def tail(self, role: str) -> str:
        return self._log(role).read_text(errors="replace")[-_TAIL:].strip()

    def _log(self, role: str) -> Path:
        return self.folder / f"{role}.log"


@contextmanager
def peers(python: Path, module: str, plan: Plan, roles: Sequence[str]) -> Iterator[Peers]:
    """Its processes, set up one after the other; ended with the block."""
    with tempfile.TemporaryDirectory(prefix="quarterjack-peer-") as name:
        all_of = Peers(python, module, plan, Path(name))
        try:
            for role in roles:
                all_of.start(role)
            yield all_of
        finally:
            for process in all_of.running.values():
                process.terminate()
            for process in all_of.running.values():
                try:
                    process.wait(_GRACE)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
