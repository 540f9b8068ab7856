"""The work queues and the dead-letter queue in SQS."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from quarterjack.aws import BatchBackoff, Client
from quarterjack.concurrency.pools import RequestPool
from quarterjack.domain.message import DeadLetter, encode_letter
from quarterjack.domain.tenants.agenda_layout import group_of
from quarterjack.domain.times import DAY
from quarterjack.errors import QuarterjackError, Unavailable
from quarterjack.ports.queues import OutgoingMessage, RawMessage, WorkDepth
from quarterjack.sqs.named_queue import NamedQueue, is_gone
from quarterjack.sqs.routing import BATCH, MAX_VISIBILITY, WORK, cut_by_size
from quarterjack.sqs.striped_queue import StripedQueue, log_detour, log_refusal
from quarterjack.sqs.stripes import Stripe, Stripes, by_receipt, stripe_called, stripe_named
from quarterjack.state.backpressure import QueueDepth

log = logging.getLogger(__name__)

_COUNTS = tuple(f"ApproximateNumberOfMessages{which}" for which in ("", "NotVisible", "Delayed"))
_UNSTRIPED = Stripes()

_Entries = list[dict[str, Any]]  # of a SendMessageBatch


class SqsWorkQueue(StripedQueue):
    """The work queues. A message is sent to the queue that it names; messages are received from one queue, ``consumes``.

    A tenant is a message group, so that SQS keeps one tenant's backlog from delaying other tenants. ``name`` is the default queue's
    name, from which those of declared queues and of stripes are derived. ``weight_of``: for how many message groups a tenant counts.
    Batches are sent over ``pool``.
    """

    def __init__(
        self,
        client: Client,
        name: str,
        *,
        backoff: BatchBackoff,
        consumes: str | None = None,
        stripes: Stripes = _UNSTRIPED,
        low_age: int = DAY,
        weight_of: Callable[[str], int] = lambda _: 1,
        pool: RequestPool | None = None,
    ) -> None:
        super().__init__(stripes, consumes=consumes, low_age=low_age)
        self._client, self._name, self._backoff = client, name, backoff
        self._pool, self._weight_of = pool or RequestPool(), weight_of
        self._queues: dict[Stripe, NamedQueue] = {}

    def _exists(self, stripe: Stripe) -> bool:
        try:
            return bool(self._of(stripe).url)
        except Unavailable:
            raise
        except QuarterjackError:
            return False

    def send(self, messages: Sequence[OutgoingMessage]) -> Sequence[bool]:
        accepted = [False] * len(messages)
        weights = {tenant: self._weight_of(tenant) for tenant in {each.message.run.tenant for each in messages}}
        left = {
            stripe: [self._entry(place, messages[place], weights) for place in places]
            for stripe, places in self._stripes.places(messages).items()
        }
        for _ in self._client.rounds(self._backoff):
            left = self._send(left, accepted)
            if not left:
                break
        return accepted

    def _entry(self, index: int, outgoing: OutgoingMessage, weights: Mapping[str, int]) -> dict[str, Any]:
        message = outgoing.message
        entry: dict[str, Any] = {
            "Id": str(index),
            "MessageBody": message.encode(),
            "DelaySeconds": outgoing.delay,
            "MessageGroupId": group_of(message.run, weights[message.run.tenant]),
        }
        if message.trace:
            trace = {"DataType": "String", "StringValue": message.trace}
            entry["MessageSystemAttributes"] = {"AWSTraceHeader": trace}
        return entry

    def _send(self, left: Mapping[Stripe, _Entries], accepted: list[bool]) -> dict[Stripe, _Entries]:
        """Send all entries once, and return those to repeat. Raises Misconfigured if the default queue does not exist.

        Entries for a missing lane go to the normal one, entries for a missing stripe to the first. Entries for a missing queue are
        given up.
        """
        missing: dict[Stripe, QuarterjackError] = {}
        parts = [(stripe, batch) for stripe, entries in left.items() for batch in cut_by_size(entries, _size)]
        for stripe, indexes, problem in self._pool.map(self._send_once, parts):
            for index in indexes:
                accepted[index] = True
            if problem is not None:
                missing[stripe] = problem
        again, detoured = defaultdict[Stripe, _Entries](list), defaultdict[Stripe, _Entries](list)
        for stripe, entries in left.items():
            rest, problem = [entry for entry in entries if not accepted[int(entry["Id"])]], missing.get(stripe)
            if problem is None:
                again[stripe] += rest
            elif (other := stripe.detour) is not None:
                log_detour(stripe, len(rest), problem)
                detoured[other] += rest
            elif stripe.queue is None:
                raise problem
            else:
                log_refusal(stripe.queue, len(rest), problem)
        for stripe, entries in (self._send(detoured, accepted) if detoured else {}).items():
            again[stripe] += entries
        return {stripe: entries for stripe, entries in again.items() if entries}

    def _send_once(
        self, part: tuple[Stripe, _Entries]
    ) -> tuple[tuple[Stripe, list[int], QuarterjackError | None], int]:
        """The indexes that were accepted, or the error of their stripe; and how many entries were throttled."""
        stripe, entries = part
        try:
            answer = self._client.call_once("send_message_batch", QueueUrl=self._of(stripe).url, Entries=entries)
        except Unavailable:
            return (stripe, [], None), len(entries)
        except QuarterjackError as problem:
            return (stripe, [], problem), 0
        for failed in answer.get("Failed", []):
            log.warning("send.failed", extra={"code": failed.get("Code"), "error": failed.get("Message")})
        accepted = [int(success["Id"]) for success in answer.get("Successful", [])]
        return (stripe, accepted, None), len(entries) - len(accepted)

    def _of(self, stripe: Stripe) -> NamedQueue:
        if (found := self._queues.get(stripe)) is not None:
            return found
        name = self._name + stripe.suffix.removeprefix(WORK.suffix)
        return self._queues.setdefault(stripe, NamedQueue(self._client, name))

    def load(self, parts: Collection[str | None]) -> dict[str | None, Sequence[QueueDepth]]:
        stripes = [(part, one) for part in parts for one in self._stripes.of_part(part)]
        depths = self._pool.map(lambda each: (self._load_of(self._of(each[1])), 0), stripes)
        found = list(zip(stripes, depths, strict=True))
        return {part: [depth for (of, _), depth in found if of == part and depth] for part in parts}

    def _load_of(self, queue: NamedQueue) -> QueueDepth | None:
        try:
            return self._depth(queue.url)
        except (
            QuarterjackError
        ) as problem:  # a queue that does not exist is empty; one that does not answer is left out
            log.info("queue.not_counted", extra={"error": str(problem)})
            return None

    def _depth(self, url: str) -> QueueDepth:
        answer = self._client.call("get_queue_attributes", QueueUrl=url, AttributeNames=list(_COUNTS))
        waiting, at_hand, delayed = (int(answer.get("Attributes", {}).get(name, "0")) for name in _COUNTS)
        return QueueDepth(waiting=waiting, at_hand=at_hand, delayed=delayed)

    def survey(self) -> Sequence[WorkDepth]:
        listed = sorted(self._listed(self._name).items(), key=lambda each: each[0].order)
        depths = self._pool.map(lambda each: (self._depth_or_none(each[1]), 0), listed)
        return [stripe.depth(depth) for (stripe, _), depth in zip(listed, depths, strict=True)]

    def _depth_or_none(self, url: str) -> QueueDepth | None:
        try:
            return self._depth(url)
        except Unavailable as problem:
            log.info("queue.not_counted", extra={"error": str(problem)})
            return None

    def names(self) -> Sequence[str]:
        return sorted({stripe.queue for stripe in self._listed(f"{self._name}-") if stripe.queue is not None})

    def _listed(self, prefix: str) -> dict[Stripe, str]:
        """The URLs of the work queues whose names begin so."""
        urls, more = list[str](), dict[str, Any]()
        while True:
            answer = self._client.call("list_queues", QueueNamePrefix=prefix, MaxResults=1_000, **more)
            urls += answer.get("QueueUrls", [])
            if "NextToken" not in answer:
                break
            more = {"NextToken": answer["NextToken"]}
        found = ((stripe_named(url.rpartition("/")[2].removeprefix(self._name)), url) for url in urls)
        return {stripe: url for stripe, url in found if stripe is not None}

    def _receive(self, stripe: Stripe, most: int, wait: float, visibility: int) -> Sequence[RawMessage]:
        return self._of(stripe).receive(most, wait, visibility)

    def hide(self, receipts: Sequence[str], seconds: int) -> None:
        hidden = min(max(seconds, 0), MAX_VISIBILITY)
        self._each("change_message_visibility_batch", receipts, VisibilityTimeout=hidden)

    def delete(self, receipt: str) -> None:
        ((stripe, (own,)),) = by_receipt([receipt], self._consumes).items()
        self._of(stripe).delete(own)

    def erase(self, receipts: Sequence[str]) -> None:
        self._each("delete_message_batch", receipts)

    def _each(self, operation: str, receipts: Sequence[str], **fields: Any) -> None:
        """Batches for each stripe; one that fails stops no other. Raises the first failure in the end."""
        problems: list[Unavailable] = []
        for stripe, own in by_receipt(receipts, self._consumes).items():
            entries = [{"Id": str(index), "ReceiptHandle": receipt, **fields} for index, receipt in enumerate(own)]
            for start in range(0, len(entries), BATCH):
                try:
                    part = entries[start : start + BATCH]
                    answer = self._client.call(operation, QueueUrl=self._of(stripe).url, Entries=part)
                    _raise_unless_gone(operation, answer)
                except Unavailable as problem:
                    problems.append(problem)
        if problems:
            raise problems[0]


class SqsDeadQueue:
    """The dead-letter queue."""

    def __init__(self, client: Client, name: str) -> None:
        self._client, self._queue = client, NamedQueue(client, name)

    def send(self, letter: DeadLetter) -> None:
        self._client.call("send_message", QueueUrl=self._queue.url, MessageBody=encode_letter(letter))

    def receive(self, *, most: int, wait: float) -> Sequence[RawMessage]:
        return self._queue.receive(most, wait, None)

    def delete(self, receipt: str) -> None:
        self._queue.delete(receipt)


def delivery_of(record: Mapping[str, Any]) -> RawMessage:
    """An SQS record as Lambda gives it to a worker function, of any of the SQS queues of its queue."""
    attributes, stripe = record.get("attributes", {}), stripe_called(record.get("eventSourceARN", ""))
    return RawMessage(
        body=record["body"],
        receipt=stripe.marked(record["receiptHandle"]),
        lane=stripe.priority,
        receives=int(attributes.get("ApproximateReceiveCount", "1")),
        id=record["messageId"],
        sent_at=int(attributes.get("SentTimestamp", "0")),
    )


def _raise_unless_gone(operation: str, answer: dict[str, Any]) -> None:
    """Read a batch's response item by item. A message that is deleted already is no failure."""
    for failed in answer.get("Failed", []):
        if not is_gone(str(failed.get("Code", ""))):
            raise Unavailable(f"{operation}: {failed.get('Code')}: {failed.get('Message')}")


def _size(entry: dict[str, Any]) -> int:
    return len(entry.get("MessageBody", "").encode())
