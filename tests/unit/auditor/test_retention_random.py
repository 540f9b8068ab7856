"""Histories with a short retention: schedules come, change, go and come again, audits die at any request, processes are late."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from quarterjack import ScheduleState
from quarterjack.domain.names import parse_run_id
from quarterjack.domain.payload import owner_of_object
from quarterjack.domain.run import RunState
from quarterjack.domain.schedule import Revision
from quarterjack.domain.times import DAY
from quarterjack.fires.claim import FireClaim, materialise
from quarterjack.fires.context import FireContext
from quarterjack.testing import Crash

from tests.support.scenes.world import Faults, World

RETENTION = 2 * DAY
NAMES = ("s", "t/u")
VERBS = (
    "has_runs",
    "records",
    "register",
    "close",
    "removable_revisions",
    "remove_revision",
    "stored",
    "remove",
    "naming_runs",
)


class History:
    """One installation, and what its owner knows."""

    def __init__(self, seed: int) -> None:
        self.random, self.world = Random(seed), World(retention=RETENTION)
        self.present: dict[str, int] = {}  # the payload's number by the name of a schedule that there is
        self.life: dict[str, set[int]] = {}  # the numbers of all its payloads since it was created
        self.last: dict[str, int] = {}  # the newest revision by name
        self.count = 0
        self.old: list[Revision] = []  # that a process that stands still has in memory
        self.retired = 0

    def _payload(self) -> Any:
        self.count += 1
        return {"n": self.count, "text": "x" * self.random.choice([1, 70_000])}

    def step(self) -> None:
        self.random.choices(
            (
                self.create,
                self.update,
                self.delete,
                self.trigger,
                self.replay,
                self.live,
                self.wait,
                self.audit,
                self.stall,
            ),
            (3, 2, 3, 1, 1, 3, 4, 6, 1),
        )[0]()
        for start in self.world.started:
            self._check(parse_run_id(start.run_id).schedule, start.payload)
        self.world.started.clear()

    def _check(self, name: str | None, payload: Any) -> None:
        if name is not None:
            assert payload["n"] in self.life[name], "nothing of a deleted schedule starts, nor under its successor"

    def create(self) -> None:
        name, payload = self.random.choice(NAMES), self._payload()
        if name not in self.present:
            self._note(name, self.world.scheduler.create_schedule(name, "note", "0 * * * *", payload=payload).revision)
            self.present[name] = payload["n"]
            self.life[name] = {payload["n"]}

    def update(self) -> None:
        for name in self.present:
            payload = self._payload()
            self._note(name, self.world.scheduler.update_schedule(name, payload=payload).revision)
            self.present[name] = payload["n"]
            self.life[name].add(payload["n"])

    def _note(self, name: str, revision: int | None) -> None:
        assert revision == self.last.get(name, 0) + 1, "no number comes again, and none is left out"
        self.last[name] = revision
        self.old += self.world.memory.revisions(f"acme/{name}")[-1:]

    def delete(self) -> None:
        if self.present:
            name = self.random.choice(sorted(self.present))
            self.world.scheduler.delete_schedule(name)
            del self.present[name]
            self.life[name] = set()

    def trigger(self) -> None:
        for name in self.present:
            self.world.scheduler.trigger(name)

    def replay(self) -> None:
        ended = [run for run in self.world.memory.runs() if run.state is RunState.SUCCEEDED]
        if ended:
            run = self.random.choice(ended)
            self.world.scheduler.replay_run(str(run.ref))

    def live(self) -> None:
        self.world.live(60 * self.random.choice([1, 61]))

    def wait(self) -> None:
        if not self.present:
            self.world.live(600)
            self.world.wait(self.random.choice([1, 20, 60, 100]) * 3_600)
            self.world.memory.expire()

    def audit(self) -> None:
        faults = Faults()
        if self.random.random() < 0.6:
            moment = self.random.choice(["before", "after"])
            faults.at(self.random.choice(VERBS), skip=self.random.randrange(3), **{moment: _die})
        try:
            report = self.world.audit(self.world.process(faults), segments=1, removes=True)
            assert report.failed == 0
            self.retired += report.retired
        except Crash:
            pass

    def stall(self) -> None:
        """A ticker that stood still since it read a revision claims a fire that this had."""
        if self.old:
            revision = self.random.choice(self.old)
            if revision.number != self.last[revision.name] or revision.name not in self.present:
                late = FireContext(services=self.world.services, clock=self.world.clock)
                fire = revision.active_from + self.random.randrange(1, 7) * 3_600_000
                materialise([FireClaim(revision, fire)], late)


def _die() -> None:
    raise Crash


@pytest.mark.parametrize("seed", range(12))
def test_histories(seed: int) -> None:
    history = History(seed)
    world = history.world
    for _ in range(120):
        history.step()
    for name, number in history.present.items():
        shown = world.scheduler.get_schedule(name)
        assert (shown.payload["n"], shown.revision) == (number, history.last[name])
    assert [run for run in world.memory.runs() if run.reason == "payload missing"] == []
    for name in sorted(history.present):
        world.scheduler.delete_schedule(name)
    for _ in range(4):  # nobody dies any more, and everything goes
        world.live(1_200)
        world.wait(3 * 86_400)
        world.memory.expire()
        world.audit(segments=1, removes=True)
    heads = world.memory.heads()
    assert {head.name: head.revision for head in heads} == history.last
    assert all(head.state is ScheduleState.DELETED and head.retired_at and not head.clearing for head in heads)
    assert [world.memory.revisions(head.owner) for head in heads] == [[] for _ in heads]
    assert [key for key in world.memory._payloads if isinstance(owner_of_object(key), str)] == []
