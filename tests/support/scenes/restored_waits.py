"""An installation to restore that has runs below runs: pipelines, maps, children, batches, waits, caps with wait queues, turns.

Its jobs let time pass while they run: tickers tick, and further workers take what is there. So runs wait for permits and turns.
"""

from __future__ import annotations

import random
from collections import Counter
from datetime import timedelta
from typing import Any

from quarterjack import Context, Registry, Retry, Submission
from quarterjack.domain.run import RunRow, RunState
from quarterjack.domain.schedule import ScheduleState
from quarterjack.fires.flow.wait_queue import permits_of
from quarterjack.state.waits.park import signal_of
from quarterjack.stores.tables import AGENDA
from quarterjack.testing.process import Hand, make_worker
from quarterjack.ticker.tick import tick

from tests.support.scenes.restored import Restored

TASKS = {
    "a": {"job": "task"},
    "b": {"job": "task", "after": ["a"], "payload": {"of": "${a.result.n}"}},
    "c": {"job": "task", "after": ["a"], "optional": True},
    "d": {"job": "task", "after": ["b", "c"]},
    "e": {"job": "task", "after": ["d"], "when": "a.result.n > 0"},
}
_DEEPEST = 3  # jobs within jobs


class RestoredWaits(Restored):
    """Jobs of all kinds of waits, and limits that they meet."""

    def __init__(self, seed: int = 0) -> None:
        self._chance, self._depth = random.Random(seed), 0
        self.ends = dict[str, Any]()  # payloads of jobs after batches
        self.noise = True  # whether jobs fail, and others work beside them
        self.answered = 0  # writes there were when the last signal was sent
        super().__init__()
        limits = {"concurrent_runs": 3, "concurrent_runs:long": 1, "concurrent_runs:task": 2}
        self.harness.tenants.set("default", limits=limits)

    def _add_jobs(self, jobs: Registry) -> None:
        super()._add_jobs(jobs)
        retry = Retry(max_attempts=2, base=900.0, backoff="fixed", jitter=0.0)
        for name in ("task", "item", "long"):
            jobs.job(name, retry=retry)(self._task)
        once: dict[str, Any] = {"spread": self._spread, "gather": self._gather, "ask": self._ask, "last": self._last}
        for name, job in once.items():
            jobs.job(name, retry=Retry(max_attempts=1))(job)

    # Jobs.

    def _begin(self, ctx: Context) -> None:
        self.starts[ctx.run_id] += 1

    def _task(self, ctx: Context, payload: Any) -> dict[str, int]:
        self._begin(ctx)
        self._others_go_on()
        if self.noise and ctx.attempt == 1 and self._chance.random() < 0.1:
            raise ValueError("not yet")
        return {"n": 1}

    def _spread(self, ctx: Context, payload: Any) -> int:
        self._begin(ctx)
        return len(list(ctx.map("item", range(payload or 7), at_a_time=2, return_exceptions=True)))

    def _gather(self, ctx: Context, payload: object) -> Any:
        self._begin(ctx)
        return str(ctx.gather([ctx.submit("task", n, step=f"child{n}") for n in range(3)], return_exceptions=True))

    def _ask(self, ctx: Context, payload: object) -> Any:
        self._begin(ctx)
        return ctx.wait_for("answer", timeout=timedelta(days=3))

    def _last(self, ctx: Context, payload: Any) -> None:
        self._begin(ctx)
        self.ends[ctx.run_id] = payload

    def _others_go_on(self) -> None:
        """A minute passes, in which others work."""
        if self._depth >= _DEEPEST or not self.noise:
            return
        self._depth += 1
        try:
            for number in range(self._chance.choice([0, 3, 4])):
                self.clock.advance(timedelta(seconds=20))
                if number == 0:
                    tick(self.memory.connect(), clock=self.clock, holder=f"tick{self._depth}")
                self._another_works(number)
        finally:
            self._depth -= 1

    def _another_works(self, number: int) -> None:
        def wait(seconds: float) -> None:
            self.clock.advance(timedelta(seconds=seconds))

        worker = make_worker(self.memory.connect(), self.jobs, self.clock, wait=wait, name=f"w{self._depth}-{number}")
        beats = self.harness._beating.heartbeats
        beats.append(worker.heartbeat)
        try:
            Hand(worker=worker).work(most=1)
        finally:
            beats.remove(worker.heartbeat)

    # What owners do.

    def prepare(self) -> None:
        scheduler = self.scheduler
        scheduler.create_schedule("line", "pipeline:line", "*/25 * * * *", tasks=TASKS)
        scheduler.create_schedule("halts", "pipeline:halts", "manual", tasks=TASKS)
        scheduler.create_schedule("alone", "long", "*/4 * * * *", overlap="buffer_all", buffer=3)
        scheduler.create_schedule("skips", "long", "*/6 * * * *", overlap="skip")
        scheduler.create_schedule("spreads", "spread", "*/40 * * * *", payload=9)
        scheduler.create_schedule("often", "note", "*/15 * * * *")

    def act(self) -> None:
        """One thing that an owner does."""
        scheduler, chance = self.scheduler, self._chance
        acts = (
            lambda: scheduler.submit("gather", {}),
            lambda: scheduler.submit("spread", 5),
            lambda: scheduler.submit("ask", {}),
            lambda: scheduler.submit("long", {}),
            lambda: scheduler.submit_all([Submission("item", n) for n in range(4)], on_end="last"),
            lambda: scheduler.trigger("halts"),
            lambda: scheduler.update_schedule("line", expression=f"*/{chance.randrange(20, 30)} * * * *"),
            lambda: scheduler.update_schedule("alone", expression=f"*/{chance.randrange(3, 6)} * * * *"),
            self.answer,
        )
        chance.choice(acts)()

    def answer(self) -> bool:
        """Answer a run that waits for it; whether there was one."""
        waiting = [run for run in self.memory.runs() if run.state is RunState.PARKED and signal_of(run) is not None]
        for run in waiting[:1]:
            self.scheduler.signal(str(run.ref), "answer", {"yes": True})
        return bool(waiting)

    def batch(self) -> str:
        """A batch; the id of the run after it."""
        return self.scheduler.submit_all([Submission("item", n) for n in range(4)], on_end="last").on_end or ""

    def follower(self) -> str:
        """A run that follows another one of its unique key."""
        self.scheduler.submit("last", 1, unique="k", delay=60)
        return self.scheduler.submit("last", 2, unique="k", on_duplicate="after").id

    def asked_and_answered(self) -> str:
        run_id = self.scheduler.submit("ask", {}).id
        self.harness.advance(minutes=1)
        before = len(self.journal.writes)
        self.answer()
        keys = [str(key) for _, _, _, key, _ in self.journal.writes[before:]]
        self.answered = before + next(n for n, key in enumerate(keys, 1) if "#signal#" in key)
        return run_id

    def story(self, run_id: str) -> list[object]:
        """What a run and the tasks of a pipeline tell of their ends."""
        run = self.scheduler.get_run(run_id)
        return [run.result, *(row.reason for row in self.memory.runs())]

    def waits_from(self, what: str) -> int:
        """So many writes there were when a run had begun to wait for a "permit", or for its "turn"."""
        for number, (_, table, partition, _, row) in enumerate(self.journal.writes, 1):
            queued = table is AGENDA and str(partition).startswith("queue#") and row is not None
            if queued if what == "permit" else str((row or {}).get("reason")).startswith("waits for the run"):
                return number
        raise AssertionError(what)

    def live(self, steps: int = 12) -> None:
        """Some hours."""
        self.prepare()
        for _ in range(steps):
            self.harness.advance(seconds=self._chance.randrange(60, 900))
            self.act()
        self.harness.advance(seconds=self._chance.randrange(60, 600))

    # What must hold.

    def began(self, before: Counter[str]) -> Counter[str]:
        """The starts since."""
        return +(self.starts - before)

    def rows(self) -> dict[str, RunRow]:
        return {str(run.ref): run for run in self.memory.runs()}

    def decide(self) -> None:
        """The owner decides on everything, in any order, until nothing is left to decide."""
        for _ in range(50):
            held = self.held()
            if not held:
                return
            self._chance.shuffle(held)
            for run in held[: self._chance.randrange(1, len(held) + 1)]:
                if self._chance.random() < 0.6:
                    self.scheduler.retry_run(str(run.ref))
                else:
                    self.scheduler.cancel_run(str(run.ref))
            self.harness.advance(minutes=self._chance.choice([0, 1, 20]))
        raise AssertionError(self.held())

    def check_nothing_is_stuck(self) -> None:
        """All that was decided has ended; no queue, permit, turn or timer is left behind."""
        for head in self.memory.heads():
            if head.state is ScheduleState.ACTIVE:
                self.scheduler.pause_schedule(head.name)
        for _ in range(10):
            self.harness.advance(hours=2)
            for _ in range(20):
                if not self.answer():
                    break
        for run in self.memory.runs():
            assert run.is_terminal, run
        permits = permits_of("default", self.memory.connect())
        assert not [one for one in permits.values() if one.current(self.now).sent or one.has_queue], permits
        left = [
            e for e in self.memory.entries() if isinstance(e.shard, str) or e.kind in ("run", "turn", "queue", "watch")
        ]
        assert not left, left
