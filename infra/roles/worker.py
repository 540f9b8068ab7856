"""The worker: takes the lease, runs the user's job, settles the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aws_cdk import Duration
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lambda_event_sources as sources
from aws_cdk import aws_secretsmanager as secretsmanager
from aws_cdk import aws_sqs as sqs
from constructs import Construct
from quarterjack.domain.names import check_whole
from quarterjack.domain.policies import Priority
from quarterjack.domain.queue import (
    BATCH,
    LEAST_RUNS,
    MOST_PROVISIONED,
    Queue,
    check_lanes,
    check_pollers,
    check_shared,
    least_functions,
    shared_out,
)
from quarterjack.errors import InvalidInput
from quarterjack.sqs.routing import WORK
from quarterjack.values import replace

from ..installation import InstallationSettings
from ..packaging.jobs import JobPackage
from ..storage.queues import InstallationQueues, worker_part
from ..storage.store import BATCH as BATCH_WRITES
from ..storage.store import PARTIQL, PAYLOADS, READ, RESULTS, WRITE, InstallationStore
from .function import InstallationFunction, live_alias

_MOST_FUNCTIONS = 1_000  # the largest maximum concurrency of an event source
_GROWS_TO = 200  # Lambda's default maximum of an event source's pollers
# Functions at the same time, where neither a number nor pollers are given. AWS gives an account 1,000: half of them leaves room for the
# ticker's 17 and for other applications, and 1,000 fires a second took 290 in the model of bench/. A declared queue takes a tenth.
DEFAULT_CONCURRENCY, DECLARED_CONCURRENCY = 500, 100


@dataclass(frozen=True, kw_only=True)
class WorkerSize:
    """Memory, time limit and concurrency of one worker function."""

    memory: int  # MB
    timeout: Duration  # at most the visibility of its queue
    batch: int = BATCH  # messages at once
    max_concurrency: int | None  # concurrent functions of each stripe, of all its lanes; None: the account's limit
    pollers: int | None = None  # kept for each stripe; None: standard polling
    most_pollers: int | None = None  # maximum of each stripe
    provisioned: int = 0  # functions that are always started
    reach: str = ""  # end of its description

    def __post_init__(self) -> None:
        if self.timeout.to_seconds() > WORK.visibility:
            raise InvalidInput(
                "timeout", self.timeout.to_seconds(), "outlasts a message", f"use at most {WORK.visibility} s"
            )

    @classmethod
    def of_default(
        cls,
        *,
        memory: int,
        timeout: Duration,
        max_concurrency: int | None,
        pollers: int | None,
        most_pollers: int | None,
        stripes: int,
        priorities: bool = False,
        provisioned: int = 0,
    ) -> WorkerSize:
        """The size for the default queue, whose stripes and lanes share ``max_concurrency``; 0 is no limit, None the default."""
        check_pollers(pollers, most_pollers, concurrency=max_concurrency or None, limit="max_concurrency")
        check_whole("provisioned_concurrency", provisioned, 0, MOST_PROVISIONED)
        if max_concurrency:
            check_whole("max_concurrency", max_concurrency, LEAST_RUNS, _MOST_FUNCTIONS)
            check_shared("max_concurrency", max_concurrency, stripes, priorities=priorities)
        check_lanes(pollers, priorities=priorities)
        if priorities and max_concurrency == 0:
            remedy = f"leave it out: that is {DEFAULT_CONCURRENCY}; or leave out priorities"
            raise InvalidInput("max_concurrency", 0, "leaves the lanes nothing that they could share", remedy)
        least = least_functions(priorities=priorities)
        limit = None if max_concurrency == 0 else _default_limit(DEFAULT_CONCURRENCY, stripes, pollers, least)
        return cls(
            memory=memory,
            timeout=timeout,
            max_concurrency=max_concurrency // stripes if max_concurrency else limit,
            pollers=pollers,
            most_pollers=most_pollers,
            provisioned=provisioned,
        )

    @classmethod
    def of(cls, queue: Queue) -> WorkerSize:
        """The size that a declared queue asks for."""
        batch, functions = queue.functions
        least = least_functions(priorities=queue.priorities)
        return cls(
            memory=queue.memory,
            timeout=Duration.seconds(queue.timeout),
            batch=batch,
            max_concurrency=functions or _default_limit(DECLARED_CONCURRENCY, queue.stripes, queue.pollers, least),
            pollers=queue.pollers,
            most_pollers=queue.most_pollers,
            provisioned=queue.provisioned_concurrency,
            reach=f" in queue {queue.name}",
        )

    def of_lane(self, lane: Priority, low_share: int) -> WorkerSize:
        """The size of a lane's event sources: together with the other lanes' they make this one's maximum concurrency."""
        assert self.max_concurrency is not None
        return replace(self, max_concurrency=shared_out(self.max_concurrency, LEAST_RUNS, low_share)[lane])


