"""The undertaker: records in the ledger what ended in the dead-letter queue."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lambda_event_sources as sources
from constructs import Construct

from .function import Function
from .installation import Installation
from .queues import Queues
from .store import PARTIQL, READ, WRITE, Store

MESSAGES = 10  # in a batch; SQS gives no more without a window
MEMORY = 512  # MB
TIMEOUT = Duration.seconds(60)  # a sixth of the queue's visibility, as AWS advises


class Undertaker(Construct):
    """The function on the dead-letter queue."""

    def __init__(
        self, scope: Construct, name: str, *, installation: Installation, store: Store, queues: Queues
    ) -> None:
        super().__init__(scope, name)
        self.function = Function(
            self,
            "undertaker",
            installation=installation,
            description="Minutehand: records dead runs",
            memory=MEMORY,
            timeout=TIMEOUT,
            recursive_loop=lambda_.RecursiveLoop.ALLOW,  # it sends back what has attempts left, three times at most
        )
        self.function.add_event_source(
            sources.SqsEventSource(queues.dead, batch_size=MESSAGES, report_batch_item_failures=True)
        )
        store.allow(self.function, "runs", READ, WRITE, PARTIQL)
        store.allow(self.function, "revisions", READ, ("dynamodb:UpdateItem",))  # it notes what fails on the schedule,
        store.allow(self.function, "schedules", ("dynamodb:GetItem", "dynamodb:UpdateItem"))  # and may pause it
        store.allow(self.function, "agenda", ("dynamodb:PutItem",))
        store.allow_key(self.function)
        queues.allow_send(self.function)
