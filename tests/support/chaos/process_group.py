"""The processes of a siege, each behind a proxy of its own: started, killed, stopped, started again. By pid, and only ours."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from quarterjack.local.processes import LocalProcess, ProcessRole

Environ = Callable[[str], Mapping[str, str]]  # of a process by its name
CRASH_REST = 1.0  # seconds until a process that crashed is started again


@dataclass(kw_only=True)
class Life:
    """One process from start to end."""

    name: str  # of its role
    child: LocalProcess
    began: float  # UTC seconds
    doomed: bool = False  # somebody ended it
    frozen_until: float | None = None  # UTC seconds


class ProcessGroup:
    """Roles and who plays them. ``module`` is run for each (``quarterjack``, or ``bench.hurried`` for a short lease)."""

    def __init__(self, roles: Sequence[ProcessRole], module: str, environ: Environ, folder: Path) -> None:
        self._roles = {role.name: role for role in roles}
        self._module, self._environ, self._folder = module, environ, folder
        self._due: dict[str, float] = {}  # when an ended one is started again
        self.present: dict[str, Life] = {}
        self.past: list[Life] = []
        self.unforced: list[str] = []  # ends that nobody ordered
        self.broken: set[str] = set()  # processes that cannot run: they end by themselves, again and again
        self.crashes = Counter[str]()  # of these

    @property
    def names(self) -> list[str]:
        return list(self._roles)

    @property
    def logs(self) -> list[Path]:
        return [self._folder / f"{name}.log" for name in self._roles]

    def start(self) -> None:
        for name in self._roles:
            self._start(name)

    def add(self, role: ProcessRole) -> None:
        """Start a process that was not there."""
        self._roles[role.name] = role
        self._start(role.name)

    def name_of(self, pid: int) -> str:
        """Whose process it was."""
        lives = [*self.past, *self.present.values()]
        return next((life.name for life in lives if life.child.pid == pid), f"pid {pid}")

    def kill(self, name: str, *, rest: float) -> None:
        """``kill -9``; started again after ``rest`` seconds."""
        life = self.present[name]
        life.doomed = True
        self._due[name] = time.time() + rest
        life.child.kill()

    def start_again(self, name: str) -> None:
        """End the rest of a process that was ended."""
        self._due[name] = 0.0

    def order(self, name: str, *arguments: str) -> None:
        """The command line of a process from its next start on."""
        self._roles[name] = ProcessRole(name, arguments)

    def terminate(self, name: str, *, rest: float) -> None:
        self.present[name].doomed = True
        self._due[name] = time.time() + rest
        self.present[name].child.terminate()

    def freeze(self, name: str, seconds: float) -> None:
        """SIGSTOP, and SIGCONT after so many seconds."""
        life = self.present[name]
        os.kill(life.child.pid, signal.SIGSTOP)
        life.frozen_until = time.time() + seconds

    def idle(self, name: str) -> bool:
        """Whether it can be struck: it runs, and nothing was done to it."""
        life = self.present[name]
        return life.child.exit_code is None and not life.doomed and life.frozen_until is None

    def tend(self) -> None:
        """Let go on what was stopped long enough, start what has ended."""
        now = time.time()
        for name, life in list(self.present.items()):
            if life.child.exit_code is not None:
                self._replace(name, life, now)
            elif life.frozen_until is not None and now >= life.frozen_until:
                self._thaw(life)

    def thaw_all(self) -> None:
        for life in self.present.values():
            self._thaw(life)

    def stop(self) -> None:
        """End all of them at once."""
        for life in self.present.values():
            life.child.kill()

    def _thaw(self, life: Life) -> None:
        if life.frozen_until is not None and life.child.exit_code is None:
            os.kill(life.child.pid, signal.SIGCONT)
        life.frozen_until = None

    def _replace(self, name: str, life: Life, now: float) -> None:
        if not life.doomed:
            life.doomed = True
            if name in self.broken:
                self.crashes[name] += 1
                self._due[name] = now + CRASH_REST
            else:
                self.unforced.append(f"{name} ended by itself with {life.child.exit_code}")
        if now >= self._due.get(name, 0.0):
            life.child.stop()
            self.past.append(life)
            self._start(name)

    def _start(self, name: str) -> None:
        log = self._folder / f"{name}.log"
        environ = self._environ(name)
        child = LocalProcess(name, self._module, self._roles[name].arguments, environ=environ, log=log)
        self.present[name] = Life(name=name, child=child, began=time.time())