def _default_limit(functions: int, stripes: int, pollers: int | None, least: int) -> int | None:
    """A stripe's share of the default; provisioned pollers and a maximum concurrency exclude each other."""
    return None if pollers is not None else max(functions // stripes, least)


@dataclass(frozen=True, kw_only=True)
class WorkerSettings:
    """The settings that all worker functions of an installation share, the user's included."""

    installation: InstallationSettings
    store: InstallationStore
    queues: InstallationQueues
    jobs: JobPackage
    environment: Mapping[str, str]
    secrets: Mapping[str, secretsmanager.ISecret]
    layers: Sequence[lambda_.ILayerVersion]
    vpc: ec2.IVpc | None
    vpc_subnets: ec2.SubnetSelection | None
    security_groups: Sequence[ec2.ISecurityGroup] | None
    tenant_secrets: bool
    canary: bool = False  # whether deployments go in steps

    def variables(self, queue: str | None) -> dict[str, str]:
        """The environment of the worker of a queue."""
        own = {} if queue is None else {"QUARTERJACK_WORK_QUEUE": queue}
        return {
            **_checked(self.environment),
            **{variable: secret.secret_arn for variable, secret in self.secrets.items()},
            "QUARTERJACK_JOBS": self.jobs.name,
            "QUARTERJACK_BUCKET": self.store.bucket.bucket_name,
            **own,
        }


class WorkerFunction(Construct):
    """The function on one work queue, with the user's jobs in it.

    All workers have the role of the first one: they run the same jobs, so that they need the same permissions.
    """

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        common: WorkerSettings,
        size: WorkerSize,
        queue: str | None = None,
        role: iam.Role | None,
    ) -> None:
        super().__init__(scope, name)
        self.function = InstallationFunction(
            self,
            "worker",
            name=worker_part(queue),
            installation=common.installation,
            description=f"Quarterjack: runs the jobs of {common.jobs.name}{size.reach}",
            memory=size.memory,
            timeout=size.timeout,
            jobs=common.jobs,
            environment=common.variables(queue),
            layers=common.layers,
            vpc=common.vpc,
            vpc_subnets=common.vpc_subnets,
            security_groups=common.security_groups,
            recursive_loop=lambda_.RecursiveLoop.ALLOW,  # it sends a retry to its own queue; attempts are bounded
            role=role,
        )
        self.alias = None
        if size.provisioned or common.canary:  # Lambda keeps functions started for an alias only
            self.alias = live_alias(self, self.function, provisioned=size.provisioned)
        sqs_queues, low_share = common.queues.lanes_of(queue), common.installation.low_share
        lanes = {stripe.priority for stripe in sqs_queues}
        for stripe, made in sqs_queues.items():
            own = size if len(lanes) == 1 else size.of_lane(stripe.priority, low_share)
            (self.alias or self.function).add_event_source(_source(made, own))
        self.role = role or self._own_role()
        if role is None:
            allow_work(self.function, common.store, common.queues, secrets=common.tenant_secrets)
            for secret in common.secrets.values():
                secret.grant_read(self.function)
        else:
            for variable, text in common.queues.variables.items():
                self.function.add_environment(variable, text)

    def _own_role(self) -> iam.Role:
        role = self.function.role
        assert isinstance(role, iam.Role)
        return role


def _source(stripe: sqs.Queue, size: WorkerSize) -> sources.SqsEventSource:
    """The event source that passes the messages of a stripe to a function."""
    pollers = None
    if size.pollers is not None:
        pollers = lambda_.ProvisionedPollerConfig(
            minimum_pollers=size.pollers, maximum_pollers=size.most_pollers or max(size.pollers, _GROWS_TO)
        )
    return sources.SqsEventSource(
        stripe,
        batch_size=size.batch,
        report_batch_item_failures=True,
        max_concurrency=size.max_concurrency,
        provisioned_poller_config=pollers,
    )


def allow_work(grantee: iam.IGrantable, store: InstallationStore, queues: InstallationQueues, *, secrets: bool) -> None:
    """Allow the calls of a worker, in a function or in a container. It cannot change a schedule, and reads the ``secrets`` of tenants."""
    store.allow(grantee, "runs", READ, WRITE, PARTIQL)
    store.allow(grantee, "revisions", READ)
    store.allow(grantee, "tenants", ("dynamodb:BatchGetItem",))  # their profiles, with the revisions
    store.allow(grantee, "schedules", ("dynamodb:GetItem",))  # whether a triggered or backfilled schedule still exists
    store.allow(grantee, "agenda", ("dynamodb:GetItem",), WRITE, BATCH_WRITES)
    store.allow_reads(grantee, PAYLOADS, RESULTS)  # of the results its own checkpoints
    store.allow_objects(grantee, "s3:PutObject", RESULTS)
    store.allow_key(grantee)
    queues.allow_receive(grantee)
    queues.allow_send(grantee)
    queues.allow_list(grantee)  # whether the queue that a job gives a child exists
    queues.dead.grant_send_messages(grantee)
    if secrets:
        store.allow_secrets(grantee, "ssm:GetParameter")


def _checked(environment: Mapping[str, str]) -> Mapping[str, str]:
    """The user's variables. Raises InvalidInput for a variable of Quarterjack."""
    taken = sorted(name for name in environment if name.startswith("QUARTERJACK_"))
    if taken:
        raise InvalidInput(
            "environment", taken[0], "is set by the construct", "leave it out; use the construct's own knobs"
        )
    return environment
