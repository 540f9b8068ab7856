"""The auditor: once an hour it proves the invariants on live data, and repairs."""

from __future__ import annotations

from aws_cdk import Duration
from constructs import Construct

from .clock import EVENT_AGE, Clock
from .function import Function
from .installation import Installation
from .queues import Queues
from .store import BATCH, DELETE, PARTIQL, READ, SCAN, WRITE, Store

MEMORY = 1769  # MB: one whole core
MINUTE = "37"  # past the hour, when the burst of the full hour is over
TIMEOUT = Duration.minutes(15)  # what Lambda allows


class Auditor(Construct):
    """The function and the clock that calls it."""

    def __init__(
        self, scope: Construct, name: str, *, installation: Installation, store: Store, queues: Queues
    ) -> None:
        super().__init__(scope, name)
        self.function = Function(
            self,
            "auditor",
            installation=installation,
            description="Minutehand: proves that nothing is lost, and repairs",
            memory=MEMORY,
            timeout=TIMEOUT,
            max_event_age=EVENT_AGE,
            retry_attempts=0,
        )
        store.allow(self.function, "schedules", READ, SCAN)
        store.allow(self.function, "revisions", READ)
        store.allow(self.function, "agenda", READ, WRITE, BATCH, DELETE)
        store.allow(self.function, "runs", READ, WRITE, PARTIQL, SCAN)
        store.allow_key(self.function)
        queues.allow_send(self.function)
        Clock(self, "Hourly", function=self.function, minute=MINUTE)
