"""The alarms of an installation, as CloudFormation has them."""

from __future__ import annotations

from aws_cdk import Aws, Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns
from constructs import Construct

from ..figures import DIMENSIONS, Figure
from ..installation import InstallationSettings
from .pages import with_steps
from .plan import AFTERMATH, PlannedCompositeAlarm, PlannedMetricAlarm, StackParts, planned
from .settings import AlarmSettings
from .spec import AlarmSpec, Compare

_OPERATORS = {
    Compare.OVER: cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
    Compare.AT_LEAST: cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
    Compare.UNDER: cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD,
}


class InstallationAlarms(Construct):
    """The alarms of the table, for the parts that are there.

    ``topic``: where those go that have no topic of their severity; None if there are none.
    """

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        installation: InstallationSettings,
        settings: AlarmSettings,
        parts: StackParts,
    ) -> None:
        super().__init__(scope, name)
        self._installation, self._settings = installation, settings
        plan = planned(settings.specs(), parts)
        bare = {one.spec.severity for one in plan.pages if one.spec is not None} - settings.topics.keys()
        self.topic = settings.topic or (self._own_topic() if bare else None)
        self._made: dict[str, cloudwatch.IAlarm] = {}
        for alarm in plan.metric_alarms:
            self._made[alarm.name] = self._alarm(alarm)
        for composite in plan.composites:
            self._made[composite.name] = self._composite(composite)

    def _alarm(self, planned: PlannedMetricAlarm) -> cloudwatch.Alarm:
        spec = planned.spec
        alarm = cloudwatch.Alarm(
            self,
            _id(planned.name),
            alarm_name=self._installation.name(planned.name),
            alarm_description=self._text(spec),
            metric=self._metric(planned),
            comparison_operator=_OPERATORS[spec.compare],
            threshold=planned.threshold,
            evaluation_periods=planned.out_of,
            datapoints_to_alarm=planned.times,
            treat_missing_data=cloudwatch.TreatMissingData.BREACHING
            if spec.silence_breaches
            else cloudwatch.TreatMissingData.NOT_BREACHING,
        )
        if planned.pages:
            self._page(alarm, spec)
        return alarm

    def _composite(self, planned: PlannedCompositeAlarm) -> cloudwatch.CompositeAlarm:
        rule = cloudwatch.AlarmRule
        groups = [[self._made[name] for name in names] for names in planned.any_of]
        any_of = [group[0] if len(group) == 1 else rule.all_of(*group) for group in groups]
        hides = planned.suppressor is not None
        alarm = cloudwatch.CompositeAlarm(
            self,
            _id(planned.name),
            composite_alarm_name=self._installation.name(planned.name),
            alarm_description=self._text(planned.spec)
            if planned.spec
            else "Hides the alarms of what follows from these. It pages nobody.",
            alarm_rule=rule.any_of(*any_of),
            actions_suppressor=self._made[planned.suppressor] if planned.suppressor else None,
            actions_suppressor_wait_period=Duration.minutes(planned.waits) if hides else None,
            actions_suppressor_extension_period=Duration.minutes(AFTERMATH) if hides else None,
        )
        if planned.spec is not None:
            self._page(alarm, planned.spec)
        return alarm

    def _page(self, alarm: cloudwatch.Alarm | cloudwatch.CompositeAlarm, spec: AlarmSpec) -> None:
        topic = self._settings.topics.get(spec.severity) or self.topic
        assert topic is not None
        action = actions.SnsAction(topic)
        alarm.add_alarm_action(action)
        alarm.add_ok_action(action)

    def _text(self, spec: AlarmSpec) -> str:
        begin = f"{spec.severity}. {spec.means} Look first: {spec.look}"
        if self._settings.runbooks is None:
            return with_steps(begin, spec.id, self._installation.prefix)
        return f"{begin} Runbook: {self._settings.runbooks.rstrip('/')}/{spec.id}.md"

    def _metric(self, planned: PlannedMetricAlarm) -> cloudwatch.IMetric:
        period = Duration.minutes(planned.period)
        metrics = {word: self._figure(one, period) for word, one in planned.figures.items()}
        return cloudwatch.MathExpression(
            expression=planned.spec.formula, using_metrics=metrics, period=period, label=planned.spec.unit
        )

    def _figure(self, figure: Figure, period: Duration) -> cloudwatch.Metric:
        return cloudwatch.Metric(
            namespace=str(figure.source),
            metric_name=figure.name,
            dimensions_map={DIMENSIONS[figure.source]: self._installation.name(figure.part)},
            statistic=figure.statistic,
            period=period,
        )

    def _own_topic(self) -> sns.Topic:
        key, cloudwatch_service = self._installation.encryption_key, iam.ServicePrincipal("cloudwatch.amazonaws.com")
        if key is not None:
            key.grant(cloudwatch_service, "kms:Decrypt", "kms:GenerateDataKey*")
        topic = sns.Topic(self, "Topic", topic_name=self._installation.name("alarms"), enforce_ssl=True, master_key=key)
        # `enforce_ssl` gives the topic a policy, which replaces SNS's default policy: that one let CloudWatch publish.
        topic.add_to_resource_policy(
            iam.PolicyStatement(
                sid="AlarmsMayPublish",
                principals=[cloudwatch_service],
                actions=["sns:Publish"],
                resources=[topic.topic_arn],
                conditions={"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}},
            )
        )
        return topic


def _id(name: str) -> str:
    """``NoTick`` of ``no-tick``: the id of a construct, and of a queue whose name has other characters as it is."""
    return "".join(word[:1].upper() + word[1:] for word in name.split("-"))
