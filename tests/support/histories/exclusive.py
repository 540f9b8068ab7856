"""Histories whose runs overlap."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from quarterjack import Scheduler
from quarterjack.domain.names import RunRef, fire_ref
from quarterjack.domain.options import OverlapWord
from quarterjack.domain.run import EntryKind, RunRow, RunState
from quarterjack.testing import Detail

from tests.support.histories.history import EXPRESSIONS, History
from tests.support.histories.simulator import Faults, Process
from tests.support.scenes.lease_oracle import Seen

POLICIES: tuple[OverlapWord, ...] = ("skip", "buffer_one", "buffer_all", "cancel_other", "terminate_other")


ROOM = {"acme/a": 1, "acme/b": 2, "acme/once": 1}  # how many runs of each may hold a lease


class ExclusiveSeen(Seen):
    """What an outsider saw, and how many held leases of one schedule after each call."""

    def look(self, process: Process, detail: object) -> None:
        super().look(process, detail)
        self.stage.count(detail.verb)  # type: ignore[attr-defined]
        if isinstance(detail, Detail) and detail.place == "runs" and detail.verb in ("lease", "take_over"):
            going = Counter(run.ref.owner for run in self._runs() if run.state is RunState.RUNNING)
            self.overlaps += [
                f"{number} of {owner} at once" for owner, number in going.items() if number > ROOM.get(owner, 99)
            ]

    def _runs(self) -> Iterator[RunRow]:
        return (run for run in self.stage.memory.runs() if run.ref.owner in ROOM)

    overlaps: list[str]

    def violations(self, upto: int, skew: int) -> list[str]:
        skipped = {run.ref for run in self._runs() if run.state is RunState.SKIPPED}
        both = [f"skipped, but started: {ref}" for ref, _ in self.leases if ref in skipped]
        return [*super().violations(upto, skew), *self.overlaps, *both, *self._left(upto)]

    def _lost_fires(self, runs: dict[RunRef, RunRow], upto: int) -> list[str]:
        """A policy may pass a fire over, by recording it."""
        lost = super()._lost_fires(runs, upto)
        passed = {RunState.SKIPPED, RunState.CANCELLED}
        return [
            text
            for text in lost
            if not any(f"lost: {run.ref} " in text for run in runs.values() if run.state in passed)
        ]

    def _left(self, upto: int) -> list[str]:
        """Who looks after nobody goes."""
        return [f"left: {e.key}" for e in self.stage.memory.entries() if e.kind is EntryKind.TURN and e.due < upto]


class Exclusive(History):
    """Schedules of which one run, or two, may go at a time, under policies that change."""

    def __init__(self, seed: int, faults: Faults) -> None:
        super().__init__(seed, faults)
        self.seen = ExclusiveSeen(self.stage)
        self.seen.overlaps = []
        self.stage.observer = self.seen.look

    def _act(self, act: str, owner: Scheduler, name: str) -> None:
        expression, job = self.dice.choice(EXPRESSIONS), "once" if name == "once" else "work"
        policy = self.dice.choice(POLICIES) if ROOM[f"acme/{name}"] == 1 else "buffer_all"
        room = None if ROOM[f"acme/{name}"] == 1 else 2
        if act == "submit":
            self._cancel_some(owner, name)
        elif act == "create":
            self.stage.count(act)
            owner.create_schedule(name, job, expression, overlap=policy, max_running=room, buffer=5)
        elif act == "update":
            self.stage.count(act)
            owner.update_schedule(name, expression=expression, overlap=policy)
        else:
            super()._act(act, owner, name)

    def _cancel_some(self, owner: Scheduler, name: str) -> None:
        runs = [
            run for run in self.stage.memory.runs(f"acme/{name}") if not run.is_terminal and run.due <= self.stage.now
        ]
        for run in runs[:1]:
            owner.cancel_run(str(fire_ref(run.ref.owner, run.due)))
            self.stage.count("cancelled by owner")
