"""Exact runs are leased ahead of their instant and begin at it; who stops them meanwhile waits until they have begun."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from quarterjack import Retry, RunState, Scheduler
from quarterjack.domain.run import RunRow
from quarterjack.domain.times import SECOND
from quarterjack.state.lease import lease
from quarterjack.state.start import HEAD_START, HELD, UNCERTAIN, may_not_have_begun
from quarterjack.testing import Crash
from quarterjack.worker.context import Instants, WorkerContext
from quarterjack.worker.delivery.receive import partition_batch, receive
from quarterjack.worker.delivery.visibility import HIDDEN
from quarterjack.worker.execution.executor import ThreadedExecutor
from quarterjack.worker.execution.settle import release_run
from quarterjack.worker.pipeline import run_batch
from quarterjack.worker.stages import LeasedRun, Outcome

from tests.support.scenes.threads import PATIENCE
from tests.support.scenes.world import NOON, Faults, World, at

DUE = 30  # seconds after NOON
INSTANT = NOON + DUE * SECOND
EVERY_MINUTE = f"{DUE} * * * * *"
ONCE = Retry(max_attempts=1)


class Held:
    """A run whose worker has its message a second and a half early. What happens while that waits, before the lease and after it."""

    def __init__(self, *, one_off: bool = False, job: str = "note", **options: Any) -> None:
        self.world, self.faults = World(), Faults()
        self.before: Callable[[], object] = lambda: None
        self.meanwhile: Callable[[], object] = lambda: None
        self.stands_still = 0.0  # seconds by which its worker wakes too late
        self.leased: list[int] = []  # UTC ms
        self.worker: WorkerContext = self._new_worker()
        self.world.wait(0.4)  # a queue's delay is in whole seconds: its message comes 1.6 s early
        if one_off:
            self.world.scheduler.submit(job, start="exact", run_at=at(DUE))
        else:
            self.world.scheduler.create_schedule("s", job, EVERY_MINUTE, start="exact", **options)
        self.world.reach(INSTANT - 1_500)

    def _new_worker(self) -> WorkerContext:
        for verb in ("lease", "begin"):
            self.faults.at(verb, after=lambda: self.leased.append(self.world.clock()))
        worker = self.world.worker(self.faults)
        return replace(worker, wait=self._wait)

    def _wait(self, seconds: float) -> None:
        self.world.wait(seconds / 2)
        (self.meanwhile if self.leased else self.before)()
        self.world.wait(seconds / 2 + (self.stands_still if self.leased else 0))

    def work(self) -> list[Outcome]:
        return self.world.work(self.worker, together=True)

    def go_wrong(self, meanwhile: Callable[[], object]) -> None:
        """While it is held something happens, once, and its worker wakes five seconds late if it has not died of that."""

        def once() -> None:
            self.meanwhile = lambda: None
            meanwhile()

        self.meanwhile, self.stands_still = once, 5.0
        with suppress(Crash):
            self.work()

    def owner(self) -> tuple[Scheduler, list[float]]:
        """An owner, and how long their calls waited."""
        waited: list[float] = []
        services = replace(self.world.process(), wait=waited.append)
        return Scheduler("acme", jobs=self.world.jobs, services=services, clock=self.world.clock), waited

    @property
    def run(self) -> RunRow:
        return next(run for run in self.world.memory.runs() if run.due == INSTANT)

    @property
    def begun(self) -> list[int]:
        return [start.at for start in self.world.started]


@pytest.mark.parametrize("options", [{"one_off": True}, {}])
def test_it_is_leased_a_second_ahead_dated_at_its_instant_and_begins_at_it(options: dict[str, Any]) -> None:
    held = Held(**options)
    leases: list[RunRow] = []
    held.meanwhile = lambda: leases.append(held.run)
    (outcome,) = held.work()
    assert held.leased == [INSTANT - HEAD_START]
    (leased,) = leases
    assert (leased.state, leased.leased_at, leased.started_at) == (RunState.RUNNING, INSTANT, INSTANT)
    assert held.begun == [INSTANT]
    assert (outcome.state, outcome.start_lag, held.run.started_at) == (RunState.SUCCEEDED, 0, INSTANT)


@pytest.mark.parametrize("job", ["note", "bad"])
def test_its_lateness_is_that_of_its_job_and_not_of_its_lease(job: str) -> None:
    held = Held(job=job)
    held.stands_still = 0.03
    (outcome,) = held.work()
    assert held.begun == [INSTANT + 30]
    assert (held.run.lateness, outcome.start_lag) == (30, 30)


@pytest.mark.parametrize("act", ["pause", "delete", "update", "cancel"])
def test_who_stops_it_while_it_is_held_waits_until_it_has_begun(act: str) -> None:
    """The worker waits, the owner's call finds the lease, and returns when the job has begun and not before."""
    held = Held()
    leased, go_on, began = threading.Event(), threading.Event(), threading.Event()

    def hold() -> None:
        leased.set()
        assert go_on.wait(PATIENCE)

    held.meanwhile = hold
    held.world.during = lambda ctx: began.set()
    worker = threading.Thread(target=held.work, daemon=True)
    worker.start()
    assert leased.wait(PATIENCE)

    def let_time_pass(seconds: float) -> None:
        assert seconds * SECOND >= INSTANT - held.world.clock()
        go_on.set()
        assert began.wait(PATIENCE)

    services = replace(held.world.process(), wait=let_time_pass)
    owner = Scheduler("acme", jobs=held.world.jobs, services=services, clock=held.world.clock)
    stop(owner, act, held.run)
    assert began.is_set()
    worker.join(PATIENCE)
    assert len(held.begun) == 1


