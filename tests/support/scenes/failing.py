"""A tenant with circuit breakers whose job fails, four workers and two tickers."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

from quarterjack import Context, Retry, Tenants
from quarterjack.domain.history.outgoing_event import OutgoingEvent
from quarterjack.domain.times import MINUTE
from quarterjack.fires.breakers import read_breakers
from quarterjack.historian.deliver import StreamReader
from quarterjack.historian.follow import StreamFollower
from quarterjack.testing.memory.peripherals import MemoryEvents
from quarterjack.testing.process import Hand, bury_all
from quarterjack.worker.stages import Outcome

from tests.support.scenes.world import NOON, World


@dataclass
class Failing(World):
    """A tenant whose job ``shaky`` fails while ``broken`` is set; several workers share its messages, and two tickers tick."""

    schedules: int = 60
    broken: bool = True
    limits: dict[str, Any] = field(default_factory=lambda: {"breaker_percent": 90})
    options: dict[str, Any] = field(default_factory=dict)
    done: list[Outcome] = field(default_factory=list)  # of all messages
    attempts: list[tuple[int, str]] = field(default_factory=list)  # UTC ms and job of each attempt

    def __post_init__(self) -> None:
        super().__post_init__()
        self.tenants = Tenants(services=self.services, clock=self.clock)
        self.tenants.set("acme", limits=self.limits)
        self.jobs.job("shaky", retry=Retry(max_attempts=1))(self._shaky)
        self.jobs.job("sound")(self._sound)
        self.receiver = MemoryEvents()
        publishing = replace(self.memory.connect(), events=self.receiver)
        self.publisher = StreamFollower(publishing, self.clock, StreamReader.EVENTS)
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
            while outcomes := [one for _ in self.hands for one in next(turns).work(most=3)]:
                self.done += outcomes
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

    def follow(self) -> list[OutgoingEvent]:
        """Publish what the stream has; the events about breakers since the beginning."""
        while self.publisher.poll().has_more:
            pass
        return [event for event in self.receiver.taken if event.type.startswith("breaker.")]

    def by_minute(self, since: int, job: str = "shaky") -> list[int]:
        """Attempts of a job in each minute from an instant (UTC ms) on."""
        count = Counter((at - since) // MINUTE for at, of in self.attempts if at >= since and of == job)
        return [count[minute] for minute in range((self.clock() - since) // MINUTE)]
