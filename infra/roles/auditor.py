"""The auditor: once an hour it checks the invariants on live data, and repairs violations."""

from __future__ import annotations

from aws_cdk import Duration
from constructs import Construct

from ..installation import InstallationSettings
from ..storage.queues import InstallationQueues
from ..storage.store import BATCH, DELETE, OWN_PAYLOADS, PARTIQL, READ, SCAN, WRITE, InstallationStore
from .clock import EVENT_AGE, FunctionClock
from .function import InstallationFunction

MEMORY = 1769  # MB: one whole core
MINUTE = "37"  # past the hour, after the burst of the full hour
TIMEOUT = Duration.minutes(15)  # the maximum of Lambda


class AuditorFunction(Construct):
    """The function and its clock."""

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        installation: InstallationSettings,
        store: InstallationStore,
        queues: InstallationQueues,
    ) -> None:
        super().__init__(scope, name)
        self.function = InstallationFunction(
            self,
            "auditor",
            installation=installation,
            description="Quarterjack: checks that nothing is lost, and repairs",
            memory=MEMORY,
            timeout=TIMEOUT,
            max_event_age=EVENT_AGE,
            retry_attempts=0,
            environment={"QUARTERJACK_BUCKET": store.bucket.bucket_name, **store.archive_environment},
        )
        store.allow(self.function, "schedules", READ, WRITE, SCAN)
        store.allow(self.function, "revisions", READ, WRITE, DELETE)
        store.allow(self.function, "tenants", ("dynamodb:BatchGetItem",))  # runs of suspended ones are not sent again
        store.allow(self.function, "agenda", READ, WRITE, BATCH, DELETE)
        store.allow(self.function, "runs", READ, WRITE, PARTIQL, SCAN)
        store.allow(self.function, "history", READ, WRITE, BATCH, DELETE)
        store.allow_closing(self.function)
        store.allow_removal(self.function, *OWN_PAYLOADS)
        store.allow_compacting(self.function)
        store.allow_key(self.function)
        queues.allow_send(self.function)
        FunctionClock(self, "Hourly", function=self.function, minute=MINUTE)
