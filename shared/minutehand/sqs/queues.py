"""The work queues and the dead-letter queue in SQS."""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from minutehand.aws import BatchBackoff, Client
from minutehand.concurrency.request_pool import RequestPool
from minutehand.domain.formats.dead_letter import DeadLetter, encode_letter
from minutehand.domain.queue import MOST_STRIPES, is_queue
from minutehand.errors import MinutehandError, Unavailable
from minutehand.ports.work_queue import OutgoingMessage, RawMessage
from minutehand.sqs.queue_definitions import WORK, work_suffix
from minutehand.sqs.routing import Stripe, by_stripe, held, holder, note_detour, note_refusal
from minutehand.state.backpressure import QueueDepth

log = logging.getLogger(__name__)

BATCH = 10
_BATCH_BYTES = 1_000_000  # of 1 MiB that a batch may have in all, entries' overhead left out
_COUNTS = tuple(f"ApproximateNumberOfMessages{which}" for which in ("", "NotVisible", "Delayed"))
_UNSTRIPED: Mapping[str | None, int] = {}
_GONE = frozenset({"ReceiptHandleIsInvalid", "MessageNotInflight", "InvalidParameterValue"})

_Left = dict[Stripe, list[dict[str, Any]]]  # entries that were not accepted yet


class SqsWorkQueue:
    """The work queues: what is sent goes to the queue that each message names, what is received comes from one, ``consumes``.

    A tenant is a message group, so that SQS keeps one tenant's backlog from delaying the others. ``name`` is that of the default
    queue; those of declared queues and of stripes follow from it. ``stripes`` says how many a queue has, where it has several.
    Batches that are sent go over ``pool``.
    """

    def __init__(
        self,
        client: Client,
        name: str,
        *,
        backoff: BatchBackoff,
        consumes: str | None = None,
        stripes: Mapping[str | None, int] = _UNSTRIPED,
        pool: RequestPool | None = None,
    ) -> None:
        self._client, self._name, self._backoff = client, name, backoff
        self._pool = pool or RequestPool()
        self._consumes, self._striped = consumes, stripes
        self._queues: dict[Stripe, _Queue] = {}

    @property
    def stripes(self) -> int:
        return self._striped.get(self._consumes, 1)

    def count_stripes(self) -> int:
        return next((n for n in range(1, MOST_STRIPES) if not self._is_there(n)), MOST_STRIPES)

    def _is_there(self, stripe: int) -> bool:
        try:
            return bool(self._own(stripe).url)
        except Unavailable:
            raise
        except MinutehandError:
            return False

    def send(self, parcels: Sequence[OutgoingMessage]) -> Sequence[bool]:
        accepted = [False] * len(parcels)
        left: _Left = {
            stripe: [_entry(place, parcels[place]) for place in places]
            for stripe, places in by_stripe(parcels, self._striped).items()
        }
        for _ in self._client.rounds(self._backoff):
            left = self._send(left, accepted)
            if not left:
                break
        return accepted

    def _send(self, left: _Left, accepted: list[bool]) -> _Left:
        """All of it once, side by side; what is still left. Raises Misconfigured where the default queue is not there."""
        missing: dict[Stripe, MinutehandError] = {}
        asked = [(stripe, batch) for stripe, entries in left.items() for batch in _batches(entries)]
        for stripe, indexes, problem in self._pool.map(self._send_once, asked):
            for index in indexes:
                accepted[index] = True
            if problem is not None:
                missing[stripe] = problem
        still = {stripe: rest for stripe, entries in left.items() if (rest := _open(entries, accepted))}
        detoured: dict[Stripe, list[dict[str, Any]]] = {}
        for stripe, problem in missing.items():
            self._give_up(stripe, problem, still.pop(stripe, []), detoured)
        for stripe, entries in (self._send(detoured, accepted) if detoured else {}).items():
            still.setdefault(stripe, []).extend(entries)  # of the first stripe something may be left already
        return still

    def _give_up(
        self,
        stripe: Stripe,
        problem: MinutehandError,
        entries: list[dict[str, Any]],
        detoured: dict[Stripe, list[dict[str, Any]]],
    ) -> None:
        """What is for a stripe that is not there goes to the first; for a queue that is not there, it waits."""
        if stripe.number:
            note_detour(stripe, len(entries), problem)
            detoured.setdefault(Stripe(stripe.queue), []).extend(entries)
        elif stripe.queue is None:
            raise problem
        else:
            note_refusal(stripe.queue, len(entries), problem)

    def _send_once(
        self, asked: tuple[Stripe, list[dict[str, Any]]]
    ) -> tuple[tuple[Stripe, list[int], MinutehandError | None], int]:
        """The indexes that were accepted, or what is wrong with their stripe; and how many were throttled."""
        stripe, entries = asked
        try:
            answer = self._client.call_once("send_message_batch", QueueUrl=self._of(stripe).url, Entries=entries)
        except Unavailable:
            return (stripe, [], None), len(entries)
        except MinutehandError as problem:
            return (stripe, [], problem), 0
        for failed in answer.get("Failed", []):
            log.warning("send.failed", extra={"code": failed.get("Code"), "error": failed.get("Message")})
        accepted = [int(success["Id"]) for success in answer.get("Successful", [])]
        return (stripe, accepted, None), len(entries) - len(accepted)

    def _of(self, stripe: Stripe) -> _Queue:
        if (found := self._queues.get(stripe)) is not None:
            return found
        name = self._name + work_suffix(*stripe).removeprefix(WORK.suffix)
        return self._queues.setdefault(stripe, _Queue(self._client, name))

    def _own(self, stripe: int) -> _Queue:
        """A stripe of the queue that this process takes from."""
        return self._of(Stripe(self._consumes, stripe))

    def load(self, queues: Collection[str | None]) -> dict[str | None, Sequence[QueueDepth]]:
        asked = [Stripe(queue, n) for queue in queues for n in range(self._striped.get(queue, 1))]
        answers = self._pool.map(lambda stripe: (self._load_of(self._of(stripe)), 0), asked)
        loads: dict[str | None, list[QueueDepth]] = {queue: [] for queue in queues}
        for stripe, load in zip(asked, answers, strict=True):
            loads[stripe.queue] += [] if load is None else [load]
        return dict(loads)

    def _load_of(self, queue: _Queue) -> QueueDepth | None:
        try:
            answer = self._client.call("get_queue_attributes", QueueUrl=queue.url, AttributeNames=list(_COUNTS))
        except MinutehandError as problem:  # what is not there holds nothing; what does not answer is not judged
            log.info("queue.not_counted", extra={"error": str(problem)})
            return None
        waiting, at_hand, delayed = (int(answer.get("Attributes", {}).get(name, "0")) for name in _COUNTS)
        return QueueDepth(waiting=waiting, at_hand=at_hand, delayed=delayed)

    def names(self) -> Sequence[str]:
        prefix, urls, more = f"{self._name}-", list[str](), dict[str, Any]()
        while True:
            answer = self._client.call("list_queues", QueueNamePrefix=prefix, MaxResults=1_000, **more)
            urls += answer.get("QueueUrls", [])
            if "NextToken" not in answer:
                found = (url.rpartition("/")[2].removeprefix(prefix) for url in urls)
                return sorted(name for name in found if is_queue(name))
            more = {"NextToken": answer["NextToken"]}

    def receive(self, *, most: int, wait: float, visibility: int, stripe: int = 0) -> Sequence[RawMessage]:
        found = self._own(stripe).receive(most, wait, visibility)
        return [replace(each, receipt=held(each.receipt, stripe)) for each in found] if stripe else found

    def hide(self, receipts: Sequence[str], seconds: int) -> None:
        for_so_long = min(max(seconds, 0), 43_200)
        self._each("change_message_visibility_batch", receipts, VisibilityTimeout=for_so_long)

    def delete(self, receipt: str) -> None:
        stripe, own = holder(receipt)
        self._own(stripe).delete(own)

    def erase(self, receipts: Sequence[str]) -> None:
        self._each("delete_message_batch", receipts)

    def _each(self, operation: str, receipts: Sequence[str], **said: Any) -> None:
        """In batches, of which one that fails stops no other. Raises the first failure in the end."""
        by_number: defaultdict[int, list[str]] = defaultdict(list)
        for stripe, own in map(holder, receipts):
            by_number[stripe].append(own)
        problems: list[Unavailable] = []
        for stripe, part in ((n, of[i : i + BATCH]) for n, of in by_number.items() for i in range(0, len(of), BATCH)):
            entries = [{"Id": str(index), "ReceiptHandle": receipt, **said} for index, receipt in enumerate(part)]
            try:
                answer = self._client.call(operation, QueueUrl=self._own(stripe).url, Entries=entries)
                _raise_unless_gone(operation, answer)
            except Unavailable as problem:
                problems.append(problem)
        if problems:
            raise problems[0]


