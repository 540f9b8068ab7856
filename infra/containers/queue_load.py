"""How much of a queue there is for each task that serves it: the figure by which container workers grow."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import Duration
from aws_cdk import aws_applicationautoscaling as scaling
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_sqs as sqs
from quarterjack.sqs.stripes import Stripe

# A scaling policy takes ten queries, one of which is the quotient and one the number of tasks; each SQS queue has two.
_COUNTED_STRIPES = 4


class QueueLoad:
    """The messages of a queue for each task of a service, as metric math.

    Of many stripes four are counted and stand for all, in a queue with lanes each lane's first: runs are spread evenly over stripes.
    ECS writes the processor time of each task once a minute, so the number of these values is the number of tasks.
    """

    def __init__(self, queues: Mapping[Stripe, sqs.Queue], service: ecs.FargateService) -> None:
        lanes = len({stripe.priority for stripe in queues})
        most = _COUNTED_STRIPES // lanes
        counted = [made for stripe, made in queues.items() if stripe.number < most]
        self._messages = {
            f"{word}{number}": stripe.metric(
                f"ApproximateNumberOfMessages{kind}", statistic="Average", period=Duration.minutes(1)
            )
            for number, stripe in enumerate(counted)
            for word, kind in (("waiting", "Visible"), ("athand", "NotVisible"))
        }
        self._tasks = service.metric("CPUUtilization", statistic="SampleCount", period=Duration.minutes(1))
        total = " + ".join(f"FILL({name}, 0)" for name in self._messages)
        self._total = f"({total})" + ("" if len(counted) == len(queues) else f" * {len(queues)} / {len(counted)}")

    def queries(self) -> list[scaling.CfnScalingPolicy.TargetTrackingMetricDataQueryProperty]:
        share = scaling.CfnScalingPolicy.TargetTrackingMetricDataQueryProperty(
            id="share",
            label="messages for each task",
            expression=f"{self._total} / IF(FILL(tasks, 0) > 0, FILL(tasks, 0), 1)",
            return_data=True,
        )
        return [*(_query(name, metric) for name, metric in {**self._messages, "tasks": self._tasks}.items()), share]

    def without_task(self) -> cloudwatch.MathExpression:
        """The messages that wait while there is no task; 0 if there is one."""
        return cloudwatch.MathExpression(
            expression=f"IF(FILL(tasks, 0) > 0, 0, {self._total})",
            using_metrics={**self._messages, "tasks": self._tasks},
            period=Duration.minutes(1),
        )


def _query(name: str, metric: cloudwatch.Metric) -> scaling.CfnScalingPolicy.TargetTrackingMetricDataQueryProperty:
    properties = scaling.CfnScalingPolicy
    dimensions = [
        properties.TargetTrackingMetricDimensionProperty(name=dimension, value=value)
        for dimension, value in (metric.dimensions or {}).items()
    ]
    read = properties.TargetTrackingMetricStatProperty(
        stat=metric.statistic,
        metric=properties.TargetTrackingMetricProperty(
            namespace=metric.namespace, metric_name=metric.metric_name, dimensions=dimensions
        ),
    )
    return properties.TargetTrackingMetricDataQueryProperty(id=name, metric_stat=read, return_data=False)
