"""The historian: the function on the stream of the table of runs. Nothing of it is made where the history is off."""

from __future__ import annotations

from typing import Any

from aws_cdk import Duration
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lambda_event_sources as sources
from aws_cdk import aws_sqs as sqs
from constructs import Construct
from quarterjack.historian.progress import OWNER

from ..acknowledge import acknowledge
from ..installation import InstallationSettings
from ..storage.store import BATCH, InstallationStore
from .function import InstallationFunction

MOST = 1_000  # changes at the most; Lambda cuts a batch off at 6 MB
WINDOW = Duration.seconds(
    10
)  # for which changes are collected: a new table has four shards, and pages of 20 runs cost a twentieth
MEMORY = 512  # MB
TIMEOUT = Duration.minutes(2)
# Of a batch that fails. Each takes a minute or more where a service does not answer, because the function itself waits: an outage of
# half a day sets nothing aside. A change that kills the function is found by halving, and holds its shard up for minutes.
RETRIES = 600
ASIDE = "historian-aside"  # the queue with what Lambda gave up: where in the stream it is, not the changes themselves
RETENTION = Duration.days(14)
# Keys of runs begin with their instant or are the one of a one-off. Records and what is beside a run's row are not worth an invocation.
FILTER: dict[str, Any] = {
    "dynamodb": {"Keys": {"key": {"S": [*({"prefix": str(digit)} for digit in range(10)), "once"]}}}
}


class HistorianFunction(Construct):
    """The function, its event source, and the queue of batches that it could not handle."""

    def __init__(
        self, scope: Construct, name: str, *, installation: InstallationSettings, store: InstallationStore
    ) -> None:
        super().__init__(scope, name)
        self.aside = _aside(self, installation)
        self.function = InstallationFunction(
            self,
            "historian",
            installation=installation,
            description="Quarterjack: writes the history of runs",
            memory=MEMORY,
            timeout=TIMEOUT,
            environment={"QUARTERJACK_BUCKET": store.bucket.bucket_name, **store.archive_environment},
        )
        self.function.add_event_source(
            sources.DynamoEventSource(
                store.tables["runs"],
                starting_position=lambda_.StartingPosition.TRIM_HORIZON,
                batch_size=MOST,
                max_batching_window=WINDOW,
                parallelization_factor=1,  # the changes of a run in their order
                bisect_batch_on_error=True,
                retry_attempts=RETRIES,
                on_failure=sources.SqsDlq(self.aside),
                filters=[lambda_.FilterCriteria.filter(FILTER)],
            )
        )
        store.allow(self.function, "runs", ("dynamodb:PutItem",), keys=(OWNER,))  # records changes that it sets aside
        store.allow(self.function, "history", ("dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"), BATCH)
        store.allow(self.function, "schedules", ("dynamodb:BatchGetItem", "dynamodb:GetItem"))  # their tags
        store.allow_gone(self.function)
        store.allow_archiving(self.function)
        store.allow_key(self.function)


def _aside(scope: Construct, installation: InstallationSettings) -> sqs.Queue:
    key = installation.encryption_key
    queue = sqs.Queue(
        scope,
        "Aside",
        queue_name=installation.name(ASIDE),
        retention_period=RETENTION,
        encryption=sqs.QueueEncryption.KMS if key else sqs.QueueEncryption.SQS_MANAGED,
        encryption_master_key=key,
        enforce_ssl=True,
    )
    acknowledge(queue, "AwsSolutions-SQS3", "it is where failed batches go, so it has no dead-letter queue of its own")
    return queue