class SqsDeadQueue:
    """The dead-letter queue."""

    def __init__(self, client: Client, name: str) -> None:
        self._client, self._queue = client, _Queue(client, name)

    def send(self, letter: DeadLetter) -> None:
        self._client.call("send_message", QueueUrl=self._queue.url, MessageBody=encode_letter(letter))

    def receive(self, *, most: int, wait: float) -> Sequence[RawMessage]:
        return self._queue.receive(most, wait, None)

    def delete(self, receipt: str) -> None:
        self._queue.delete(receipt)


class _Queue:
    """What both queues have in common."""

    def __init__(self, client: Client, name: str) -> None:
        self._client, self._name = client, name
        self._url: str | None = None
        self._looking = threading.Lock()

    @property
    def url(self) -> str:
        """Looked up by name once a process."""
        if self._url is None:
            with self._looking:
                if self._url is None:
                    self._url = str(self._client.call("get_queue_url", QueueName=self._name)["QueueUrl"])
        return self._url

    def receive(self, most: int, wait: float, visibility: int | None) -> list[RawMessage]:
        arguments: dict[str, Any] = {} if visibility is None else {"VisibilityTimeout": visibility}
        answer = self._client.call(
            "receive_message",
            QueueUrl=self.url,
            MaxNumberOfMessages=max(1, min(most, BATCH)),
            WaitTimeSeconds=min(int(wait), 20),
            MessageSystemAttributeNames=["ApproximateReceiveCount"],
            **arguments,
        )
        return [
            RawMessage(
                body=message["Body"],
                receipt=message["ReceiptHandle"],
                receives=int(message.get("Attributes", {}).get("ApproximateReceiveCount", "1")),
                id=message["MessageId"],
            )
            for message in answer.get("Messages", [])
        ]

    def delete(self, receipt: str) -> None:
        try:
            self._client.call("delete_message", QueueUrl=self.url, ReceiptHandle=receipt)
        except Unavailable:
            raise
        except MinutehandError as problem:
            if not any(code in str(problem) for code in _GONE):
                raise


