"""A worker process on a queue with lanes."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import pytest
from quarterjack import Context, Registry, RunState, Scheduler
from quarterjack.daemon.figures import ProcessFigures
from quarterjack.daemon.worker_process import WorkerProcess
from quarterjack.domain.policies import Priority
from quarterjack.domain.times import DAY, HOUR
from quarterjack.services import system_clock
from quarterjack.signals.worker import WorkerFigures
from quarterjack.testing import Memory
from quarterjack.worker.stages import LeasedRun

HIGH, NORMAL, LOW = Priority
PATIENCE = 30.0  # seconds


class Scene:
    """A queue with lanes; its job notes its start, and ends when it is let."""

    def __init__(self, *, holds: bool = False, clock: Callable[[], int] = system_clock, stripes: int = 1) -> None:
        self.memory = Memory(
            clock,
            prioritised=[None],
            stripes={None: stripes},
            idle=lambda seconds: threading.Event().wait(min(seconds, 0.02)),
        )
        self.jobs, self.starts = Registry(), list[str]()
        self.begun, self.may_end = threading.Semaphore(0), threading.Semaphore(0)
        self.scheduler = Scheduler(jobs=self.jobs, services=self.memory.connect(), clock=clock)

        @self.jobs.job("note")
        def note(ctx: Context, payload: str) -> None:
            self.starts.append(payload)
            self.begun.release()
            if holds:
                assert self.may_end.acquire(timeout=PATIENCE)

    def submit(self, priority: Priority, number: int = 1) -> None:
        for _ in range(number):
            self.scheduler.submit("note", str(priority), priority=priority)

    def wait_for_starts(self, number: int) -> None:
        for _ in range(number):
            assert self.begun.acquire(timeout=PATIENCE)


def until(met: Callable[[], object]) -> bool:
    """Whether something came true in time."""
    deadline = time.monotonic() + PATIENCE
    while not met() and time.monotonic() < deadline:
        threading.Event().wait(0.005)
    return bool(met())


@contextmanager
def working(scene: Scene, concurrency: int, **more: Any) -> Iterator[WorkerProcess]:
    stop, process = (
        threading.Event(),
        WorkerProcess(scene.memory.connect(), scene.jobs, concurrency=concurrency, **more),
    )
    running = threading.Thread(target=partial(process.run, stop=stop, grace=PATIENCE))
    running.start()
    try:
        yield process
    finally:
        scene.may_end.release(10_000)
        stop.set()
        running.join(PATIENCE)
        assert not running.is_alive()


@pytest.mark.parametrize("concurrency", [1, 2, 3, 10])
def test_a_process_takes_from_all_lanes_whatever_its_concurrency(concurrency: int) -> None:
    scene = Scene()
    for priority in Priority:
        scene.submit(priority, 8)
    with working(scene, concurrency):
        scene.wait_for_starts(24)
        assert until(lambda: {run.state for run in scene.memory.runs()} == {RunState.SUCCEEDED})
        assert until(lambda: not any(len(stripe) for stripe in scene.memory.stripes.values()))
    assert Counter(scene.starts) == {"high": 8, "normal": 8, "low": 8}


def test_high_has_the_next_slot_although_low_has_all_and_hundreds_wait() -> None:
    scene = Scene(holds=True)
    scene.submit(LOW, 300)
    with working(scene, 10) as process:
        scene.wait_for_starts(10)
        assert scene.starts == ["low"] * 10, "nobody else wanted a slot"
        scene.submit(HIGH)
        assert until(lambda: process._shares._waiting[HIGH])
        scene.may_end.release()
        scene.wait_for_starts(1)
        assert scene.starts[10:] == ["high"]


def test_a_lane_that_is_empty_keeps_no_slot_from_a_full_one() -> None:
    scene = Scene(holds=True)
    scene.submit(NORMAL, 40)
    with working(scene, 10):
        scene.wait_for_starts(10)
        for _ in range(30):  # and so it stays, poll after poll
            scene.may_end.release()
            scene.wait_for_starts(1)
    assert Counter(scene.starts) == {"normal": 40}


def test_low_keeps_a_tenth_of_the_starts_and_high_the_most() -> None:
    scene = Scene(holds=True)
    for priority in Priority:
        scene.submit(priority, 300)
    with working(scene, 10) as process:
        scene.wait_for_starts(10)
        for _ in range(100):
            assert until(lambda: set(+process._shares._waiting) == set(Priority))
            scene.may_end.release()
            scene.wait_for_starts(1)
        later = Counter(scene.starts[10:])
    assert 10 <= later["low"] <= 12
    assert 35 <= later["normal"] <= 45


def test_the_last_of_some_low_runs_waits_no_longer_than_their_number_over_the_share_of_low() -> None:
    """A tenth of ten slots is low's: of ten slots that become free one goes to a low run, while others wait for each of them."""
    scene, low = Scene(holds=True), 8
    for priority, runs in ((HIGH, 300), (NORMAL, 300), (LOW, low)):
        scene.submit(priority, runs)
    with working(scene, 10) as process:
        scene.wait_for_starts(10)
        for _ in range(10 * low):
            crowded = set(Priority) if scene.starts.count("low") < low else {HIGH, NORMAL}
            assert until(lambda crowded=crowded: set(+process._shares._waiting) >= crowded)  # type: ignore[misc]
            scene.may_end.release()
            scene.wait_for_starts(1)
        assert scene.starts[: 10 + 10 * low].count("low") == low, "ten started at once"


