"""The alarms of an installation, as CloudFormation has them, with the first steps of each alarm's runbook in its message."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from aws_cdk import Aws, Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns
from constructs import Construct
from quarterjack.domain.policies import Priority
from quarterjack.errors import QuarterjackError
from quarterjack.stores.tables import TABLES

from ..figures import DIMENSIONS, Figure
from ..installation import InstallationSettings
from ..storage.queues import InstallationQueues, worker_part
from .plan import AFTERMATH, PlannedCompositeAlarm, PlannedMetricAlarm, QueueParts, StackParts, planned
from .settings import AlarmSettings
from .spec import AlarmSpec, Compare, Need

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
        self._metric_alarms = plan.metric_alarms
        for alarm in plan.metric_alarms:
            self._made[alarm.name] = self._alarm(alarm)
        for composite in plan.composites:
            self._made[composite.name] = self._composite(composite)

    def about(self, part: str, ids: Collection[str]) -> list[cloudwatch.IAlarm]:
        """The metric alarms with these ids whose figures are those of a part; what hides their pages does not hide them."""
        return [
            self._made[one.name]
            for one in self._metric_alarms
            if one.spec.id in ids and any(figure.part == part for figure in one.figures.values())
        ]

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
            return with_steps(
                begin, spec.id, self._installation.prefix, self._installation.tables or self._installation.prefix
            )
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
            dimensions_map={DIMENSIONS[figure.source]: self._installation.measured(figure)},
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


MOST = 1_024  # characters of the description of an alarm of CloudWatch
FOLDER = "docs/runbooks"  # of the pages in the project
_HERE = Path(__file__).parent
# In the checkout, and in an installed package, whose wheel has the pages beside this one.
_FOLDERS = (_HERE.parents[1] / FOLDER, _HERE.parent / "runbooks")
_STEP = re.compile(r"^\d+\. ", re.MULTILINE)
_LINK = re.compile(r"\[([^]]+)]\([^)]+\)")
_OURS = re.compile(r"\bquarterjack-(?=[a-z])")  # begins the names of an installation's parts, as the pages have them
_TABLES = re.compile(rf"\bquarterjack-(?=(?:{'|'.join(table.suffix for table in TABLES)})\b)")
_FAR = "…"


def page_of(alarm: str) -> str:
    """The text of an alarm's page. Raises QuarterjackError if the package lacks it."""
    for folder in _FOLDERS:
        path = folder / f"{alarm}.md"
        if path.is_file():
            return path.read_text("utf-8")
    raise QuarterjackError(
        f"the runbook of {alarm!r} is not in this package; install the published wheel, or a checkout"
    )


def steps_of(page: str, prefix: str, tables: str) -> list[str]:
    """The steps of a page under "Look first" and "Steps": of each its words up to the first command, and its commands.

    Names of parts begin with the ``prefix`` of the installation, those of its tables with ``tables``.
    """
    first, steps = (_section(page, name) for name in ("Look first", "Steps"))
    parts = _STEP.split(steps)[1:] or [steps]
    found = [_said("First", first), *(_said(str(number), part) for number, part in enumerate(parts, 1))]
    return [_OURS.sub(f"{prefix}-", _TABLES.sub(f"{tables}-", step)) for step in found if step]


def _section(page: str, name: str) -> str:
    return page.partition(f"\n## {name}\n")[2].partition("\n## ")[0]


def _said(number: str, part: str) -> str:
    """A step in one line: ``2. Its concurrency is 0: `aws …`; `aws …` ``. Without a command it is left to the page."""
    lines = part.splitlines()
    commands = [line.strip().partition("    #")[0].strip() for line in lines if line.startswith("    ")]
    if not commands:
        return ""
    words = next((line for line in lines if line and not line.startswith("    ")), "")
    lead = _LINK.sub(r"\1", words).replace("**", "").strip().rstrip(":.")
    typed = "; ".join(f"`{command}`" for command in commands)
    return f"{number}: {typed}" if number == "First" else f"{number}. {lead}: {typed}"


def with_steps(begin: str, alarm: str, prefix: str, tables: str) -> str:
    """An alarm's description: ``begin``, as many steps of its page as CloudWatch takes, and where the rest stands."""
    end = f"All steps: {FOLDER}/{alarm}.md"
    text = begin
    for step in steps_of(page_of(alarm), prefix, tables):
        longer = f"{text}\n{step}"
        if len(f"{longer}\n{_FAR} {end}") > MOST:
            return f"{text}\n{_FAR} {end}"
        text = longer
    return f"{text}\n{end}"


def stack_parts(queues: InstallationQueues, *, history: bool, events: bool, api: bool) -> StackParts:
    """The parts of an installation with these queues; ``history``, ``events`` and ``api``: whether it has those."""
    names = [None, *(queue.name for queue in queues.declared)]
    contained = {queue.name for queue in queues.declared if queue.container}
    found = [
        QueueParts(
            stripes=[stripe.suffix for stripe in queues.lanes_of(name)],
            low=[stripe.suffix for stripe in queues.lanes_of(name) if stripe.priority is Priority.LOW],
            worker=worker_part(name),
            is_declared=name is not None,
            has_function=name not in contained,
        )
        for name in names
    ]
    workers = [queue.worker for queue in found if queue.has_function]
    needs = {Need.HISTORY} if history else set[Need]()
    return StackParts(
        queues=found,
        functions=["ticker", "undertaker", "auditor", *workers, *(["api"] if api else [])],
        has=frozenset(needs | ({Need.EVENTS} if events else set())),
    )
