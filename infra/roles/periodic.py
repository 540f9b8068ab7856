"""The functions that a clock calls: the ticker every minute, the auditor every hour."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import ArnFormat, Duration, Stack
from aws_cdk import aws_iam as iam
from constructs import Construct
from quarterjack.errors import InvalidInput
from quarterjack.settings import (
    DEFAULT_AGE,
    DEFAULT_DEPTH,
    DEFAULT_TICKER_GROUPS,
    DEFAULT_TICKER_WRITES,
    IN_FLIGHT,
    LEAST_TICKER_WRITES,
    MOST_AGE,
    MOST_TICKER_GROUPS,
)

from ..installation import InstallationSettings
from ..storage.queues import InstallationQueues
from ..storage.store import BATCH, DELETE, OWN_PAYLOADS, PARTIQL, READ, SCAN, WRITE, InstallationStore
from .function import ALIAS, EVENT_AGE, FunctionClock, InstallationFunction, live_alias

TICKER_MEMORY = 1769  # MB: one whole core, for a tick over many fires
TICKER_TIMEOUT = Duration.minutes(2)  # a tick stops before it; remaining entries stay for the next tick

QUEUE_AGE = Duration.seconds(DEFAULT_AGE)


class TickerFunction(Construct):
    """The function and its clock."""

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        installation: InstallationSettings,
        store: InstallationStore,
        queues: InstallationQueues,
        notice_topics: Sequence[str] = (),
        groups: int = DEFAULT_TICKER_GROUPS,
        writes: int = DEFAULT_TICKER_WRITES,
        reserved: int | None = None,
        queue_depth: int = DEFAULT_DEPTH,
        queue_age: Duration = QUEUE_AGE,
        canary: bool = False,
    ) -> None:
        super().__init__(scope, name)
        self.function = InstallationFunction(
            self,
            "ticker",
            installation=installation,
            description="Quarterjack: claims the fires that are due and sends them to the workers",
            memory=TICKER_MEMORY,
            timeout=TICKER_TIMEOUT,
            max_event_age=EVENT_AGE,
            retry_attempts=0,
            reserved=_reserved(reserved, groups),
            environment={**_width(groups, writes), **_limits(queue_depth, queue_age)},
        )
        store.allow(self.function, "agenda", READ, WRITE, BATCH, DELETE)
        store.allow(self.function, "revisions", READ, WRITE)  # the end of a timed pause makes a revision
        store.allow(self.function, "tenants", ("dynamodb:BatchGetItem",))  # whether those are suspended whose runs wait
        store.allow(self.function, "runs", READ, WRITE, PARTIQL)
        store.allow(self.function, "schedules", ("dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"))
        store.allow_audit_entries(self.function)  # of ends: of timed pauses, and of schedules without a further fire
        store.allow_key(self.function)
        self._allow_itself(installation.name("ticker") + (f":{ALIAS}" if canary else ""))
        queues.allow_send(self.function)
        queues.allow_list(self.function)  # what waits in each, once in five minutes
        queues.dead.grant_send_messages(self.function)  # it reports LOST runs
        if notice_topics:
            iam.Grant.add_to_principal(
                grantee=self.function, actions=["sns:Publish"], resource_arns=list(notice_topics)
            )
        self.alias = None
        if canary:
            self.alias = live_alias(self, self.function, max_event_age=EVENT_AGE, retry_attempts=0)
        FunctionClock(self, "EveryMinute", function=self.function, alias=self.alias, minute="*")

    def _allow_itself(self, name: str) -> None:
        """Let it invoke itself, for groups of shards, as it is invoked: by its name, or its alias.

        Not by a reference: the function depends on its role's policies, which cannot depend on it.
        """
        arn = Stack.of(self).format_arn(
            service="lambda",
            resource="function",
            resource_name=name,
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )
        iam.Grant.add_to_principal(grantee=self.function, actions=["lambda:InvokeFunction"], resource_arns=[arn])


def _reserved(functions: int | None, groups: int) -> int | None:
    """The reservation, which is a maximum as well: fewer would throttle a tick's own invocations."""
    if functions is not None and functions <= groups:
        remedy = f"use at least {groups + 1}, or fewer ticker_groups, or None"
        raise InvalidInput("ticker_reserved", functions, f"is less than a tick and its {groups} invocations", remedy)
    return functions


def _width(groups: int, writes: int) -> dict[str, str]:
    """The variables that limit a tick's invocations and writes."""
    if not 1 <= groups <= MOST_TICKER_GROUPS:
        raise InvalidInput("ticker_groups", groups, "is out of range", f"use 1 to {MOST_TICKER_GROUPS}")
    if writes and writes < LEAST_TICKER_WRITES:
        remedy = f"use at least {LEAST_TICKER_WRITES:,} units a second, or 0 for no bound"
        raise InvalidInput("ticker_writes", writes, "is out of range", remedy)
    return {"QUARTERJACK_TICKER_GROUPS": str(groups), "QUARTERJACK_TICKER_WRITES": str(writes)}


def _limits(depth: int, age: Duration) -> dict[str, str]:
    """The variables that say when the ticker holds a queue back."""
    if not 0 <= depth <= IN_FLIGHT:
        raise InvalidInput(
            "queue_depth", depth, "is out of range", f"use 1 to {IN_FLIGHT:,} messages, or 0 to hold none back"
        )
    if not 1 <= age.to_seconds() <= MOST_AGE:
        raise InvalidInput("queue_age", age.to_seconds(), "is out of range", f"use 1 to {MOST_AGE:,} seconds")
    return {"QUARTERJACK_QUEUE_DEPTH": str(depth), "QUARTERJACK_QUEUE_AGE": str(int(age.to_seconds()))}


AUDITOR_MEMORY = 1769  # MB: one whole core
AUDITOR_MINUTE = "37"  # past the hour, after the burst of the full hour
AUDITOR_TIMEOUT = Duration.minutes(15)  # the maximum of Lambda


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
            memory=AUDITOR_MEMORY,
            timeout=AUDITOR_TIMEOUT,
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
        FunctionClock(self, "Hourly", function=self.function, minute=AUDITOR_MINUTE)
