"""A tenant's circuit breakers: jobs that fail are held but for probes, and come back by a ramp; others go on."""

from __future__ import annotations

import itertools
import logging
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest
from minutehand import Context, Retry, Scheduler, Tenants
from minutehand.domain.run import RunState
from minutehand.domain.times import MINUTE, SECOND
from minutehand.fires.breakers import INDEX, read_breakers
from minutehand.state.breaker import ALL
from minutehand.testing.process import Hand, bury_all

from tests.support.scenes.world import NOON, Faults, World, fails


@dataclass
class Failing(World):
    """A tenant whose job ``shaky`` fails while ``broken`` is set; several workers share its messages, and two tickers tick."""

    schedules: int = 60
    broken: bool = True
    limits: dict[str, Any] = field(default_factory=lambda: {"breaker_percent": 90})
    options: dict[str, Any] = field(default_factory=dict)
    attempts: list[tuple[int, str]] = field(default_factory=list)  # UTC ms and job of each attempt

    def __post_init__(self) -> None:
        super().__post_init__()
        self.tenants = Tenants(services=self.services, clock=self.clock)
        self.tenants.set("acme", limits=self.limits)
        self.jobs.job("shaky", retry=Retry(max_attempts=1))(self._shaky)
        self.jobs.job("sound")(self._sound)
        self.hands = [Hand(worker=self.worker(name=f"w{n}")) for n in range(4)]
        for n in range(self.schedules):
            self.scheduler.create_schedule(f"s{n}", "shaky", "* * * * *", **self.options)

    def _shaky(self, ctx: Context, payload: object) -> None:
        self.note(ctx, payload)
        self.attempts.append((self.clock(), "shaky"))
        if self.broken:
            raise ConnectionError

    def _sound(self, ctx: Context, payload: object) -> None:
        self.note(ctx, payload)
        self.attempts.append((self.clock(), "sound"))

    def minutes(self, number: int, *, tickers: int = 2) -> None:
        """Time passes: ticks at whole minutes, the workers in turn at each second at which something is visible."""
        end = self.clock() + number * MINUTE
        while True:
            if (self.clock() - NOON) % MINUTE == 0:
                for n in range(tickers):
                    self.tick(holder=f"ticker {n}")
            turns = itertools.cycle(self.hands)
            while any(next(turns).work(most=3) for _ in self.hands):
                pass
            for hand in self.hands:
                hand.worker.breakers.flush(hand.worker.services, self.clock())
            bury_all(self.services, self.clock)
            upcoming = self._next_second()
            if upcoming >= end:
                self.reach(end)
                return
            self.reach(upcoming)

    def open(self) -> list[str]:
        return read_breakers("acme", self.services)[0].open

    def by_minute(self, since: int, job: str = "shaky") -> list[int]:
        """Attempts of a job in each minute from an instant (UTC ms) on."""
        count = Counter((at - since) // MINUTE for at, of in self.attempts if at >= since and of == job)
        return [count[minute] for minute in range((self.clock() - since) // MINUTE)]


def said(caplog: pytest.LogCaptureFixture, event: str) -> list[logging.LogRecord]:
    return [line for line in caplog.records if line.getMessage() == event]


@pytest.mark.parametrize("hours", [1, pytest.param(6, marks=pytest.mark.check)])
def test_a_job_that_fails_for_hours_is_probed_once_a_minute_and_comes_back_by_the_ramp(
    hours: int, caplog: pytest.LogCaptureFixture
) -> None:
    world = Failing(options={"catch_up": "all", "catch_up_window": 7 * 3600})
    began = world.clock()
    with caplog.at_level(logging.WARNING):
        world.minutes(6)
    assert world.open() == [ALL, "shaky"]
    opened = read_breakers("acme", world.services)[0].jobs["shaky"].opened_at or 0
    assert opened - began <= 6 * MINUTE, "within the minute after the fifth bad one"
    assert [line.job for line in said(caplog, "breaker.opened")] == [ALL, "shaky"]  # type: ignore[attr-defined]
    world.minutes(1)
    held = world.clock()
    messages = len(world.memory.messages())
    world.minutes(hours * 60)
    assert max(world.by_minute(held)) <= 1, "at most one probe a minute, by four workers and two tickers"
    assert sum(world.by_minute(held)) >= hours * 60 * 0.4
    assert len(world.memory.messages()) <= messages + 10, "fires wait in the agenda, not in the queue"
    world.broken = False
    well = world.clock()
    world.minutes(45)
    ramp = world.by_minute(well)
    print(sum(world.by_minute(held)), len(world.memory.messages()), opened - began, ramp)
    assert ramp[0] <= 2
    rising = list(itertools.takewhile(lambda pair: pair[1] < 60, itertools.pairwise(ramp)))
    assert all(after <= 2 * max(before, 1) + 2 for before, after in rising), ramp
    assert world.open() == []
    assert list(world.services.records.listed(INDEX, "~open~")) == [] or world.tick() and True
    world.minutes(15)
    for n in range(world.schedules):
        runs = world.memory.runs(f"acme/s{n}")
        assert [(run.due - NOON) // MINUTE for run in runs if run.due <= world.clock()] == list(
            range(1, 1 + sum(run.due <= world.clock() for run in runs))
        ), "none is lost"
        assert {run.state for run in runs if well < run.due <= world.clock() - MINUTE} == {RunState.SUCCEEDED}
    starts = Counter((start.run_id, start.attempt) for start in world.started)
    assert max(starts.values()) == 1
