"""A clock: EventBridge Scheduler calls a function, at most a minute after its time."""

from __future__ import annotations

from aws_cdk import Aws, Duration, TimeZone
from aws_cdk import aws_iam as iam
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_scheduler_targets as targets
from constructs import Construct

from ..acknowledge import acknowledge, arn_of
from .function import InstallationFunction

EVENT_AGE = Duration.seconds(60)  # the minimum; the next call does the same work


class FunctionClock(Construct):
    """Calls ``function`` at the given minutes of every hour (the first field of cron), without retries."""

    def __init__(self, scope: Construct, construct_id: str, *, function: InstallationFunction, minute: str) -> None:
        super().__init__(scope, construct_id)
        scheduler.Schedule(
            self,
            "Schedule",
            description=f"Calls {function.node.path}",
            schedule=scheduler.ScheduleExpression.cron(minute=minute, time_zone=TimeZone.ETC_UTC),
            target=targets.LambdaInvoke(function, max_event_age=EVENT_AGE, retry_attempts=0, role=self._role(function)),
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
