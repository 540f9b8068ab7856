"""A clock: EventBridge Scheduler calls a function, and never later than a minute after its time."""

from __future__ import annotations

from aws_cdk import Aws, Duration, TimeZone
from aws_cdk import aws_iam as iam
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_scheduler_targets as targets
from constructs import Construct

from .acknowledge import acknowledge, arn_of
from .function import Function

EVENT_AGE = Duration.seconds(60)  # the least there is; the next call does what this one would have done


class Clock(Construct):
    """Calls ``function`` at the given minutes of every hour (cron's first field). A call that fails is not repeated."""

    def __init__(self, scope: Construct, construct_id: str, *, function: Function, minute: str) -> None:
        super().__init__(scope, construct_id)
        scheduler.Schedule(
            self,
            "Schedule",
            description=f"Calls {function.node.path}",
            schedule=scheduler.ScheduleExpression.cron(minute=minute, time_zone=TimeZone.ETC_UTC),
            target=targets.LambdaInvoke(function, max_event_age=EVENT_AGE, retry_attempts=0, role=self._role(function)),
        )

    def _role(self, function: Function) -> iam.Role:
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
            "the CDK allows a scheduler its function in all versions; nobody publishes any",
        )
        return role
