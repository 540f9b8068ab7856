"""The worker as a process: it polls, keeps to its concurrency, and when it is told to stop finishes what it can and gives back the rest."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from quarterjack import Context, Registry, RunState, Scheduler
from quarterjack.concurrency.pools import ThreadCache
from quarterjack.daemon.lane_shares import LaneShares
from quarterjack.daemon.worker_process import WorkerProcess
from quarterjack.domain.policies import Priority
from quarterjack.ports.services import Services
from quarterjack.services import system_clock
from quarterjack.testing import Detail, Hook, Memory

from tests.support.scenes.world import Faults, fails

LONG = 20.0  # seconds after which a test that waits for an event gives up


class Scene:
    """Jobs that begin and wait until they are let go."""

    def __init__(self) -> None:
        self.memory = Memory(system_clock, idle=lambda seconds: threading.Event().wait(0.02))
        self.jobs = Registry()
        self.scheduler = Scheduler("acme", jobs=self.jobs, services=self.memory.connect())
        self.begun, self.go = threading.Semaphore(0), threading.Event()
        self.at_once, self.most, self._lock = 0, 0, threading.Lock()
        self.jobs.job("wait")(self._wait)
        self.jobs.job("once", delivery="at_most_once")(self._wait)
        self.jobs.job("quick")(lambda ctx, payload: None)

    def _wait(self, ctx: Context, payload: object) -> None:
        with self._lock:
            self.at_once += 1
            self.most = max(self.most, self.at_once)
        self.begun.release()
        self.go.wait(LONG)
        with self._lock:
            self.at_once -= 1

    def wait_for_starts(self, count: int) -> None:
        for _ in range(count):
            assert self.begun.acquire(timeout=LONG)

    def states(self) -> list[RunState]:
        return [run.state for run in self.memory.runs()]


@contextmanager
def working(
    services: Services, jobs: Registry, *, grace: float = 0.0, concurrency: int = 10
) -> Iterator[Callable[[], None]]:
    """A worker process; the function stops it and waits for its end."""
    stop, process = threading.Event(), WorkerProcess(services, jobs, concurrency=concurrency)
    running = threading.Thread(target=process.run, kwargs={"stop": stop, "grace": grace})

    def end() -> None:
        stop.set()
        running.join(LONG)
        assert not running.is_alive()

    running.start()
    try:
        yield end
    finally:
        end()


def until(done: Callable[[], bool]) -> bool:
    pause = threading.Event()
    for _ in range(int(LONG / 0.02)):
        if done():
            return True
        pause.wait(0.02)
    return False


@pytest.fixture
def scene() -> Iterator[Scene]:
    made = Scene()
    yield made
    made.go.set()


def test_what_ends_within_the_grace_is_settled(scene: Scene) -> None:
    scene.scheduler.submit("wait")
    with working(scene.memory.connect(), scene.jobs, grace=LONG) as end:
        scene.wait_for_starts(1)
        threading.Timer(0.1, scene.go.set).start()
        end()
    assert scene.states() == [RunState.SUCCEEDED]
    assert len(scene.memory.work) == 0


def test_what_does_not_is_given_back_and_another_worker_starts_it_at_once(scene: Scene) -> None:
    for _ in range(3):
        scene.scheduler.submit("wait")
    with working(scene.memory.connect(), scene.jobs) as end:
        scene.wait_for_starts(3)
        end()
    assert scene.states() == [RunState.RETRYING] * 3
    assert [run.attempt for run in scene.memory.runs()] == [0] * 3, "no attempt is spent"
    scene.go.set()
    with working(scene.memory.connect(), scene.jobs):
        scene.wait_for_starts(3)
        assert until(lambda: scene.states() == [RunState.SUCCEEDED] * 3)
    assert [run.fence for run in scene.memory.runs()] == [2] * 3


def test_an_at_most_once_run_is_never_given_back(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quarterjack.daemon.worker_process._LETTING_GO", 0.1)
    scene.scheduler.submit("once")
    with working(scene.memory.connect(), scene.jobs) as end:
        scene.wait_for_starts(1)
        end()
    assert scene.states() == [RunState.RUNNING], "its watch will find it LOST"
    assert len(scene.memory.work) == 0


class LastPoll(Hook):
    """Receiving waits until it is told to go on."""

    def __init__(self) -> None:
        self.stopping, self.told = threading.Event(), threading.Event()

    def before_call(self, operation: str, detail: Detail) -> tuple[int, ...]:
        if detail.verb == "receive":
            self.stopping.set()
            self.told.wait(LONG)
        return ()


def test_what_a_last_poll_brings_is_given_back(scene: Scene) -> None:
    """The worker is told to stop while its long poll is under way; a message arrives with its answer."""
    poll = LastPoll()
    with working(scene.memory.connect(poll), scene.jobs) as end:
        assert poll.stopping.wait(LONG)
        scene.scheduler.submit("wait")
        threading.Timer(0.2, poll.told.set).start()
        end()
    assert scene.states() == [RunState.QUEUED]
    (message,) = scene.memory.work
    assert message.visible_at <= system_clock()


def test_no_more_at_once_than_it_may(scene: Scene) -> None:
    for _ in range(12):
        scene.scheduler.submit("wait")
    with working(scene.memory.connect(), scene.jobs, concurrency=4):
        scene.wait_for_starts(4)
        assert not scene.begun.acquire(timeout=0.2)
        scene.go.set()
        assert until(lambda: scene.states() == [RunState.SUCCEEDED] * 12)
    assert scene.most == 4


def test_a_slow_one_holds_nobody_up(scene: Scene) -> None:
    scene.scheduler.submit("wait")
    for _ in range(30):
        scene.scheduler.submit("quick")
    with working(scene.memory.connect(), scene.jobs, concurrency=3):
        assert until(lambda: scene.states().count(RunState.SUCCEEDED) == 30)
        assert until(lambda: len(scene.memory.work) == 1), "messages go as soon as their runs are settled"
        scene.go.set()


@pytest.mark.parametrize("verb", ["receive", "lease", "succeed", "erase"])
def test_a_service_that_fails_for_a_moment_ends_no_worker(
    scene: Scene, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quarterjack.daemon.worker_process._PAUSE", 0.02)
    monkeypatch.setattr("quarterjack.worker.execution.settle._PATIENCE", (0.02,))
    monkeypatch.setattr("quarterjack.worker.delivery.receive._SOON", 0)
    scene.scheduler.submit("quick")
    with working(scene.memory.connect(Faults().at(verb, before=fails, times=2)), scene.jobs):
        assert until(lambda: scene.states() == [RunState.SUCCEEDED])


def test_a_defect_while_receiving_ends_no_worker(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quarterjack.daemon.worker_process._PAUSE", 0.02)

    def defect() -> None:
        raise KeyError("ours")

    scene.scheduler.submit("quick")
    with working(scene.memory.connect(Faults().at("receive", before=defect, times=3)), scene.jobs):
        assert until(lambda: scene.states() == [RunState.SUCCEEDED])


def test_while_no_thread_can_be_started_messages_go_back_and_then_all_is_as_before(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As under a limit on processes: the slots of what could not start are free again, and its messages are not kept."""
    monkeypatch.setattr("quarterjack.daemon.worker_process._PAUSE", 0.02)
    monkeypatch.setattr("quarterjack.worker.delivery.receive._LATER", 0)
    short, start, faults = threading.Event(), threading.Thread.start, Faults()

    def start_if_any(thread: threading.Thread) -> None:
        if short.is_set():
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_if_any)
    with working(scene.memory.connect(faults), scene.jobs, concurrency=2, grace=2 * LONG) as end:
        assert until(lambda: "receive" in faults.verbs())
        short.set()
        for _ in range(5):
            scene.scheduler.submit("quick")
        assert until(lambda: faults.verbs().count("hide") >= 6), "more often than it has slots"
        assert scene.states() == [RunState.QUEUED] * 5
        short.clear()
        assert until(lambda: scene.states() == [RunState.SUCCEEDED] * 5)
        end()  # at once: nothing is thought to be at hand
    assert len(scene.memory.work) == 0