@pytest.mark.parametrize("act", ["pause", "delete", "update", "cancel"])
def test_who_stops_it_before_its_lease_waits_for_nothing_and_it_never_begins(act: str) -> None:
    held = Held()
    owner, waited = held.owner()
    held.before = lambda: stop(owner, act, held.run)
    held.work()
    assert held.begun == []
    assert waited == []
    assert held.run.state is (RunState.SUPERSEDED if act == "update" else RunState.CANCELLED)


def stop(owner: Scheduler, act: str, run: RunRow) -> None:
    match act:
        case "pause":
            owner.pause_schedule("s")
        case "delete":
            owner.delete_schedule("s")
        case "update":
            owner.update_schedule("s", expression="rate(7 minutes)")
        case _:
            owner.cancel_run(str(run.ref))


def test_nobody_waits_for_what_was_not_leased_ahead() -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", EVERY_MINUTE)
    waited: list[float] = []
    services = replace(world.process(), wait=waited.append)
    owner = Scheduler("acme", jobs=world.jobs, services=services, clock=world.clock)
    world.reach(INSTANT + 200)
    stops: list[object] = []
    world.during = lambda ctx: stops.append(owner.pause_schedule("s"))
    world.work(together=True)
    assert len(world.started) == len(stops) == 1
    assert waited == []


@pytest.mark.parametrize(("away", "held"), [(0, True), (UNCERTAIN, True), (-UNCERTAIN, True), (UNCERTAIN + 1, False)])
def test_how_long_it_may_not_have_begun_by_anybodys_clock(away: int, held: bool) -> None:
    leased = Held()
    seen: list[RunRow] = []
    leased.meanwhile = lambda: seen.append(leased.run)
    leased.work()
    assert may_not_have_begun(seen[0], INSTANT + away) is held
    assert not may_not_have_begun(leased.run, INSTANT), "it has ended"


def test_a_process_that_stops_gives_it_back_and_does_not_begin_it() -> None:
    held = Held()

    def release() -> None:
        (ticket,) = held.worker.heartbeat.all()
        assert release_run(held.worker, ticket)

    held.meanwhile = release
    (outcome,) = held.work()[:1]
    assert outcome.action == "lost"
    held.world.live(5)
    assert len(held.begun) == 1
    assert (held.run.state, held.run.attempt) == (RunState.SUCCEEDED, 1)
    assert held.run.started_at == held.begun[0], "not its instant: it was given back unbegun"