@pytest.mark.parametrize(("processes", "stripes"), [(1, 1), (1, 2), (2, 1), (2, 3)])
@pytest.mark.parametrize("concurrency", [1, 2, 3, 5])
def test_low_keeps_a_tenth_of_the_starts_of_processes_with_few_slots(
    concurrency: int, processes: int, stripes: int
) -> None:
    scene = Scene(holds=True, stripes=stripes)
    for priority in Priority:
        scene.submit(priority, 200)
    with ExitStack() as running:
        there = [running.enter_context(working(scene, concurrency)) for _ in range(processes)]
        scene.wait_for_starts(concurrency * processes)
        for _ in range(120):
            assert until(lambda: all(set(+one._shares._waiting) == set(Priority) for one in there))
            scene.may_end.release()
            scene.wait_for_starts(1)
        later = Counter(scene.starts[concurrency * processes :][:120])
    assert 12 <= later["low"] <= 30
    assert later["high"] >= 40


class LowWaits(ProcessFigures):
    """Keeps the names of the figures of low waits."""

    def __init__(self, jobs: Registry) -> None:
        super().__init__()
        self.waits, self._made = list[str](), WorkerFigures(lambda: jobs)

    def started(self, leased: Sequence[LeasedRun]) -> None:
        self.waits += [
            each.name for each in self._made.of_starts(leased) if each.name == "LowWait" for _ in each.values
        ]


def test_a_low_message_that_is_a_day_old_takes_a_normal_slot() -> None:
    now = [system_clock()]
    scene = Scene(holds=True, clock=lambda: now[0])
    now[0] -= DAY + HOUR
    scene.submit(LOW, 3)
    now[0] = system_clock()
    scene.submit(LOW, 2)
    figures = LowWaits(scene.jobs)
    with working(scene, 10, figures=figures) as process:
        scene.wait_for_starts(5)
        assert process._shares._used[LOW] - process._shares._waiting[LOW] <= 3
        assert process._shares._used[NORMAL] >= 3
    assert Counter(figures.waits) == {"LowWait": 5}, "by which way it came does not change"


def test_a_process_that_is_told_of_no_lanes_takes_from_the_normal_one_alone() -> None:
    scene = Scene()
    scene.submit(NORMAL, 5)
    services = scene.memory.connect(prioritised=())
    assert services.work.lanes == (NORMAL,)
    Scheduler(jobs=scene.jobs, services=services).submit("note", "sent plainly", priority="high")
    with working(scene, 10):
        scene.wait_for_starts(6)
    assert Counter(scene.starts) == {"normal": 5, "sent plainly": 1}
