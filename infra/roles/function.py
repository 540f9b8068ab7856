"""The base of all functions: runtime, architecture, role, logs, tracing, environment; and the clock that calls some of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aws_cdk import Aws, Duration, RemovalPolicy, TimeZone
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_scheduler_targets as targets
from constructs import Construct

from ..acknowledge import acknowledge, arn_of
from ..installation import InstallationSettings
from ..packaging.bundling import bundle
from ..packaging.dependencies import RUNTIME, BundleTarget
from ..packaging.jobs import JobPackage

ALIAS = "live"  # of a function that is always started, or that is deployed in steps
NAMESPACE = "Quarterjack"  # of the metrics; their dimension `service` is the function's name


class InstallationFunction(lambda_.Function):
    """A function of the installation, with a role that may write its own logs and traces and nothing else.

    ``part`` is the folder of the handler, ``name`` the function's name without the prefix (default: ``part``). ``role`` is the role of
    another function, to share it. ``target`` (default: the installation's) is what its bundle is made for.
    """

    def __init__(
        self,
        scope: Construct,
        part: str,
        *,
        installation: InstallationSettings,
        name: str | None = None,
        description: str,
        memory: int,
        timeout: Duration,
        jobs: JobPackage | None = None,
        environment: Mapping[str, str] | None = None,
        layers: Sequence[lambda_.ILayerVersion] = (),
        vpc: ec2.IVpc | None = None,
        vpc_subnets: ec2.SubnetSelection | None = None,
        security_groups: Sequence[ec2.ISecurityGroup] | None = None,
        recursive_loop: lambda_.RecursiveLoop | None = None,
        max_event_age: Duration | None = None,
        retry_attempts: int | None = None,
        role: iam.Role | None = None,
        reserved: int | None = None,
        target: BundleTarget | None = None,
    ) -> None:
        name = installation.name(name or part)
        group = logs.LogGroup(
            scope,
            "Logs",
            log_group_name=f"/aws/lambda/{name}",
            retention=installation.log_retention,
            removal_policy=installation.removal_policy,
            encryption_key=installation.encryption_key,
        )
        super().__init__(
            scope,
            "Function",
            function_name=name,
            description=description,
            runtime=RUNTIME,
            architecture=lambda_.Architecture.ARM_64,
            code=bundle(target or installation.target, jobs),
            handler=f"functions/{part}/handler.handler",
            memory_size=memory,
            timeout=timeout,
            role=_role(scope, group, vpc, role),
            log_group=group,
            tracing=lambda_.Tracing.ACTIVE,
            environment={**(environment or {}), **_environment(installation, name)},
            environment_encryption=installation.encryption_key,
            reserved_concurrent_executions=reserved,
            layers=list(layers),
            vpc=vpc,
            vpc_subnets=vpc_subnets,
            security_groups=security_groups,
            recursive_loop=recursive_loop,
            max_event_age=max_event_age,
            retry_attempts=retry_attempts,
            # Of an alias: what runs on the version before may take minutes more, and AWS does not say that a deletion lets it.
            current_version_options=lambda_.VersionOptions(removal_policy=RemovalPolicy.RETAIN),
        )


def _environment(installation: InstallationSettings, name: str) -> dict[str, str]:
    return {
        **installation.metered,
        **({} if installation.history else {"QUARTERJACK_HISTORY": "off"}),
        "QUARTERJACK_PREFIX": installation.prefix,
        **installation.named_tables,
        "QUARTERJACK_RETENTION_DAYS": str(installation.retention_days),
        "QUARTERJACK_SHARDS": str(installation.shards),
        "POWERTOOLS_SERVICE_NAME": name,
        "POWERTOOLS_METRICS_NAMESPACE": NAMESPACE,
    }


def _role(scope: Construct, group: logs.LogGroup, vpc: ec2.IVpc | None, shared: iam.Role | None) -> iam.Role:
    """A role that may write to the function's own log group only; AWS's managed policy allows all of the account."""
    if shared is not None:
        group.grant_write(shared)
        return shared
    role = iam.Role(scope, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
    group.grant_write(role)
    acknowledge(
        role,
        "AwsSolutions-IAM5[Resource::*]",
        "traces, and network interfaces in a VPC, are written without a resource",
    )
    if vpc is not None:
        _allow_network_interfaces(role)
    return role


def _allow_network_interfaces(role: iam.Role) -> None:
    """Allow the calls that Lambda makes for a function in a VPC; those that list or create support no resource."""
    role.add_to_policy(
        iam.PolicyStatement(
            actions=[
                "ec2:CreateNetworkInterface",
                "ec2:DescribeNetworkInterfaces",
                "ec2:DescribeSubnets",
                "ec2:DeleteNetworkInterface",
                "ec2:AssignPrivateIpAddresses",
                "ec2:UnassignPrivateIpAddresses",
            ],
            resources=["*"],
        )
    )


def live_alias(
    scope: Construct,
    function: lambda_.Function,
    *,
    provisioned: int = 0,
    max_event_age: Duration | None = None,
    retry_attempts: int | None = None,
) -> lambda_.Alias:
    """The alias of a function's present version. What the function says of asynchronous invocations does not count for its alias."""
    return lambda_.Alias(
        scope,
        "Live",
        alias_name=ALIAS,
        version=function.current_version,
        provisioned_concurrent_executions=provisioned or None,
        max_event_age=max_event_age,
        retry_attempts=retry_attempts,
    )


EVENT_AGE = Duration.seconds(60)  # the minimum; the next call does the same work


class FunctionClock(Construct):
    """Calls ``function``, or its ``alias``, at the given minutes of every hour (the first field of cron), without retries."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        function: InstallationFunction,
        minute: str,
        alias: lambda_.Alias | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        scheduler.Schedule(
            self,
            "Schedule",
            description=f"Calls {function.node.path}",
            schedule=scheduler.ScheduleExpression.cron(minute=minute, time_zone=TimeZone.ETC_UTC),
            target=targets.LambdaInvoke(
                alias or function, max_event_age=EVENT_AGE, retry_attempts=0, role=self._role(function)
            ),
        )

    def _role(self, function: InstallationFunction) -> iam.Role:
        role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal(
                "scheduler.amazonaws.com", conditions={"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}}
            ),
        )
        acknowledge(
            role,
            f"AwsSolutions-IAM5[Resource::{arn_of(function)}:*]",
            "the CDK allows the scheduler all versions of the function, and there are none",
        )
        return role
