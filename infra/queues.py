"""The work queue and the dead-letter queue, from the package's own definitions."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_sqs as sqs
from constructs import Construct
from minutehand.queue.definitions import MAX_RECEIVES, QUEUES, Queue

from .installation import Installation


class Queues(Construct):
    """Both queues; ``work`` hands what cannot be leased at all to ``dead``."""

    def __init__(self, scope: Construct, name: str, *, installation: Installation) -> None:
        super().__init__(scope, name)
        self._installation = installation
        self._made: dict[str, sqs.Queue] = {}
        for queue in QUEUES:
            self._made[queue.suffix] = self._queue(queue)

    @property
    def work(self) -> sqs.Queue:
        return self._made["work"]

    @property
    def dead(self) -> sqs.Queue:
        return self._made["dead"]

    def _queue(self, queue: Queue) -> sqs.Queue:
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
