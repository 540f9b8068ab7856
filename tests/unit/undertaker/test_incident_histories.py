"""Random histories of schedules that fail: whoever crashes, stalls or comes late, what failed is listed once and its owner is told.

Jobs fail for good in bouts, owners pause, resume, change and delete, undertakers come when the dice say so. In the end everything
works again, so every incident is over. ``history(seed, …)`` repeats a failing seed.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from quarterjack import Context, Retry, Scheduler
from quarterjack.domain.names import RunRef
from quarterjack.domain.notice import SCHEDULE_EVENTS
from quarterjack.domain.run import FAILED, RunRow, RunState
from quarterjack.domain.schedule import ScheduleState
from quarterjack.domain.times import MINUTE
from quarterjack.errors import Permanent
from quarterjack.state.incidents import began, failing_since
from quarterjack.undertaker.bury import bury_one

from tests.support.histories.history import EXPRESSIONS, FAR, History
from tests.support.histories.simulator import CALM, ROUGH, WILD, Faults, Process
from tests.support.parts import in_turn
from tests.support.scenes.incident_verifier import overdue_wrongly, published_wrongly, told_wrongly
from tests.support.scenes.incidents import CALM as RECOVERED
from tests.support.scenes.incidents import TOPIC
from tests.support.scenes.lease_oracle import Seen

NAMES = ("a", "b", "once")
BOUT = 4 * MINUTE  # in the first half of each, what runs fails for good


class FailingSeen(Seen):
    """What an outsider saw; a deadline may end what has not started."""

    def _lost_fires(self, runs: dict[RunRef, RunRow], upto: int) -> list[str]:
        expired = [str(run.ref) for run in runs.values() if run.state is RunState.EXPIRED]
        return [text for text in super()._lost_fires(runs, upto) if not any(f"lost: {ref} " in text for ref in expired)]


class Failing(History):
    """Schedules whose jobs fail in bouts, until it rests."""

    def __init__(self, seed: int, faults: Faults) -> None:
        super().__init__(seed, faults)
        self.seen = FailingSeen(self.stage)
        self.stage.observer = self.seen.look
        self.stage.memory.schedule_events = frozenset(SCHEDULE_EVENTS.values())
        self.jobs.job("brittle", retry=Retry(max_attempts=2, base=5.0))(self._brittle)
        self.jobs.job("brittle.once", delivery="at_most_once")(self._brittle)

    def _brittle(self, ctx: Context, payload: object) -> None:
        for _ in range(self.dice.choice([0, 0, 1])):
            self.stage.yield_until(self.stage.now + self.dice.choice([0, 500, 5_000, 40_000, 150_000]))
        if not self.resting and self.stage.now % BOUT < BOUT // 2 and self.dice.random() < 0.8:
            raise Permanent("a bout")

    def _act(self, act: str, owner: Scheduler, name: str) -> None:
        expression, job = self.dice.choice(EXPRESSIONS), "brittle.once" if name == "once" else "brittle"
        most = self.dice.choice([None, 2, 4])
        within = self.dice.choice([None, None, 300])
        ends: dict[str, Any] = {
            "must_end_by": self.dice.choice([None, None, 60, 240, "12:20"]),
            "alert_if_running_longer_than": self.dice.choice([None, None, 60]),
        }
        if act == "create":
            self.stage.count(act)
            owner.create_schedule(
                name,
                job,
                expression,
                on_failure=TOPIC,
                on_recovery=RECOVERED,
                pause_on_failure=most,
                expect_success_within=within,
                deadline=self.dice.choice([None, 90]),
                **ends,
            )
        elif act == "update":
            self.stage.count(act)
            owner.update_schedule(
                name, expression=expression, pause_on_failure=most, expect_success_within=within, **ends
            )
        else:
            super()._act(act, owner, name)

    def _bury(self, process: Process) -> None:
        """An undertaker; what it has paused must not start any more."""
        for letter in process.services.dead.receive(most=10, wait=0):
            burial = bury_one(letter, process.services, process.clock)
            if burial.paused and burial.run is not None:
                owner = burial.run.ref.owner
                closed = [r for r in self.stage.memory.revisions(owner) if r.closed_by is not None]
                self.stage.count("paused by itself")
                self.seen.stops.append((owner, closed[-1].number, self.stage.now))
            process.services.dead.delete(letter.receipt)

    def violations(self) -> list[str]:
        memory, now = self.stage.memory, self.stage.now
        owners = [f"acme/{name}" for name in NAMES]
        fast = MINUTE + self.faults.skew  # a tick comes every minute, and the writer's clock may be ahead
        wrong = published_wrongly(memory, now, fast=fast)
        late = overdue_wrongly(memory, now, skew=self.faults.skew, patience=5 * MINUTE + 2 * self.faults.skew)
        return [*told_wrongly(memory, owners, now, fast=fast), *wrong, *self._still_wrong(), *late]

    def _still_wrong(self) -> list[str]:
        """A success ends an incident: at once, or when somebody has looked who comes after twice its age at the latest."""
        found = []
        for head in self.stage.memory.heads():
            if head.state is ScheduleState.DELETED or head.incident is None:
                continue
            since = failing_since(head)
            successes = [
                run.ended_at or 0 for run in self.stage.memory.runs(head.owner) if run.state is RunState.SUCCEEDED
            ]
            first = min((at for at in successes if at > since), default=self.stage.now)
            late = self.stage.now - first
            if late > 5 * MINUTE + (first - began(head.incident)):
                found.append(
                    f"{head.owner} has recovered for {late} ms, and its head says {head.failing}, {head.incident}"
                )
        return found

    def _arrivals(self, quiet: bool) -> None:
        """As ever, but with this undertaker."""
        letters = self.stage.memory.dead.next_visible()
        if letters is not None and letters <= self.stage.now and self.dice.random() < 0.1:
            self.stage.process("undertaker", self._bury)
        super()._arrivals(quiet)


def history(seed: int, faults: Faults) -> tuple[list[str], Failing]:
    made = Failing(seed, faults)
    found = made.run()
    return [*found, *made.violations()], made


def many(seeds: range, faults: Faults) -> Counter[str]:
    totals: Counter[str] = Counter()
    for seed in seeds:
        found, made = history(seed, faults)
        assert found == [], f"seed={seed} faults={faults}"
        totals.update(made.stage.counts)
        totals.update(str(run.state) for run in made.stage.memory.runs())
        totals.update(str(published.notice.kind) for published in made.stage.memory.published)
        totals.update(failed=sum(run.state in FAILED for run in made.stage.memory.runs()))
        totals.update(told=len({p.notice.token for p in made.stage.memory.published}))
    return totals


@in_turn("faults", [CALM, ROUGH, WILD], ["calm", "rough", "wild"])
def test_no_history_lists_or_tells_wrongly(faults: Faults) -> None:
    totals = many(range(6), faults)
    print(dict(totals))  # noqa: T201 (what was tried)
    assert totals["failed"] > 30
    assert min(totals[kind] for kind in ("failure", "recovery", "paused", "overdue", "overdue_ended")) > 0


@in_turn("faults", [CALM, WILD], ["calm", "wild"])
def test_clocks_have_no_say_in_it(faults: Faults) -> None:
    assert many(range(100, 102), replace(faults, skew=FAR))["failure"] > 0


@pytest.mark.proof
@pytest.mark.parametrize(("name", "faults"), [("calm", CALM), ("rough", ROUGH), ("wild", WILD)])
def test_no_history_of_thousands_lists_or_tells_wrongly(name: str, faults: Faults) -> None:
    first = int(os.environ.get("SEED", "1000"))
    totals = many(range(first, first + int(os.environ.get("HISTORIES", "300"))), faults)
    print(name, dict(totals))  # noqa: T201 (the figures of the proof)
