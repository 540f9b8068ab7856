"""Events out: a function on the stream of the table of runs, which publishes ends of runs, incidents of schedules, and circuit breakers.

Nothing of it is made without a target.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from aws_cdk import Aws, Duration
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lambda_event_sources as sources
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct
from quarterjack.domain.history.outgoing_event import EventTarget, parse_target, states_of
from quarterjack.domain.notice import NOTICE_EVENTS, RECORD, schedule_events
from quarterjack.errors import InvalidInput
from quarterjack.historian.progress import OWNER

from ..installation import InstallationSettings
from ..storage.store import InstallationStore
from .function import InstallationFunction

BATCH = 100  # changes at the most: a batch that fails is sent again from its beginning
WINDOW = Duration.seconds(1)
MEMORY = 512  # MB
TIMEOUT = Duration.minutes(
    6
)  # 100 requests of at most 15 s, twenty and in them eight at a time; ten of them three times


class EventsFunction(Construct):
    """The function and its event source, which gives it ends of runs and notices only."""

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        installation: InstallationSettings,
        store: InstallationStore,
        events: str,
        types: Sequence[str] | None,
        secret: secretsmanager.ISecret | None,
    ) -> None:
        super().__init__(scope, name)
        chosen = None if types is None else ",".join(types)
        target = parse_target(events, chosen, None if secret is None else "secret:given")
        self._types = schedule_events(events, chosen)
        self._environment = environment = {"QUARTERJACK_EVENTS": events}
        if chosen is not None:
            environment["QUARTERJACK_EVENT_TYPES"] = chosen
        secrets = {} if secret is None else {"QUARTERJACK_EVENT_SECRET": f"secret:{secret.secret_arn}"}
        self.function = InstallationFunction(
            self,
            "events",
            installation=installation,
            description="Quarterjack: publishes events of runs and schedules",
            memory=MEMORY,
            timeout=TIMEOUT,
            environment=environment | secrets,
        )
        self.function.add_event_source(
            sources.DynamoEventSource(
                store.tables["runs"],
                starting_position=lambda_.StartingPosition.LATEST,
                batch_size=BATCH,
                max_batching_window=WINDOW,
                parallelization_factor=1,
                # The function finds out by itself what a batch fails for, and for that it must see the batch. Without a number of
                # retries it gets it again until the stream forgets it, after a day.
                bisect_batch_on_error=False,
                filters=[lambda_.FilterCriteria.filter(pattern) for pattern in _patterns(target)],
            )
        )
        # It records failing events with their first failure, and events that it sets aside.
        store.allow(self.function, "runs", ("dynamodb:GetItem", "dynamodb:PutItem"), keys=(OWNER,))
        store.allow_gone(self.function)
        store.allow_key(self.function)
        self._allow(target)
        if secret is not None:
            secret.grant_read(self.function)

    def tell(self, function: lambda_.Function) -> None:
        """Let a function that begins or ends incidents know that they are published: it writes a record for the stream."""
        if self._types:
            for name, word in self._environment.items():
                function.add_environment(name, word)

    def _allow(self, target: EventTarget) -> None:
        if target.kind == "sns":
            action, resource = "sns:Publish", target.address
        elif target.kind == "eventbridge":
            is_arn = target.address.startswith("arn:")
            name = f"arn:{Aws.PARTITION}:events:{Aws.REGION}:{Aws.ACCOUNT_ID}:event-bus/{target.address}"
            action, resource = "events:PutEvents", target.address if is_arn else name
        else:
            return
        iam.Grant.add_to_principal(grantee=self.function, actions=[action], resource_arns=[resource])


def _patterns(target: EventTarget) -> Iterator[dict[str, object]]:
    """The filters of the event source: rows of ended runs (a later write of such a row is no event), and new notices."""
    if states := [str(state) for state in states_of(target.types)]:
        yield {"dynamodb": {"NewImage": {"state": {"S": states}}}}
    if target.types.intersection(NOTICE_EVENTS):
        yield {"eventName": ["INSERT"], "dynamodb": {"Keys": {"key": {"S": [{"prefix": RECORD}]}}}}


def check_events(events: str | None, types: Sequence[str] | None, secret: object, *, history: bool) -> None:
    """Raises InvalidInput for options of events that fit nothing."""
    if events is None:
        for field, given in (("event_types", types), ("event_secret", secret)):
            if given is not None:
                raise InvalidInput(field, given, "is of no use without events", "give events=, or leave it out")
    elif not history:
        raise InvalidInput("events", events, "needs the stream of the history", "leave history=False out")
