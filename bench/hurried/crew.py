"""Hurried processes over a local cloud, started again when they crash."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from quarterjack import Scheduler
from quarterjack.local.cloud import LocalCloud
from quarterjack.local.processes import LocalProcess, inherited, variables
from quarterjack.settings import Settings
from quarterjack.testing.cloud import fresh_settings

ROOT = Path(__file__).parents[2]
WORK = "bench.hurried.work"
Line = dict[str, Any]


@dataclass
class Hurried:
    """An installation of its own on a cloud; ``lease`` in seconds."""

    cloud: LocalCloud
    folder: Path
    lease: float
    children: dict[str, LocalProcess] = field(default_factory=dict)
    exits: Counter[int] = field(default_factory=Counter)  # of processes that ended by themselves

    def __post_init__(self) -> None:
        self.settings: Settings = fresh_settings(self.cloud)
        self.scheduler = Scheduler(settings=self.settings)
        self.keyed.mkdir(parents=True)

    @property
    def to(self) -> Path:
        """The witness file."""
        return self.folder / "witness.jsonl"

    @property
    def keyed(self) -> Path:
        """Where a downstream that knows idempotency keys keeps one file a key."""
        return self.folder / "keyed"

    def start(self, name: str, *arguments: str, **changes: object) -> LocalProcess:
        """``changes`` are fields of its settings. Without arguments: the same process again."""
        if arguments:
            self._began[name] = arguments, replace(self.settings, **changes)  # type: ignore[arg-type]  # a wrong field raises TypeError
        given, settings = self._began[name]
        environ = {**inherited(), **self.cloud.environment, **variables(settings)}
        environ |= {"PYTHONPATH": str(ROOT), "HURRY_LEASE": str(self.lease), "PYTHONUNBUFFERED": "1"}
        self.children[name] = LocalProcess(
            name, "bench.hurried", given, environ=environ, log=self.folder / f"{name}.log"
        )
        return self.children[name]

    _began: dict[str, tuple[Sequence[str], Settings]] = field(default_factory=dict)

    def start_worker(self, name: str = "worker-1", *, concurrency: int = 4, **changes: object) -> LocalProcess:
        return self.start(name, "worker", "--jobs", WORK, "--concurrency", str(concurrency), **changes)

    def replace_ended(self) -> None:
        """Start what has crashed again."""
        for name, child in list(self.children.items()):
            if child.exit_code is not None:
                self.exits[child.exit_code] += 1
                child.stop()
                self.start(name)

    def lines(self, *what: str) -> list[Line]:
        """What the jobs said."""
        if not self.to.exists():
            return []
        lines = [json.loads(text) for text in self.to.read_bytes().splitlines()]
        return [line for line in lines if not what or line["what"] in what]

    def until(self, condition: Callable[[], bool], seconds: float, *, look: float = 0.1) -> bool:
        """Whether it came true within so many seconds; crashed processes are replaced meanwhile."""
        deadline = time.monotonic() + seconds
        while not condition():
            self.replace_ended()
            if time.monotonic() > deadline:
                return False
            threading.Event().wait(look)
        return True

    def logs(self) -> str:
        """The ends of all logs, for a failure's message."""
        return "\n".join(f"--- {log.name}\n{log.read_text()[-2000:]}" for log in sorted(self.folder.glob("*.log")))

    def stop(self) -> None:
        for child in self.children.values():
            child.kill()
        self.children.clear()


@contextmanager
def hurried(cloud: LocalCloud, folder: Path, *, lease: float) -> Iterator[Hurried]:
    """An installation for the time of the block."""
    folder.mkdir(parents=True, exist_ok=True)
    installation = Hurried(cloud, folder, lease)
    try:
        yield installation
    finally:
        installation.stop()
