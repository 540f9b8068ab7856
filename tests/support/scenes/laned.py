"""Jobs in a queue with lanes, over a harness."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from quarterjack import Context, Registry, Retry, Scheduler
from quarterjack.domain.policies import Priority
from quarterjack.sqs.stripes import Stripe
from quarterjack.testing import Harness

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)


class LanedScene:
    """Jobs of each priority in a queue with lanes."""

    def __init__(self) -> None:
        self.jobs, self.ran = Registry(), list[Any]()
        self.jobs.queue("laned", priorities=True)

        def note(ctx: Context, payload: Any) -> None:
            self.ran.append(payload)

        self.jobs.job("note", queue="laned")(note)
        self.jobs.job("urgent", queue="laned", priority="high")(note)
        self.jobs.job("idle", queue="laned", priority="low")(note)
        self.jobs.job("plain")(note)
        self.jobs.job("flaky", queue="laned", priority="low", retry=Retry(base=60, jitter=0))(self._fail)
        self.harness = Harness(self.jobs, at=NOON)
        self.scheduler: Scheduler = self.harness.scheduler

    def _fail(self, ctx: Context, payload: Any) -> None:
        if ctx.attempt == 1:
            raise ConnectionError("again")
        self.ran.append(payload)

    def lanes(self) -> dict[str, int]:
        """How many messages there are in each lane of the queue."""
        found = {str(lane): len(self.harness.memory.stripes[Stripe("laned", 0, lane)]) for lane in Priority}
        return {lane: number for lane, number in found.items() if number}

    def policies(self, name: str) -> dict[str, Any]:
        """Of a schedule's present revision."""
        return dict(self.scheduler.describe_schedule(name).definition.policies)

    def limit(self, highest: str | None) -> None:
        self.harness.tenants.set("default", limits={"highest_priority": highest})
