"""A message that is hidden or deleted after somebody else has deleted it is no failure, however SQS writes that."""

from __future__ import annotations

from typing import Any

import pytest
from quarterjack.aws import BatchBackoff
from quarterjack.errors import Unavailable
from quarterjack.sqs.queues import SqsWorkQueue

CODES = [
    "ReceiptHandleIsInvalid",
    "ReceiptHandleIsInvalidException",
    "MessageNotInflight",
    "AWS.SimpleQueueService.MessageNotInflight",
    "InvalidParameterValue",
    "InvalidParameterValueException",
]


class Answers:
    """A client of SQS that refuses the first item of a batch with a code."""

    def __init__(self, code: str) -> None:
        self._code = code
        self.operations: list[str] = []

    def call(self, operation: str, **given: Any) -> dict[str, Any]:
        if operation == "get_queue_url":
            return {"QueueUrl": f"http://queue/{given['QueueName']}"}
        self.operations.append(operation)
        return {"Failed": [{"Id": "0", "Code": self._code, "Message": "Message does not exist"}]}


def queue(code: str) -> tuple[SqsWorkQueue, Answers]:
    client: Any = Answers(code)
    return SqsWorkQueue(client, "acme-work", backoff=BatchBackoff()), client


@pytest.mark.parametrize("code", CODES)
def test_what_is_gone_is_passed_over(code: str) -> None:
    work, client = queue(code)
    work.hide(["a", "b"], 30)
    work.erase(["a", "b"])
    assert client.operations == ["change_message_visibility_batch", "delete_message_batch"]


@pytest.mark.parametrize("code", ["InternalError", "InternalErrorException", "OverLimit", ""])
def test_any_other_refusal_is_a_failure(code: str) -> None:
    work, _ = queue(code)
    with pytest.raises(Unavailable):
        work.hide(["a"], 30)
