"""A ticker that hands groups of shards over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from quarterjack.ports.services import Services
from quarterjack.testing import Hook
from quarterjack.ticker.fan_out import FanOutConfig, group_of
from quarterjack.ticker.tick import TickReport

from tests.support.scenes.far import far
from tests.support.scenes.world import World

SHARDS, SCHEDULES = 8, 64


class Fan:
    """A world with schedules that are all due soon, and a Lambda that takes events."""

    def __init__(self, *, alone: int = 10, groups: int = 4, accepts: bool = True) -> None:
        self.world = World(shards=SHARDS)
        for number in range(SCHEDULES):
            far(self.world, f"s{number}", "3 12 * * *")
        self.events: list[Mapping[str, Any]] = []
        self.accepts = accepts
        self.spread = FanOutConfig(groups=groups, alone=alone, hand_over=self.hand_over)

    def hand_over(self, event: Mapping[str, Any]) -> bool:
        self.events.append(event)
        return self.accepts

    def tick(self, services: Services | None = None, **options: Any) -> TickReport:
        return self.world.tick(services, spread=self.spread, **options)

    def waiting(self, hook: Hook | None = None) -> Services:
        """The services of a process that waits for their answers, so that threads are worth it."""
        self.spread.stats.record_wait(0.01)
        return self.world.process(hook, stats=self.spread.stats)

    def group(self, number: int, services: Services | None = None) -> TickReport:
        """Another invocation takes one of the events."""
        spread = replace(self.spread, only=group_of(self.events[number]), hand_over=None)
        return self.world.tick(services, holder=f"group {number}", spread=spread)

    def claimed(self) -> int:
        return len(self.world.fires(None))
