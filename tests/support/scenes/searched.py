"""An installation in memory whose history a test brings up to date: for searches of runs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from quarterjack import Context, Registry, Retry, Scheduler
from quarterjack.domain.history.run_change import RunChange
from quarterjack.domain.run import RunState
from quarterjack.historian.context import HistorianContext
from quarterjack.historian.pages import write_pages
from quarterjack.settings import Settings
from quarterjack.testing import ManualClock, Memory
from quarterjack.testing.process import Hand, make_worker
from quarterjack.ticker.tick import tick

START = datetime(2036, 5, 4, 12, 0, tzinfo=UTC)


def jobs() -> Registry:
    known = Registry()

    @known.job("works")
    def works(ctx: Context, payload: object) -> None: ...

    @known.job("fails", retry=Retry(max_attempts=1))
    def fails(ctx: Context, payload: object) -> None:
        raise ValueError("boom")

    @known.job("retries", retry=Retry(max_attempts=9, base=5_000.0, cap=5_000.0))
    def retries(ctx: Context, payload: object) -> None:
        raise OSError("not yet")

    return known


class World:
    """An installation in memory, its history as far behind as its stream was read."""

    def __init__(self) -> None:
        self.clock = ManualClock(START)
        self.memory = Memory(self.clock, queues=["bulk"])
        self.services = self.memory.connect()
        self.jobs = jobs()
        self.owner = self.of("acme")
        self._places: dict[str, str | None] = {}

    def of(self, tenant: str, **settings: Any) -> Scheduler:
        return Scheduler(
            tenant, settings=Settings(**settings), services=self.services, clock=self.clock, jobs=self.jobs
        )

    def live(self, minutes: int = 1) -> None:
        """Ticks and work for some minutes, then the historian."""
        for _ in range(minutes):
            tick(self.services, clock=self.clock, holder="ticker")
            self.clock.advance(timedelta(minutes=1))
            hand = Hand(worker=make_worker(self.services, self.jobs, self.clock, wait=lambda s: None), together=True)
            while hand.work():
                pass
        self.catch_up()

    def catch_up(self) -> None:
        for shard in self.services.stream.shards():
            changes: list[RunChange] = []
            while True:
                page = self.services.stream.read(shard.id, self._places.get(shard.id))
                self._places[shard.id] = page.position
                changes += page.changes
                if not page.has_more:
                    break
            write_pages(changes, HistorianContext(services=self.services, now=self.clock(), batch=shard.id))

    def found(self, **conditions: Any) -> list[tuple[str | None, str, RunState]]:
        return [(run.schedule, run.job, run.state) for run in self.owner.list_runs(**conditions).items]


def parts(owner: Scheduler, limit: int, **conditions: Any) -> Sequence[str]:
    found: list[str] = []
    cursor = None
    for _ in range(200):
        page = owner.list_runs(limit=limit, cursor=cursor, **conditions)
        assert len(page.items) <= limit
        found += [run.id for run in page.items]
        cursor = page.cursor
        if cursor is None:
            return found
    raise AssertionError("the listing does not end")
