"""The clock of a process goes on when a job or a host shifts the wall clock; what the services say decides who is right."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from email.utils import formatdate
from functools import partial
from importlib.util import find_spec, module_from_spec

import pytest
from quarterjack import Context, Registry, Retry, RunState, Scheduler
from quarterjack.clock import NEAR, SLOW, TRUSTED, WRONG, SteadyClock, system_clock
from quarterjack.domain.names import parse_run_id
from quarterjack.testing import Memory
from quarterjack.testing.process import Hand, make_worker

from tests.support.scenes.world import NOON, World

YEAR = 365 * 86_400_000
MS = 1_000_000  # ns


@dataclass
class Host:
    """The clocks of a host, and what a service says."""

    true: int = NOON
    wall_off: int = 0
    steady_off: int = -NOON + 5_000
    suspended: int = 0

    def clock(self) -> SteadyClock:
        return SteadyClock(lambda: (self.true + self.wall_off) * MS, lambda: (self.true + self.steady_off) * MS)

    def says(self, clock: SteadyClock, *, took: int = 10) -> None:
        """A service answers a request that was sent ``took`` ms ago."""
        clock.heard(formatdate(self.true / 1_000, usegmt=True), clock.steady() - took)


def test_it_follows_a_wall_clock_that_is_set_a_little() -> None:
    host = Host()
    clock = host.clock()
    for _ in range(20):
        host.true += 60_000
        host.wall_off += NEAR // 2
        assert clock() == host.true + host.wall_off


@pytest.mark.parametrize("shift", [-10 * YEAR, -60_000, -NEAR - 1, NEAR + 1, 60_000, YEAR])
def test_a_wall_clock_that_is_shifted_changes_nothing(shift: int) -> None:
    host = Host()
    clock = host.clock()
    assert clock() == NOON
    host.wall_off = shift
    for _ in range(5):
        host.true += 30_000
        assert clock() == host.true
        host.says(clock)
        assert abs(clock() - host.true) <= TRUSTED
    host.wall_off = 0
    host.true += 1
    assert clock() == host.true


@pytest.mark.parametrize("step", [-3_600_000, 40_000, 3_600_000])
def test_a_wall_clock_that_is_set_right_is_followed_once_a_service_says_so(
    step: int, caplog: pytest.LogCaptureFixture
) -> None:
    host = Host(wall_off=-step)
    clock = host.clock()
    host.wall_off = 0
    assert clock() == NOON - step, "nobody has said yet which is right"
    with caplog.at_level(logging.WARNING):
        host.says(clock)
    assert clock() == host.true
    (line,) = [line for line in caplog.records if line.getMessage() == "clock.corrected"]
    assert vars(line)["by_ms"] == step


def test_a_machine_that_was_suspended_and_whose_steady_clock_stood_still() -> None:
    host = Host()
    clock = host.clock()
    host.true += YEAR // 365
    host.steady_off -= YEAR // 365
    host.says(clock)
    assert clock() == host.true


def test_a_host_whose_clock_is_wrong_goes_by_the_services() -> None:
    host = Host(wall_off=WRONG + 2_000)
    clock = host.clock()
    assert clock() == host.true + WRONG + 2_000
    host.says(clock)
    assert abs(clock() - host.true) <= 1_000
    near = Host(wall_off=WRONG - 2_000)
    clock = near.clock()
    near.says(clock)
    assert clock() == near.true + WRONG - 2_000, "as far as clocks may differ"


def test_a_slow_answer_and_one_without_a_date_say_nothing() -> None:
    host = Host(wall_off=60_000)
    clock = host.clock()
    host.says(clock, took=SLOW + 1)
    clock.heard(None, 0)
    host.true += 1_000
    clock.heard("yesterday", clock.steady())
    assert clock() == host.true + 60_000


def shift(monkeypatch: pytest.MonkeyPatch, by: int) -> None:
    """As tools do that freeze the time in tests: what ``time`` has is replaced, for the whole process."""
    for name in ("time_ns", "monotonic_ns"):
        then = getattr(time, name)() + by * 1_000_000
        monkeypatch.setattr(time, name, partial(int, then))


def test_a_job_that_shifts_the_clock_of_its_process_shifts_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs, memory, ended = Registry(), Memory(system_clock), dict[str, int]()

    @jobs.job("freezes")
    def freezes(ctx: Context, payload: object) -> None:
        shift(monkeypatch, -14 * YEAR)

    @jobs.job("sound")
    def sound(ctx: Context, payload: object) -> None:
        ended[ctx.tenant] = system_clock()

    hand = Hand(worker=make_worker(memory.connect(), jobs, system_clock, wait=lambda seconds: None))
    begun = system_clock()
    first = Scheduler("acme", jobs=jobs, services=memory.connect()).submit("freezes")
    hand.work()
    assert time.time_ns() // 1_000_000 < begun - 13 * YEAR, "it is frozen"
    other = Scheduler("other", jobs=jobs, services=memory.connect())
    second = other.submit("sound", idempotency_key="k")
    hand.work()
    for run in memory.runs():
        assert run.state is RunState.SUCCEEDED
        assert begun <= run.created_at <= (run.started_at or 0) <= (run.ended_at or 0) <= begun + 60_000
    assert {run.ref.owner for run in memory.runs()} == {first.id.partition("#")[0], second.id.partition("#")[0]}


@pytest.mark.parametrize("job", ["back", "bad", "spent"])
def test_a_row_ends_after_it_began_and_expires_a_retention_later_whatever_the_clock_says(job: str) -> None:
    world, off = World(), [0]

    def back(ctx: Context, payload: object) -> None:
        off[0] = -YEAR
        if job != "back":
            raise ValueError(job)

    for name in ("back", "spent"):
        world.jobs.job(name, retry=Retry(max_attempts=1))(back)
    world.during = lambda ctx: back(ctx, None)
    hand = Hand(worker=make_worker(world.services, world.jobs, lambda: world.clock() + off[0], wait=world.wait))
    began, run = world.clock(), world.scheduler.submit(job)
    hand.work()
    assert off == [-YEAR]
    row = world.memory.row(parse_run_id(run.id))
    assert row is not None
    attempts = world.services.siblings.attempts(world.memory.runs()[0].ref)
    assert all(attempt.ended_at >= attempt.started_at >= began for attempt in attempts)
    if job == "bad":
        assert row["not_before"] >= began
        return
    assert row["ended_at"] >= row["started_at"] >= began
    assert row["ttl"] * 1_000 >= began + world.retention - 1_000


def test_what_stood_in_for_the_wall_clock_at_the_import_is_not_asked_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package is imported when a name of it is first used: perhaps while a test has frozen the time."""
    spec = find_spec("quarterjack.clock")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    with monkeypatch.context() as frozen:
        frozen.setattr(time, "time_ns", lambda: NOON * MS)
        spec.loader.exec_module(module)
    asked: list[int] = []

    def later() -> int:
        asked.append(1)
        return (NOON + YEAR) * MS

    monkeypatch.setattr(time, "time_ns", later)
    module.system_clock()
    assert asked
