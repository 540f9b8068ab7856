"""The work queues and the dead-letter queue, from the package's own definitions."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import Duration
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sqs as sqs
from constructs import Construct
from minutehand.errors import InvalidInput
from minutehand.model.queue import Queue
from minutehand.queue.definitions import DEAD, MAX_RECEIVES, SqsQueue, all_queues, work_suffix

from .acknowledge import acknowledge_for
from .installation import Installation

_LONGEST = 64  # characters of a function's name; a queue's may have 80


class Queues(Construct):
    """All of them; every work queue hands what cannot be leased at all to ``dead``."""

    def __init__(
        self, scope: Construct, name: str, *, installation: Installation, declared: Sequence[Queue] = ()
    ) -> None:
        super().__init__(scope, name)
        self._installation = installation
        self.declared = _checked(declared, installation)
        self._made: dict[str, sqs.Queue] = {}
        for queue in all_queues(self.declared):
            self._made[queue.suffix] = self._queue(queue)

    @property
    def work(self) -> sqs.Queue:
        """The default work queue."""
        return self.work_of(None)

    @property
    def dead(self) -> sqs.Queue:
        return self._made[DEAD.suffix]

    def work_of(self, name: str | None) -> sqs.Queue:
        """The work queue of a declared queue; None is the default one."""
        return self._made[work_suffix(name)]

    def allow_send(self, grantee: iam.IGrantable) -> None:
        """Let ``grantee`` send to every work queue."""
        for name in (None, *(queue.name for queue in self.declared)):
            self.work_of(name).grant_send_messages(grantee)

    def allow_receive(self, grantee: iam.IGrantable) -> None:
        """Let ``grantee`` take from every work queue."""
        for name in (None, *(queue.name for queue in self.declared)):
            self.work_of(name).grant_consume_messages(grantee)

    def allow_list(self, grantee: iam.IGrantable) -> None:
        """Let ``grantee`` ask which queues there are."""
        iam.Grant.add_to_principal(grantee=grantee, actions=["sqs:ListQueues"], resource_arns=["*"])
        acknowledge_for(grantee, "AwsSolutions-IAM5[Resource::*]", "the call that lists queues knows no resource")

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


def _checked(declared: Sequence[Queue], installation: Installation) -> tuple[Queue, ...]:
    """The declared queues, each once, their names short enough for those of their functions."""
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
    """What the worker of a queue is called after the prefix."""
    return "worker" if queue is None else f"worker-{queue}"
