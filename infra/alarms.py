"""Nine alarms, four of the historian, two of the events, and for each declared queue one for throttling and one for each of its stripes.

Each means that fires are late, end DEAD, or do not start at all, or that somebody else may send to the queues.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from aws_cdk import Aws, Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from constructs import Construct
from minutehand.sqs.routing import WORK, work_suffix

from .installation import InstallationSettings
from .roles.events import EventsFunction
from .roles.function import NAMESPACE
from .roles.historian import RETRIES, HistorianFunction
from .roles.worker import WorkerFunction
from .storage.queues import InstallationQueues, worker_part

SILENCE = 3  # minutes without a tick; the look-ahead is as long
UNAUDITED = 3  # hours without an audit: two may fail
BEHIND = 120_000  # ms between now and the oldest entry that is due
FAILING = 15  # minutes in which invocations of the historian fail; Lambda repeats them
WAITING = 15  # minutes without an instant at which a declared queue was empty
UNREAD = 3_600_000  # ms for which a change may wait for the historian or the events; a stream keeps 24 hours
UNBURIED = 5  # minutes with messages in the dead-letter queue, which the undertaker empties in seconds

_MINUTE = Duration.minutes(1)
_HOUR = Duration.hours(1)
_FIVE_MINUTES = Duration.minutes(5)
_UNDER = cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD


class InstallationAlarms(Construct):
    """The alarms, sent to ``topic`` or to a topic of their own."""

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        installation: InstallationSettings,
        topic: sns.ITopic | None,
        queues: InstallationQueues,
        worker: WorkerFunction,
        workers: Mapping[str, WorkerFunction],
        historian: HistorianFunction | None = None,
        events: EventsFunction | None = None,
    ) -> None:
        super().__init__(scope, name)
        self._installation = installation
        self.topic: sns.ITopic = topic or self._own_topic()
        self.all = [
            *self._of_ticker(),
            *self._of_auditor(),
            *self._of_dead_runs(queues),
            *self._of_messages(),
            *self._of_workers(queues, worker, workers),
            *([] if historian is None else self._of_historian(historian)),
            *([] if events is None else self._of_events(events)),
        ]

    def _of_ticker(self) -> Iterator[cloudwatch.Alarm]:
        """Nothing is claimed, or late, or held back."""
        yield self._alarm(
            "NoTick",
            "no-tick",
            f"No tick for {SILENCE} minutes: nothing is being claimed. Look at the ticker's log and at its schedule.",
            self._metric("Ticks", "ticker", "Sum", _MINUTE),
            threshold=1,
            comparison=_UNDER,
            periods=SILENCE,
            missing=cloudwatch.TreatMissingData.BREACHING,
        )
        yield self._alarm(
            "Behind",
            "behind",
            f"The ticker is behind by more than {BEHIND // 60_000} minutes: fires come late. Look for throttled tables.",
            self._metric("BehindBy", "ticker", "Maximum", _MINUTE),
            threshold=BEHIND,
        )
        yield self._alarm(
            "HeldBack",
            "held-back",
            "A queue is held back: its workers do not keep up, and its fires wait in the agenda. `minutehand doctor` names it.",
            self._metric("QueuesHeld", "ticker", "Maximum", _FIVE_MINUTES),
        )

    def _of_auditor(self) -> Iterator[cloudwatch.Alarm]:
        """Nobody looks for what should be impossible, or the record of acts was changed."""
        yield self._alarm(
            "NoAudit",
            "no-audit",
            f"No audit for {UNAUDITED} hours: a lost message or entry would not be found. Look at the auditor's log and its schedule.",
            self._metric("Audits", "auditor", "Sum", _HOUR),
            threshold=1,
            comparison=_UNDER,
            periods=UNAUDITED,
            missing=cloudwatch.TreatMissingData.BREACHING,
        )
        yield self._alarm(
            "AuditContradicted",
            "audit-contradicted",
            "The audit's record was changed: a close in the bucket differs from the table. Run `minutehand audit verify`.",
            self._metric("AuditContradicted", "auditor", "Sum", _HOUR),
        )

    def _of_dead_runs(self, queues: InstallationQueues) -> Iterator[cloudwatch.Alarm]:
        """Runs ended dead, or their letters wait."""
        yield self._alarm(
            "DeadRuns",
            "dead-runs",
            "Runs ended dead: out of attempts or refused for good. List them with `minutehand dead list`, then redrive.",
            self._metric("Dead", "undertaker", "Sum", _FIVE_MINUTES),  # the undertaker records every dead run
        )
        yield self._alarm(
            "Unburied",
            "dead-letter-queue",
            f"The dead-letter queue was not empty for {UNBURIED} minutes: the undertaker does not keep up. Look at its log.",
            queues.dead.metric_approximate_number_of_messages_visible(period=_MINUTE, statistic="Maximum"),
            periods=UNBURIED,
        )

    def _of_messages(self) -> Iterator[cloudwatch.Alarm]:
        """Not urgent, since no run is lost or changed by them; the undertaker sees those of all queues."""
        for name, text in (
            ("Unreadable", "cannot be read: damaged, or not ours. Runs that they named were sent anew"),
            ("Rejected", "have no accepted run behind them: somebody else may send to the queue, or rows were removed"),
        ):
            event = f"letter.{name.lower()}"
            yield self._alarm(
                name,
                f"{name.lower()}-messages",
                f"Messages {text}. The undertaker's log has their text, event `{event}`.",
                self._metric(name, "undertaker", "Sum", _FIVE_MINUTES),
            )

    def _of_workers(
        self, queues: InstallationQueues, worker: WorkerFunction, workers: Mapping[str, WorkerFunction]
    ) -> Iterator[cloudwatch.Alarm]:
        """Runs wait for concurrency: of the default queue, and of each declared one."""
        yield self._alarm(
            "Throttled",
            "worker-throttled",
            "The worker is throttled: runs wait for concurrency. Raise the account's limit or spread the fires.",
            worker.function.metric_throttles(period=_FIVE_MINUTES, statistic="Sum"),
        )
        for queue, found in workers.items():
            yield self._throttled(queue, found)
        for declared in queues.declared:
            for number, stripe in enumerate(queues.work_of(declared.name)):
                yield self._waiting(declared.name, number, stripe)

    def _of_historian(self, historian: HistorianFunction) -> Iterator[cloudwatch.Alarm]:
        """The history is late or has holes; no run is touched by that."""
        rebuild = "then fill the history from the ledger: `minutehand history rebuild`"
        yield self._alarm(
            "HistorianBehind",
            "historian-behind",
            "The historian is more than an hour behind; after 24 hours changes are lost to it. Look at its log and its throttles.",
            historian.function.metric("IteratorAge", period=_FIVE_MINUTES, statistic="Maximum"),
            threshold=UNREAD,
        )
        yield self._alarm(
            "HistorianAside",
            "historian-aside",
            f"Batches of changes were given up after {RETRIES} retries. Mend what the historian's log says, {rebuild}.",
            historian.aside.metric_approximate_number_of_messages_visible(period=_FIVE_MINUTES, statistic="Maximum"),
        )
        yield self._alarm(
            "HistorianSetAside",
            "historian-set-aside",
            f"Single changes could not be handled. Mend what the historian's log says, {rebuild}.",
            self._metric("HistorianSetAside", "historian", "Sum", _FIVE_MINUTES),
        )
        yield self._alarm(
            "HistorianErrors",
            "historian-errors",
            f"The historian has failed for {FAILING} minutes: the history stands still. Look at its log.",
            historian.function.metric_errors(period=_FIVE_MINUTES, statistic="Sum"),
            periods=FAILING // 5,
        )

    def _of_events(self, events: EventsFunction) -> Iterator[cloudwatch.Alarm]:
        """Receivers do not learn of ends of runs and of incidents; no run and no history is touched by that."""
        yield self._alarm(
            "EventsBehind",
            "events-behind",
            "Events are more than an hour behind; after 24 hours they are dropped. Look at the receiver, and at the function's log.",
            events.function.metric("IteratorAge", period=_FIVE_MINUTES, statistic="Maximum"),
            threshold=UNREAD,
        )
        yield self._alarm(
            "EventsSetAside",
            "events-set-aside",
            "Single events were given up: the receiver refuses them or fails on them. The log names them, `historian.set_aside`.",
            self._metric("EventsSetAside", "events", "Sum", _FIVE_MINUTES),
        )

    def _throttled(self, queue: str, worker: WorkerFunction) -> cloudwatch.Alarm:
        return self._alarm(
            f"Throttled-{queue}",
            f"{worker_part(queue)}-throttled",
            f"The worker of queue {queue} is throttled: runs wait for concurrency. Raise the account's limit.",
            worker.function.metric_throttles(period=_FIVE_MINUTES, statistic="Sum"),
        )

    def _waiting(self, queue: str, number: int, stripe: sqs.Queue) -> cloudwatch.Alarm:
        """A queue with a concurrency limit is never throttled; messages that wait show that the limit is too low."""
        visible = stripe.metric_approximate_number_of_messages_visible
        suffix = work_suffix(queue, number)
        return self._alarm(
            f"Waiting-{suffix.removeprefix(f'{WORK.suffix}-')}",
            f"{suffix}-waiting",
            f"Runs have been waiting in queue {queue} for {WAITING} minutes without a break: it needs more concurrency, or workers.",
            visible(period=_FIVE_MINUTES, statistic="Minimum"),
            periods=WAITING // 5,
        )

    def _alarm(
        self,
        name: str,
        suffix: str,
        description: str,
        metric: cloudwatch.IMetric,
        *,
        threshold: int = 0,
        comparison: cloudwatch.ComparisonOperator = cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
        periods: int = 1,
        missing: cloudwatch.TreatMissingData = cloudwatch.TreatMissingData.NOT_BREACHING,
    ) -> cloudwatch.Alarm:
        alarm = cloudwatch.Alarm(
            self,
            name,
            alarm_name=self._installation.name(suffix),
            alarm_description=description,
            metric=metric,
            comparison_operator=comparison,
            threshold=threshold,
            evaluation_periods=periods,
            treat_missing_data=missing,
        )
        action = actions.SnsAction(self.topic)
        alarm.add_alarm_action(action)
        alarm.add_ok_action(action)
        return alarm

    def _metric(self, name: str, part: str, statistic: str, period: Duration) -> cloudwatch.Metric:
        return cloudwatch.Metric(
            namespace=NAMESPACE,
            metric_name=name,
            dimensions_map={"service": self._installation.name(part)},
            statistic=statistic,
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
