"""Random histories of exclusive schedules: at no time do more of their runs hold a lease than may, and everybody comes to an end.

Owners change policies, pause and resume, cancel runs; processes crash, stall, are throttled and never learn what their calls did.
``history(seed, …)`` repeats a failing seed.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest
from minutehand import Scheduler
from minutehand.domain.agenda_entry import EntryKind
from minutehand.domain.names import RunRef, fire_ref
from minutehand.domain.run import RunRow, RunState
from minutehand.testing import Detail

from tests.proof.history import EXPRESSIONS, FAR, History
from tests.proof.stage import CALM, ROUGH, WILD, Faults, Process
from tests.support.parts import in_turn
from tests.unit.flow.oracle import Seen

POLICIES = ("skip", "buffer_one", "buffer_all", "cancel_other", "terminate_other")
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
        return [f"left: {e.key}" for e in self.stage.memory.entries() if e.kind is EntryKind.SLOT and e.due < upto]


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


def history(seed: int, faults: Faults) -> tuple[list[str], Exclusive]:
    made = Exclusive(seed, faults)
    return made.run(), made


def many(seeds: range, faults: Faults) -> Counter[str]:
    totals: Counter[str] = Counter()
    for seed in seeds:
        found, made = history(seed, faults)
        assert found == [], f"seed={seed} faults={faults}"
        totals.update(made.stage.counts)
        totals.update(str(run.state) for run in made.stage.memory.runs())
    return totals


@in_turn("faults", [CALM, ROUGH, WILD], ["calm", "rough", "wild"])
def test_no_history_lets_more_go_than_may(faults: Faults) -> None:
    totals = many(range(7), faults)
    print(dict(totals))  # noqa: T201 (what was tried)
    assert min(totals[what] for what in ("SUCCEEDED", "SKIPPED", "line_up", "pass_over")) > 1
    assert totals["terminate"] + totals["request_cancel"] > 3


@in_turn("faults", [CALM, WILD], ["calm", "wild"])
def test_clocks_have_no_say_in_it(faults: Faults) -> None:
    assert many(range(100, 102), replace(faults, skew=FAR))["SUCCEEDED"] > 20


@pytest.mark.proof
@pytest.mark.parametrize(("name", "faults"), [("calm", CALM), ("rough", ROUGH), ("wild", WILD)])
def test_no_history_of_thousands_lets_more_go_than_may(name: str, faults: Faults) -> None:
    first = int(os.environ.get("SEED", "1000"))
    totals = many(range(first, first + int(os.environ.get("HISTORIES", "500"))), faults)
    print(name, dict(totals))  # noqa: T201 (the figures of the proof)
