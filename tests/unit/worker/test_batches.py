"""A batch of messages shares its requests, and each run of it is what it would be alone."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from quarterjack import Context, RunState
from quarterjack.testing import Crash, Hook
from quarterjack.testing.process import work_off
from quarterjack.worker.context import Done, WorkerContext
from quarterjack.worker.delivery.receive import partition_batch, receive
from quarterjack.worker.delivery.visibility import HIDDEN
from quarterjack.worker.execution.executor import ThreadedExecutor
from quarterjack.worker.pipeline import run_batch
from quarterjack.worker.stages import AnyMessage, Outcome

from tests.support.scenes.threads import PATIENCE
from tests.support.scenes.world import Faults, World, crash, fails

RUNS = 4


class Batch:
    """Some one-offs in one batch at a worker whose jobs run in real threads."""

    def __init__(self, hook: Hook | None = None) -> None:
        self.world = World()
        self.worker = self.of(self.world.worker(hook))
        self.outcomes: dict[str, Outcome] = {}
        self._changed = threading.Condition()

    def of(self, worker: WorkerContext) -> WorkerContext:
        return replace(worker, executor=ThreadedExecutor(), report=self._done)

    def submit(self, job: str, count: int = RUNS, **options: Any) -> list[str]:
        return [self.world.scheduler.submit(job, {"n": n}, **options).id for n in range(count)]

    def take(self) -> list[AnyMessage]:
        return receive(self.worker, self.world.services.work.receive(most=10, wait=0, visibility=HIDDEN))

    def start(self) -> list[Sequence[AnyMessage]]:
        """Work off in threads what was received; its batches."""
        found = partition_batch(self.worker, self.take())
        for batch in found:
            threading.Thread(target=run_batch, args=(self.worker, batch), daemon=True).start()
        return found

    def _done(self, done: Sequence[Done]) -> None:
        with self._changed:
            for received, outcome in done:
                assert str(received.in_flight.ref) not in self.outcomes, "reported twice"
                self.outcomes[str(received.in_flight.ref)] = outcome
            self._changed.notify_all()

    def wait(self, count: int = RUNS) -> dict[str, Outcome]:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.outcomes) == count, PATIENCE), self.outcomes
        return self.outcomes

    def states(self) -> Counter[str]:
        return Counter(str(run.state) for run in self.world.memory.runs())


def test_a_batch_takes_one_request_for_its_leases_and_one_for_its_ends() -> None:
    faults = Faults()
    batch = Batch(faults)
    ids = batch.submit("note")
    assert [len(group) for group in batch.start()] == [RUNS]
    outcomes = batch.wait()
    assert {run_id: outcome.state for run_id, outcome in outcomes.items()} == dict.fromkeys(ids, RunState.SUCCEEDED)
    asked = Counter((operation, detail.verb) for operation, detail in faults.calls)
    assert asked["BatchExecuteStatement", "lease"] == 1
    assert asked["BatchExecuteStatement", "succeed"] <= 2  # one if all have ended within LINGER of each other
    assert asked["UpdateItem", "lease"] == asked["UpdateItem", "succeed"] == 0
    assert batch.world.memory.messages() == []


def test_the_jobs_of_a_batch_run_at_the_same_time() -> None:
    batch, barrier = Batch(), threading.Barrier(RUNS)
    batch.world.jobs.job("meet")(lambda ctx, payload: barrier.wait(PATIENCE) and None)
    batch.submit("meet")
    batch.start()
    assert all(outcome.state is RunState.SUCCEEDED for outcome in batch.wait().values())


def test_a_slow_job_does_not_hold_up_what_the_others_did() -> None:
    batch, go_on = Batch(), threading.Event()
    batch.world.jobs.job("slow")(lambda ctx, payload: go_on.wait(PATIENCE) and None)
    (slow,) = batch.submit("slow", 1)
    quick = batch.submit("note", RUNS - 1)
    assert len(batch.start()) == 1
    assert set(batch.wait(RUNS - 1)) == set(quick)
    assert batch.states() == {"SUCCEEDED": RUNS - 1, "RUNNING": 1}
    go_on.set()
    assert batch.wait()[slow].state is RunState.SUCCEEDED


def test_a_failure_is_settled_by_itself_and_spoils_no_other() -> None:
    batch = Batch()
    (bad,) = batch.submit("bad", 1)
    batch.submit("note", RUNS - 1)
    batch.start()
    outcomes = batch.wait()
    assert outcomes.pop(bad).state is RunState.RETRYING
    assert {outcome.state for outcome in outcomes.values()} == {RunState.SUCCEEDED}


def test_a_job_that_is_past_its_timeout_is_abandoned_and_the_others_are_settled() -> None:
    batch, go_on, began = Batch(), threading.Event(), threading.Event()

    @batch.world.jobs.job("hangs", timeout=5.0)
    def hangs(ctx: Context, payload: Any) -> None:
        began.set()
        go_on.wait(PATIENCE)

    (hung,) = batch.submit("hangs", 1)
    batch.submit("note", RUNS - 1)
    batch.start()
    batch.wait(RUNS - 1)
    assert began.wait(PATIENCE)
    batch.world.wait(6)
    for ticket in batch.worker.heartbeat.all():
        with ticket.changed:
            ticket.changed.notify_all()
    outcome = batch.wait()[hung]
    go_on.set()
    assert (outcome.state, outcome.why) == (RunState.RETRYING, "Timeout")
    assert batch.worker.abandoned.is_set()


@pytest.mark.parametrize("verb", ["lease", "succeed"])
def test_what_was_throttled_in_a_batch_is_not_lost_and_runs_once(verb: str) -> None:
    batch = Batch(Faults().at(verb, throttle=[1], times=2))  # in both rounds of the batch
    ids = batch.submit("note")
    batch.start()
    batch.wait()
    batch.world.live(60)
    assert batch.states() == {"SUCCEEDED": RUNS}
    assert sorted(start.run_id for start in batch.world.started) == sorted(ids)


@pytest.mark.parametrize("verb", ["lease", "succeed"])
def test_an_answer_that_was_lost_is_recognised(verb: str) -> None:
    batch = Batch(Faults().at(verb, after=fails))
    batch.submit("note")
    batch.start()
    assert {outcome.state for outcome in batch.wait().values()} == {RunState.SUCCEEDED}
    assert {run.attempt for run in batch.world.memory.runs()} == {1}


def test_leases_that_are_never_answered_let_their_messages_come_back() -> None:
    batch = Batch(Faults().at("lease", before=fails, times=None))
    batch.submit("note")
    batch.start()
    assert {outcome.why for outcome in batch.wait().values()} == {"unavailable"}
    assert batch.world.started == []
    batch.world.live(60)
    assert batch.states() == {"SUCCEEDED": RUNS}


def test_a_run_that_was_taken_meanwhile_is_refused_alone() -> None:
    world = World()
    other = world.worker(name="other")

    def steal() -> None:
        (delivery,) = world.services.work.receive(most=1, wait=0, visibility=HIDDEN)
        (outcome,) = work_off(other, receive(other, [delivery]))
        assert outcome.state is RunState.SUCCEEDED

    batch = Batch()
    batch.world = world
    batch.worker = batch.of(world.worker(Faults().at("lease", before=steal)))
    ids = batch.submit("note")
    stored = list(world.memory.work)
    received = batch.take()
    world.memory.work.put(stored[0].body)  # SQS delivers one of them twice
    run_batch(batch.worker, received)
    outcomes = batch.wait()
    assert Counter(outcome.why for outcome in outcomes.values()) == {"": RUNS - 1, "ended": 1}
    assert sorted(start.run_id for start in world.started) == sorted(ids)


def test_what_is_due_at_different_instants_goes_in_groups() -> None:
    batch = Batch()
    batch.submit("note", 2)
    batch.submit("note", 2, delay=1.5, start="exact")
    batch.world.wait(1)
    received = batch.take()
    assert [len(each) for each in partition_batch(batch.worker, received)] == [2, 2]


@pytest.mark.parametrize("kind", ["at most once", "exclusive", "delivered before", "unknown", "twice in one batch"])
def test_what_needs_its_own_way_goes_alone(kind: str) -> None:
    batch = Batch()
    match kind:
        case "at most once":
            batch.submit("once", 2)
        case "exclusive":
            for name in ("a", "b"):
                batch.world.scheduler.create_schedule(name, "note", "rate(1 second)", overlap="skip")
                batch.world.wait(1)
        case "delivered before":
            batch.submit("note", 2)
            batch.take()
            batch.world.wait(HIDDEN + 1)
        case "unknown":
            batch.world.scheduler = type(batch.world.scheduler)(
                "acme", services=batch.world.services, clock=batch.world.clock
            )
            batch.submit("nobody-knows", 2)
        case _:
            batch.submit("note", 1)
            batch.world.memory.work.put(next(iter(batch.world.memory.work)).body)
    received = batch.take()[:2]
    assert [len(each) for each in partition_batch(batch.worker, received)] == [1, 1]


def test_at_most_once_keeps_its_order_in_a_batch() -> None:
    faults = Faults()
    batch = Batch(faults)
    batch.submit("once", 2)
    batch.start()
    batch.wait(2)
    verbs = [verb for verb in faults.verbs() if verb in ("put", "lease", "delete", "succeed")]
    assert Counter(verbs) == {"put": 2, "lease": 2, "delete": 2, "succeed": 2}
    assert verbs.index("put") < verbs.index("lease") < verbs.index("delete") < verbs.index("succeed")


def test_a_defect_of_ours_lets_the_messages_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = Batch()
    batch.submit("note")
    ledger: Any = batch.worker.services.ledger
    monkeypatch.setattr(ledger, "lease_all", lambda leases: 1 / 0)
    batch.start()
    assert {outcome.why for outcome in batch.wait().values()} == {"unavailable"}
    monkeypatch.undo()
    batch.world.live(120)
    assert batch.states() == {"SUCCEEDED": RUNS}


def test_a_settlement_that_dies_leaves_runs_that_others_take_over() -> None:
    """The worker's process dies when it has settled and deleted nothing yet."""
    world = World()
    for n in range(RUNS):
        world.scheduler.submit("note", {"n": n})
    with pytest.raises(Crash):
        world.work(world.worker(Faults().at("succeed", before=crash)), together=True)
    assert {run.state for run in world.memory.runs()} == {RunState.RUNNING}
    world.live(200)
    assert {(run.state, run.attempt) for run in world.memory.runs()} == {(RunState.SUCCEEDED, 2)}