def test_runs_that_get_no_threads_of_their_own_begin_one_after_the_other(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To give up the group would start again what has begun."""
    monkeypatch.setattr("quarterjack.worker.delivery.receive._LATER", 0)
    start, refused = ThreadCache.start, threading.Event()

    def start_one(threads: ThreadCache, name: str, body: Callable[..., object], *arguments: object) -> None:
        if name == "jobs":
            refused.set()
            raise RuntimeError("can't start new thread")
        start(threads, name, body, *arguments)

    monkeypatch.setattr(ThreadCache, "start", start_one)
    for _ in range(3):
        scene.scheduler.submit("wait")
    with working(scene.memory.connect(), scene.jobs, grace=LONG):
        scene.wait_for_starts(1)
        assert refused.wait(LONG)
        scene.go.set()
        assert until(lambda: scene.states() == [RunState.SUCCEEDED] * 3)
    scene.wait_for_starts(2)
    assert not scene.begun.acquire(blocking=False), "each began once"
    assert scene.most == 1


def test_a_defect_of_the_poller_ends_no_worker(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quarterjack.daemon.worker_process._PAUSE", 0.02)
    asked = 0

    take = LaneShares.take

    def odd_once(slots: LaneShares, lane: Priority, most: int, *, timeout: float) -> int:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise KeyError("ours")
        return take(slots, lane, most, timeout=timeout)

    monkeypatch.setattr(LaneShares, "take", odd_once)
    with working(scene.memory.connect(), scene.jobs):
        assert until(lambda: asked > 0)
        scene.scheduler.submit("quick")
        assert until(lambda: scene.states() == [RunState.SUCCEEDED])


@pytest.mark.parametrize(("concurrency", "together"), [(100, 20), (10, 10), (14, 14)])
def test_a_full_batch_goes_with_the_next_as_far_as_there_are_slots(
    scene: Scene, concurrency: int, together: int
) -> None:
    """What they ask for fits one request."""
    faults = Faults()
    for _ in range(25):
        scene.scheduler.submit("quick")
    with working(scene.memory.connect(faults), scene.jobs, concurrency=concurrency):
        assert until(lambda: scene.states() == [RunState.SUCCEEDED] * 25)
        assert until(lambda: len(scene.memory.work) == 0)
    leases = [len(detail.items) for operation, detail in faults.calls if detail.verb == "lease"]
    assert max(leases) == together
    assert sum(leases) == 25


def test_a_batch_does_not_wait_for_one_that_cannot_be_had(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quarterjack.daemon.worker_process._PAUSE", 0.02)
    received = 0

    class SecondFails(Hook):
        def before_call(self, operation: str, detail: Detail) -> tuple[int, ...]:
            nonlocal received
            if detail.verb == "receive":
                received += 1
                if received == 2:
                    fails()
            return ()

    for _ in range(10):
        scene.scheduler.submit("quick")
    with working(scene.memory.connect(SecondFails()), scene.jobs, concurrency=100):
        assert until(lambda: scene.states() == [RunState.SUCCEEDED] * 10)
    assert received >= 2


def test_both_batches_of_a_last_poll_are_given_back(scene: Scene) -> None:
    poll = LastPoll()
    with working(scene.memory.connect(poll), scene.jobs, concurrency=100) as end:
        assert poll.stopping.wait(LONG)
        for _ in range(15):
            scene.scheduler.submit("wait")
        threading.Timer(0.2, poll.told.set).start()
        end()
    assert scene.states() == [RunState.QUEUED] * 15
    assert all(message.visible_at <= system_clock() for message in scene.memory.work)


def test_after_a_batch_that_was_not_full_it_waits_a_moment_for_company(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quarterjack.daemon.worker_process._COMPANY", 0.3)
    faults, asked = Faults(), list[int]()

    class Looks(Hook):
        def before_call(self, operation: str, detail: Detail) -> tuple[int, ...]:
            if detail.verb == "receive":
                asked.append(system_clock())
                if len(asked) == 1:
                    scene.scheduler.submit("quick")
            if detail.verb == "lease" and len(asked) == 1:
                for _ in range(3):
                    scene.scheduler.submit("quick")
            faults.before_call(operation, detail)
            return ()

    with working(scene.memory.connect(Looks()), scene.jobs, concurrency=100):
        assert until(lambda: scene.states() == [RunState.SUCCEEDED] * 4)
    assert asked[1] - asked[0] >= 300
    assert sum(detail.verb == "lease" for _, detail in faults.calls) == 2, "three of them with one request"