@pytest.mark.parametrize("late", [1.1, 30.0, 100.0])
def test_whoever_comes_too_late_gives_it_back_and_it_begins_anew(late: float) -> None:
    held = Held(one_off=True)
    held.stands_still = late
    outcomes = held.work()
    assert [outcome.why for outcome in outcomes] == ["too_late_for_its_instant", ""]
    assert len(held.begun) == 1
    assert (held.run.state, held.run.attempt, held.run.started_at) == (RunState.SUCCEEDED, 1, held.begun[0])


def test_a_process_that_stood_still_until_its_lease_was_over_does_not_begin_what_is_anothers() -> None:
    held = Held(one_off=True)
    held.stands_still = 100.0
    other = held.world.worker(name="other")

    def take() -> None:
        held.meanwhile = lambda: None
        held.world.reach(INSTANT + 80_000)
        assert [outcome.state for outcome in held.world.work(other)] == [RunState.SUCCEEDED]

    held.meanwhile = take
    (outcome,) = held.work()
    assert outcome.action == "lost"
    assert len(held.begun) == 1
    assert (held.run.state, held.run.attempt) == (RunState.SUCCEEDED, 2)


ENDS = {"pause": RunState.CANCELLED, "delete": RunState.CANCELLED, "cancel": RunState.CANCELLED}


@pytest.mark.parametrize("how", ["stands still", "stops", "dies"])
@pytest.mark.parametrize("act", ENDS)
def test_what_was_held_when_it_was_stopped_and_did_not_begin_in_time_never_begins(act: str, how: str) -> None:
    """The stop has returned: it waits for what is held, but not for a worker that stands still, stops or is gone."""
    held = Held()
    owner, waited = held.owner()

    def meet() -> None:
        stop(owner, act, held.run)
        assert waited == [HELD / SECOND]
        (ticket,) = held.worker.heartbeat.all()
        if how == "stops":
            assert release_run(held.worker, ticket)
        elif how == "dies":
            raise Crash

    held.go_wrong(meet)
    held.world.live(90)
    assert [at for at in held.begun if at < INSTANT + 60_000 or act != "cancel"] == []
    assert held.run.state is ENDS[act]
    assert held.run.started_at is None or act == "cancel"


@pytest.mark.parametrize("how", ["stands still", "dies"])
def test_what_was_held_when_its_schedule_was_changed_is_neither_swallowed_nor_doubled(how: str) -> None:
    """The new revision has the same instant, and found it leased: so it stays the old one's, late."""
    held = Held(payload="old")
    owner, _ = held.owner()

    def meet() -> None:
        owner.update_schedule("s", payload="new")
        if how == "dies":
            raise Crash

    held.go_wrong(meet)
    held.world.live(180)
    ref = str(held.run.ref)
    assert len([start for start in held.world.started if start.run_id == ref]) == 1
    assert held.run.state is RunState.SUCCEEDED


def test_many_that_are_held_are_cancelled_with_one_wait() -> None:
    held = Held()
    owner, waited = held.owner()
    owner.create_schedule("dense", "note", "* * * * * *", start="exact")
    held.world.tick()
    runs = [run for run in held.world.memory.runs() if abs(run.due - INSTANT) <= SECOND and "dense" in run.ref.owner]
    for run in runs:
        taken = lease(revision=1, now=run.due, token=str(run.due), worker="w", max_attempts=3, steal=False)
        assert held.world.services.ledger.move(run.ref, taken).applied
    assert owner.cancel_runs("dense", between=(at(DUE - 2), at(DUE + 1))) == len(runs)
    assert len(runs) > 1
    assert waited == [HELD / SECOND]


