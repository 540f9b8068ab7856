"""Histories of one-offs that are moved: to and fro, near and far, while tickers, workers and submitters of all speeds handle them."""

from __future__ import annotations

from contextlib import suppress

from quarterjack import Scheduler
from quarterjack.domain.policies import Priority
from quarterjack.domain.run import RunState
from quarterjack.domain.times import MINUTE
from quarterjack.errors import QuarterjackError

from tests.support.histories.checker import Stop
from tests.support.histories.recorded import Recorded
from tests.support.histories.rich import JOBS, Rich
from tests.support.histories.simulator import Process

REQUEUED = 0.3  # share of the moves that are to another priority
DELAYS = (0, 1, 5, 30, 100, 200, 300, 1_000)  # seconds


class Moved(Rich):
    """One seed, one history of one-offs alone."""

    busy = 15 * MINUTE
    between = (0, 1, 5, 20)
    acts: tuple[str, ...] = ("submit", "move", "move", "move", "cancel")

    def _owner(self, process: Process) -> None:
        owner = Scheduler("acme", jobs=self.jobs, services=process.services, clock=process.clock)
        act, run = self.dice.choice(self.acts), some_waiting(self)
        if not self.stage.strikes(f"act {act}", 1.0):
            return
        try:
            if act == "submit" or run is None:
                self._submit(owner, self.dice.choice(tuple(JOBS)))
            elif act == "cancel":
                if owner.cancel_run(run).cancel_requested:
                    self.observed.stops.append(Stop(what=run, at=self.stage.now))
            else:
                move(self, owner, run)
        except QuarterjackError as problem:
            self.stage.tell(process, f"is refused: {problem}")
            self.stage.count("refused acts")


class RecordedMoves(Recorded):
    """Recorded histories in which every second act moves a one-off."""

    def _owner(self, process: Process) -> None:
        if self.dice.random() < 0.4:
            super()._owner(process)
            return
        owner, run = (
            Scheduler("acme", jobs=self.jobs, services=process.services, clock=process.clock),
            some_waiting(self),
        )
        with suppress(QuarterjackError):
            if run is None:
                self._submit(owner, "a")
            else:
                move(self, owner, run)


def some_waiting(history: Rich) -> str | None:
    runs = [run for run in history.stage.memory.runs() if run.state is RunState.QUEUED and run.ref.is_one_off]
    return str(history.dice.choice(runs).ref) if runs else None


def move(history: Rich, owner: Scheduler, run_id: str) -> None:
    if history.dice.random() < REQUEUED:
        owner.requeue(run_id, priority=history.dice.choice(tuple(Priority)))
        history.stage.count("moved")
        return
    run = owner.reschedule(run_id, delay=history.dice.choice(DELAYS))
    history.observed.submitted[run.id] = int(run.due.timestamp() * 1_000)
    history.stage.count("moved")
