"""The undertaker: records the messages of the dead-letter queue in the ledger."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lambda_event_sources as sources
from constructs import Construct
from quarterjack.errors import InvalidInput

from ..installation import InstallationSettings
from ..storage.queues import InstallationQueues
from ..storage.store import PARTIQL, READ, WRITE, InstallationStore
from .function import InstallationFunction

MESSAGES = 10  # in a batch; the maximum of SQS without a window
MEMORY = 512  # MB
MOST_FUNCTIONS = 10  # after an outage thousands of letters may wait, and the ticker needs functions as well
LEAST_RESERVED = 2  # the minimum of an event source's maximum concurrency, which must not be over the reservation
TIMEOUT = Duration.seconds(60)  # a sixth of the queue's visibility, as AWS advises


class UndertakerFunction(Construct):
    """The function on the dead-letter queue."""

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        installation: InstallationSettings,
        store: InstallationStore,
        queues: InstallationQueues,
        reserved: int | None = None,
    ) -> None:
        super().__init__(scope, name)
        self.function = InstallationFunction(
            self,
            "undertaker",
            installation=installation,
            description="Quarterjack: records dead runs",
            memory=MEMORY,
            timeout=TIMEOUT,
            reserved=_reserved(reserved),
            recursive_loop=lambda_.RecursiveLoop.ALLOW,  # it sends runs with attempts left back, at most three times
        )
        self.function.add_event_source(
            sources.SqsEventSource(
                queues.dead,
                batch_size=MESSAGES,
                report_batch_item_failures=True,
                max_concurrency=reserved or MOST_FUNCTIONS,
            )
        )
        store.allow(self.function, "runs", READ, WRITE, PARTIQL)
        store.allow(self.function, "revisions", READ, ("dynamodb:UpdateItem",))  # it records failures on the schedule,
        store.allow(self.function, "schedules", ("dynamodb:GetItem", "dynamodb:UpdateItem"))  # and may pause it
        store.allow(self.function, "agenda", ("dynamodb:GetItem", "dynamodb:PutItem"))  # GetItem: weights of tenants
        store.allow_audit_entries(self.function)
        store.allow_key(self.function)
        queues.allow_send(self.function)


def _reserved(functions: int | None) -> int | None:
    if functions is not None and functions < LEAST_RESERVED:
        remedy = f"use at least {LEAST_RESERVED}, or None"
        raise InvalidInput(
            "undertaker_reserved", functions, "is less than what an event source can be limited to", remedy
        )
    return functions
