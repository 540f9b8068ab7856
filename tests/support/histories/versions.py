"""Histories of application versions: workers of two versions side by side, while operators roll out, roll back and reassign runs.

As many workers are of one version as of the other, so a start costs about one receive more.

The first attempts are those of a plain history. Its jobs are pinned, so a lease has to be of the version that the row has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from quarterjack import Scheduler
from quarterjack.domain.names import parse_run_id
from quarterjack.domain.run import WAITING
from quarterjack.domain.times import HOUR
from quarterjack.errors import Conflict, Unavailable
from quarterjack.owner.app_versions import register
from quarterjack.ports.services import Services
from quarterjack.testing import Detail
from quarterjack.worker.admission.refused import OTHER
from quarterjack.worker.context import WorkerContext
from quarterjack.worker.stages import Outcome
from quarterjack.worker.versions import OwnVersion, VersionsSeen

from tests.support.histories.history import History
from tests.support.histories.simulator import Faults, Process

NAMES = ("v1", "v2")
_OPERATED = 0.1  # chance that an act is an operator's


class AllServed(VersionsSeen):
    """Both versions have workers all the time."""

    def is_served(self, version: str, services: Services, now: int) -> bool:
        return version in NAMES


class Versions(History):
    """One seed, one history."""

    quiet = HOUR

    def __init__(self, seed: int, faults: Faults) -> None:
        super().__init__(seed, faults)
        self.wrong: list[str] = []
        self.versions: dict[str, str] = {}  # by name of a worker process
        self.stage.observer = self._look

    def _hand(self, process: Process) -> WorkerContext:
        worker = super()._hand(process)
        name = self.versions.setdefault(process.name, self.dice.choice(NAMES))
        self._register(process, name)
        own = OwnVersion(name=lambda: name, pinned=True, some=True)
        return replace(worker, own_version=own, versions_seen=AllServed())

    def _worked(self, outcomes: Sequence[Outcome]) -> None:
        self.stage.count("given back", sum(outcome.why == OTHER for outcome in outcomes))

    def _register(self, process: Process, name: str) -> None:
        """As a worker does when it starts, in a thread that no run waits for: a failure stops nothing."""
        try:
            register(name, self.dice.choice((0.0, 0.3, 1.0)), process.services, process.clock())
        except (Conflict, Unavailable):
            self.stage.count("not registered")

    def _act(self, act: str, owner: Scheduler, name: str) -> None:
        if self.dice.random() >= _OPERATED:
            super()._act(act, owner, name)
        elif self.dice.random() < 0.5:
            owner.set_latest_application_version(self.dice.choice(NAMES), share=self.dice.choice((0.0, 0.1, 0.5, 1.0)))
            self.stage.count("rolled out")
        else:
            waiting = [run for run in self.stage.memory.runs() if run.state in WAITING]
            if waiting:
                owner.reassign_run(str(self.dice.choice(waiting).ref), self.dice.choice(NAMES))
                self.stage.count("reassigned")

    def _look(self, process: Process, detail: Detail) -> None:
        known = len(self.seen.leases)
        self.seen.look(process, detail)
        for lease in [*self.seen.leases.values()][known:]:
            row = self.stage.memory.row(parse_run_id(str(lease.ref))) or {}
            assigned, own = row.get("app_version"), self.versions.get(process.name)
            self.stage.count(f"leases of {assigned}")
            if assigned not in (None, own):
                self.wrong.append(f"another version: {lease.ref} of {assigned} leased by {process.name} of {own}")

    def _violations(self) -> list[str]:
        return [*super()._violations(), *self.wrong]
