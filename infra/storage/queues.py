"""The work queues and the dead-letter queue, from the package's own definitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from aws_cdk import Duration
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct
from quarterjack.domain.queue import Queue
from quarterjack.errors import InvalidInput
from quarterjack.sqs.routing import DEAD, MAX_RECEIVES, SqsQueue
from quarterjack.sqs.stripes import Stripe, Stripes, all_queues, stripes_of

from ..acknowledge import acknowledge_for
from ..installation import InstallationSettings

_LONGEST = 64  # characters of a function's name; a queue's may have 80


class InstallationQueues(Construct):
    """All queues. SQS moves a message that no worker can lease from a work queue to ``dead``."""

    def __init__(
        self, scope: Construct, name: str, *, installation: InstallationSettings, declared: Sequence[Queue] = ()
    ) -> None:
        super().__init__(scope, name)
        self._installation = installation
        self.declared = _checked(declared, installation)
        self._stripes = Stripes(
            numbers={None: installation.stripes, **{queue.name: queue.stripes for queue in self.declared}},
            prioritised=frozenset(
                [None] if installation.priorities else [],
            )
            | {queue.name for queue in self.declared if queue.priorities},
        )
        self._made: dict[str, sqs.Queue] = {}
        for queue in all_queues(self.declared, stripes=installation.stripes, priorities=installation.priorities):
            self._made[queue.suffix] = self._queue(queue)

    @property
    def work(self) -> sqs.Queue:
        """The default work queue, its first stripe."""
        return self.work_of(None)[0]

    @property
    def dead(self) -> sqs.Queue:
        return self._made[DEAD.suffix]

    @property
    def stripes(self) -> Mapping[str | None, tuple[int, int]]:
        """By queue (None: the default one), its stripes and its lanes."""
        return {name: (number, len(self.lanes_of(name)) // number) for name, number in self._stripes.numbers.items()}

    @property
    def stripes_said(self) -> str | None:
        """The number of stripes of each queue, in the form of ``QUARTERJACK_STRIPES``; None if each has one."""
        return self._stripes.texts[0]

    @property
    def priorities_said(self) -> str | None:
        """The queues with lanes, in the form of ``QUARTERJACK_PRIORITIES``; None if there are none."""
        return self._stripes.texts[1]

    @property
    def variables(self) -> dict[str, str]:
        """The variables that a sender needs: stripes, lanes, and when low runs count as normal."""
        age = None if self.priorities_said is None else str(int(self._installation.low_age.to_seconds()))
        said = {
            "QUARTERJACK_STRIPES": self.stripes_said,
            "QUARTERJACK_PRIORITIES": self.priorities_said,
            "QUARTERJACK_LOW_AGE": age,
        }
        return {name: text for name, text in said.items() if text is not None}

    def lanes_of(self, name: str | None) -> dict[Stripe, sqs.Queue]:
        """The SQS queues of a declared queue, its own first; None is the default one."""
        found = stripes_of(name, self._stripes.of(name), priorities=name in self._stripes.prioritised)
        return {stripe: self._made[stripe.suffix] for stripe in found}

    def work_of(self, name: str | None) -> list[sqs.Queue]:
        """Likewise, without their places."""
        return list(self.lanes_of(name).values())

    def allow_send(self, grantee: lambda_.Function | iam.IGrantable) -> None:
        """Let ``grantee`` send to every work queue; a function gets the ``variables``, too."""
        for queue in self._every_stripe():
            queue.grant_send_messages(grantee)
        if isinstance(grantee, lambda_.Function):
            for name, text in self.variables.items():
                grantee.add_environment(name, text)

    def allow_receive(self, grantee: iam.IGrantable) -> None:
        """Let ``grantee`` receive from every work queue."""
        for queue in self._every_stripe():
            queue.grant_consume_messages(grantee)

    def _every_stripe(self) -> Iterator[sqs.Queue]:
        return (stripe for name in self._stripes.numbers for stripe in self.work_of(name))

    def allow_list(self, grantee: iam.IGrantable) -> None:
        """Let ``grantee`` list the queues and count what is in them."""
        for queue in self._every_stripe():
            queue.grant(grantee, "sqs:GetQueueAttributes")
        iam.Grant.add_to_principal(grantee=grantee, actions=["sqs:ListQueues"], resource_arns=["*"])
        acknowledge_for(grantee, "AwsSolutions-IAM5[Resource::*]", "the call that lists queues supports no resource")

    def _queue(self, queue: SqsQueue) -> sqs.Queue:
        key = self._installation.encryption_key
        dead_letters = None
        if queue.dead_letters is not None:
            dead_letters = sqs.DeadLetterQueue(queue=self._made[queue.dead_letters], max_receive_count=MAX_RECEIVES)
        return sqs.Queue(
            self,
            queue.suffix.capitalize(),
            queue_name=self._installation.name(queue.suffix),
            visibility_timeout=Duration.seconds(queue.visibility),
            retention_period=Duration.seconds(queue.retention),
            dead_letter_queue=dead_letters,
            encryption=sqs.QueueEncryption.KMS if key else sqs.QueueEncryption.SQS_MANAGED,
            encryption_master_key=key,
            enforce_ssl=True,
        )


def _checked(declared: Sequence[Queue], installation: InstallationSettings) -> tuple[Queue, ...]:
    """The declared queues. Raises InvalidInput for one declared twice, or with a name too long for its function."""
    names = [queue.name for queue in declared]
    for queue in declared:
        if names.count(queue.name) > 1:
            raise InvalidInput("queues", queue.name, "is there twice", "declare each queue once")
        if len(installation.name(worker_part(queue.name))) > _LONGEST:
            raise InvalidInput(
                "queues", queue.name, f"with the prefix, its function's name is over {_LONGEST} long", "shorten one"
            )
    return tuple(declared)


def worker_part(queue: str | None) -> str:
    """The name of a queue's worker, without the prefix."""
    return "worker" if queue is None else f"worker-{queue}"