@pytest.mark.parametrize("options", [{"overlap": "skip"}, {"job": "once"}, {"shadow": True}, {"retry": ONCE}])
def test_what_takes_more_than_a_lease_is_leased_at_its_instant_if_at_all(options: dict[str, Any]) -> None:
    held = Held(**options)
    held.work()
    assert all(at >= INSTANT for at in held.leased + held.begun)
    assert held.run.state in (RunState.SUCCEEDED, RunState.SHADOWED)


def test_a_lease_that_is_refused_ahead_is_asked_for_again_at_the_instant() -> None:
    """Its answer is lost, and the other delivery meets the row as it is by then."""
    held = Held()
    held.faults.at("lease", throttle=(0,), times=None)
    held.work()
    assert held.begun == []
    held.faults.rules.clear()
    held.world.live(15)
    assert len(held.begun) == 1
    assert held.begun[0] >= INSTANT


def test_what_came_in_several_batches_starts_together_and_is_settled_together() -> None:
    world, faults, done = World(), Faults(), list[Outcome]()
    world.wait(0.4)
    for _ in range(20):
        world.scheduler.submit("note", start="exact", run_at=at(DUE))
    world.reach(INSTANT - 1_500)
    changed, joined = threading.Condition(), threading.Semaphore(0)

    class Noted(Instants):
        def join(self, instant: int, leased: Sequence[LeasedRun]) -> bool:
            is_first = super().join(instant, leased)
            joined.release()
            return is_first

    def wait(seconds: float) -> None:
        """Until the lease is due; whoever waits for the instant then, until both have joined."""
        if world.clock() < INSTANT - HEAD_START:
            world.reach(INSTANT - HEAD_START)
        else:
            assert all(joined.acquire(timeout=PATIENCE) for _ in range(2))
            world.reach(INSTANT)

    def report(ended: Any) -> None:
        with changed:
            done.extend(outcome for _, outcome in ended)
            changed.notify_all()

    worker = world.worker(faults)
    worker = replace(worker, wait=wait, executor=ThreadedExecutor(), instants=Noted(), report=report)
    received = [receive(worker, world.services.work.receive(most=10, wait=0, visibility=HIDDEN)) for _ in range(2)]
    for (batch,) in [partition_batch(worker, each) for each in received]:
        threading.Thread(target=run_batch, args=(worker, batch), daemon=True).start()
    with changed:
        assert changed.wait_for(lambda: len(done) == 20, PATIENCE)
    assert {outcome.state for outcome in done} == {RunState.SUCCEEDED}
    assert Counter(faults.verbs())["lease"] == 2
    assert Counter(faults.verbs())["succeed"] == 1


def test_whoever_comes_after_an_instant_was_taken_is_first_again() -> None:
    instants: Any = Instants()
    assert [instants.join(1, ["a"]), instants.join(1, ["b"]), instants.join(2, ["c"])] == [True, False, True]
    assert instants.take(1) == ["a", "b"]
    assert instants.join(1, ["d"])
    assert (instants.take(1), instants.take(2)) == (["d"], ["c"])


def test_a_defect_while_batches_wait_together_lets_the_messages_of_all_come_back() -> None:
    world, done = World(), list[Outcome]()
    world.wait(0.4)
    for _ in range(20):
        world.scheduler.submit("note", start="exact", run_at=at(DUE))
    world.reach(INSTANT - 1_500)
    received: list[Any] = []

    def wait(seconds: float) -> None:
        """The first batch waits for its leases, then for the instant; meanwhile the second one comes, and joins it."""
        if world.clock() < INSTANT - HEAD_START:
            world.reach(INSTANT - HEAD_START)
            return
        run_batch(worker, received.pop())
        raise KeyError("ours")

    worker = replace(world.worker(), wait=wait, report=lambda ended: done.extend(outcome for _, outcome in ended))
    for _ in range(2):
        messages = receive(worker, world.services.work.receive(most=10, wait=0, visibility=HIDDEN))
        received += partition_batch(worker, messages)
    run_batch(worker, received.pop())
    assert Counter((outcome.action, outcome.why) for outcome in done) == {("kept", "defect"): 20}
    assert worker.heartbeat.all() == []