def _raise_unless_gone(operation: str, answer: dict[str, Any]) -> None:
    """Read a batch's answer item by item: a message that is gone already is what we wanted."""
    for failed in answer.get("Failed", []):
        if str(failed.get("Code", "")).rpartition(".")[2] not in _GONE:
            raise Unavailable(f"{operation}: {failed.get('Code')}: {failed.get('Message')}")


def _entry(index: int, parcel: OutgoingMessage) -> dict[str, Any]:
    message = parcel.message
    entry: dict[str, Any] = {
        "Id": str(index),
        "MessageBody": message.encode(),
        "DelaySeconds": parcel.delay,
        "MessageGroupId": message.run.tenant,
    }
    if message.trace:
        trace = {"DataType": "String", "StringValue": message.trace}
        entry["MessageSystemAttributes"] = {"AWSTraceHeader": trace}
    return entry


def _open(entries: Sequence[dict[str, Any]], accepted: Sequence[bool]) -> list[dict[str, Any]]:
    return [entry for entry in entries if not accepted[int(entry["Id"])]]


def _batches(entries: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Cut into batches of at most BATCH messages and 1 MiB."""
    result: list[list[dict[str, Any]]] = []
    size = 0
    for entry in entries:
        weight = len(entry["MessageBody"].encode())
        if not result or len(result[-1]) == BATCH or size + weight > _BATCH_BYTES:
            result.append([])
            size = 0
        result[-1].append(entry)
        size += weight
    return result
