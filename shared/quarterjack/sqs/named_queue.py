"""One SQS queue by its name: its address, what is received from it and deleted in it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from quarterjack.aws import Client
from quarterjack.concurrency.forks import HoldsLocks
from quarterjack.errors import QuarterjackError, Unavailable
from quarterjack.ports.queues import RawMessage
from quarterjack.sqs.routing import BATCH

_GONE = ("ReceiptHandleIsInvalid", "MessageNotInflight", "InvalidParameterValue")
_SYSTEM_ATTRIBUTES = ["ApproximateReceiveCount", "SentTimestamp"]


class NamedQueue(HoldsLocks):
    """One SQS queue by its name."""

    def __init__(self, client: Client, name: str) -> None:
        self._client, self._name = client, name
        self._url: str | None = None
        super().__init__()

    def _make_locks(self) -> None:
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        """Read by name once a process."""
        if self._url is None:
            with self._lock:
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
            MessageSystemAttributeNames=_SYSTEM_ATTRIBUTES,
            **arguments,
        )
        return [_delivered(message, message.get("Attributes", {})) for message in answer.get("Messages", [])]

    def delete(self, receipt: str) -> None:
        try:
            self._client.call("delete_message", QueueUrl=self.url, ReceiptHandle=receipt)
        except Unavailable:
            raise
        except QuarterjackError as problem:
            if not any(code in str(problem) for code in _GONE):
                raise


def is_gone(code: str) -> bool:
    """Whether an item of a batch was refused because its message is not in flight any more.

    A code may have a prefix with dots, and the end ``Exception``: in answers of JSON SQS has the names of its classes.
    """
    return code.rpartition(".")[2].removesuffix("Exception") in _GONE


def _delivered(message: Mapping[str, Any], attributes: Mapping[str, str]) -> RawMessage:
    return RawMessage(
        body=message["Body"],
        receipt=message["ReceiptHandle"],
        receives=int(attributes.get("ApproximateReceiveCount", "1")),
        id=message["MessageId"],
        sent_at=int(attributes.get("SentTimestamp", "0")),
    )
