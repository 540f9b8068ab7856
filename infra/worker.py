"""The worker: takes the lease, runs the user's job, settles the outcome."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aws_cdk import Duration
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lambda_event_sources as sources
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct
from minutehand.errors import InvalidInput
from minutehand.queue.definitions import WORK

from .function import Function
from .installation import Installation
from .jobs import JobPackage
from .queues import Queues
from .store import BATCH, PARTIQL, PAYLOADS, READ, RESULTS, WRITE, Store

MESSAGES = 10  # in a batch; SQS gives no more without a window


class Worker(Construct):
    """The function on the work queue, with the user's jobs in it."""

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        installation: Installation,
        store: Store,
        queues: Queues,
        jobs: JobPackage,
        memory: int,
        timeout: Duration,
        environment: Mapping[str, str] | None,
        secrets: Mapping[str, secretsmanager.ISecret] | None,
        layers: Sequence[lambda_.ILayerVersion],
        vpc: ec2.IVpc | None,
        vpc_subnets: ec2.SubnetSelection | None,
        security_groups: Sequence[ec2.ISecurityGroup] | None,
        max_concurrency: int | None,
    ) -> None:
        super().__init__(scope, name)
        if timeout.to_seconds() > WORK.visibility:
            raise InvalidInput(
                "timeout", timeout.to_seconds(), "outlasts a message", f"use at most {WORK.visibility} s"
            )
        self.function = Function(
            self,
            "worker",
            installation=installation,
            description=f"Minutehand: runs the jobs of {jobs.name}",
            memory=memory,
            timeout=timeout,
            jobs=jobs,
            environment={
                **_checked(environment or {}),
                **{variable: secret.secret_arn for variable, secret in (secrets or {}).items()},
                "MINUTEHAND_JOBS": jobs.name,
                "MINUTEHAND_BUCKET": store.bucket.bucket_name,
            },
            layers=layers,
            vpc=vpc,
            vpc_subnets=vpc_subnets,
            security_groups=security_groups,
            recursive_loop=lambda_.RecursiveLoop.ALLOW,  # it sends a retry to its own queue; attempts are bounded
        )
        self.function.add_event_source(
            sources.SqsEventSource(
                queues.work, batch_size=MESSAGES, report_batch_item_failures=True, max_concurrency=max_concurrency
            )
        )
        allow_work(self.function, store, queues)
        for secret in (secrets or {}).values():
            secret.grant_read(self.function)


def allow_work(grantee: iam.IGrantable, store: Store, queues: Queues) -> None:
    """All that a worker does, in the function or in a container: it cannot change a schedule."""
    store.allow(grantee, "runs", READ, WRITE, PARTIQL)
    store.allow(grantee, "revisions", READ)
    store.allow(grantee, "agenda", ("dynamodb:GetItem",), WRITE, BATCH)
    store.allow_objects(grantee, "s3:GetObject", PAYLOADS)
    store.allow_objects(grantee, "s3:GetObject", RESULTS)  # its own checkpoints
    store.allow_objects(grantee, "s3:PutObject", RESULTS)
    store.allow_key(grantee)
    queues.work.grant_consume_messages(grantee)
    queues.work.grant_send_messages(grantee)
    queues.dead.grant_send_messages(grantee)


def _checked(environment: Mapping[str, str]) -> Mapping[str, str]:
    """The user's variables; those of Minutehand are not theirs to set."""
    taken = sorted(name for name in environment if name.startswith("MINUTEHAND_"))
    if taken:
        raise InvalidInput(
            "environment", taken[0], "is set by the construct", "leave it out; use the construct's own knobs"
        )
    return environment
