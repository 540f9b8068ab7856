"""Ready jobs that call the targets of EventBridge schedules: a function, a queue, a topic, a state machine, a bus, a stream.

    # jobs.py
    from quarterjack.ready_jobs.targets import target_job

    orders = target_job("sqs/orders", "arn:aws:sqs:eu-central-1:123456789012:orders")

A run has succeeded when the service has accepted the call, as in EventBridge. If the service removes duplicates (a FIFO queue, a
state machine), the call carries the run's idempotency key, so that a second attempt after a lost response has no second effect.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Mapping
from datetime import UTC
from typing import Any

from quarterjack.domain.job import Context, JobFunction
from quarterjack.errors import InvalidInput, QuarterjackError
from quarterjack.jobs import Registry, default_registry

_Call = Callable[[Any, str, str, Mapping[str, str], str], Any]
_making = threading.Lock()  # a botocore session is not thread-safe, a client is
_clients: dict[tuple[str, str], Any] = {}


def target_job(
    name: str,
    arn: str,
    *,
    parameters: Mapping[str, str] | None = None,
    registry: Registry = default_registry,
    **policies: Any,
) -> JobFunction:
    """Register a job that hands its payload to an AWS resource, with the policies of ``@job``.

    ``parameters`` are further fields that the target needs: MessageGroupId of a FIFO queue; Source and DetailType of a bus;
    PartitionKey of a stream. A text is sent as it is, anything else as JSON; these words in it are replaced:
    ``<aws.scheduler.scheduled-time>``, ``<aws.scheduler.execution-id>``, ``<aws.scheduler.attempt-number>``.
    Raises InvalidInput for an ARN that nothing here can call.
    """
    service, region = _place(arn)
    if service not in _CALLS:
        remedy = f"write a job for it; known are {', '.join(_CALLS)}"
        raise InvalidInput("arn", arn, "is of a service that this job cannot call", remedy)
    given = dict(parameters or {})

    def call(ctx: Context, payload: Any) -> Any:
        text = _filled(payload if isinstance(payload, str) else json.dumps(payload if payload is not None else {}), ctx)
        key = hashlib.sha256(ctx.idempotency_key.encode()).hexdigest()
        return _CALLS[service](_client(service, region), arn, text, given, key)

    call.__qualname__ = call.__name__ = f"call of {arn}"
    return registry.job(name, **policies)(call)


def can_call(arn: str) -> bool:
    return len(arn.split(":")) > 5 and _place(arn)[0] in _CALLS


def _place(arn: str) -> tuple[str, str]:
    """Service and region of an ARN. Raises InvalidInput."""
    parts = arn.split(":") if isinstance(arn, str) else []
    if len(parts) < 6 or parts[0] != "arn":
        raise InvalidInput("arn", arn, "is no ARN", "write e.g. arn:aws:sqs:eu-central-1:123456789012:orders")
    return parts[2], parts[3]


def _client(service: str, region: str) -> Any:
    with _making:
        if (service, region) not in _clients:
            import botocore.session  # noqa: PLC0415 (importing schedules calls no target)

            name = "stepfunctions" if service == "states" else service
            _clients[service, region] = botocore.session.get_session().create_client(name, region_name=region or None)
        return _clients[service, region]


def _filled(text: str, ctx: Context) -> str:
    due = f"{ctx.scheduled_at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    words = {"scheduled-time": due, "execution-id": ctx.run_id, "attempt-number": str(ctx.attempt)}
    for word, value in words.items():
        text = text.replace(f"<aws.scheduler.{word}>", value)
    return text


def _send(client: Any, arn: str, text: str, given: Mapping[str, str], key: str) -> Any:
    *_, account, queue = arn.split(":")
    url = client.get_queue_url(QueueName=queue, QueueOwnerAWSAccountId=account)["QueueUrl"]
    group = {"MessageGroupId": given["MessageGroupId"]} if "MessageGroupId" in given else {}
    if group and queue.endswith(".fifo"):
        group["MessageDeduplicationId"] = key
    return client.send_message(QueueUrl=url, MessageBody=text, **group)["MessageId"]


def _start(client: Any, arn: str, text: str, _: Mapping[str, str], key: str) -> Any:
    try:
        return client.start_execution(stateMachineArn=arn, name=key, input=text)["executionArn"]
    except client.exceptions.ExecutionAlreadyExists:  # an earlier attempt of this run started it
        return f"{arn.replace(':stateMachine:', ':execution:')}:{key}"


def _put_event(client: Any, arn: str, text: str, given: Mapping[str, str], _: str) -> Any:
    entry = {"EventBusName": arn, "Detail": text, "Source": given["Source"], "DetailType": given["DetailType"]}
    answer = client.put_events(Entries=[entry])
    (result,) = answer["Entries"]
    if answer["FailedEntryCount"]:  # it answers per entry, with HTTP status 200
        raise QuarterjackError(f"{arn} refused the event: {result.get('ErrorCode')}: {result.get('ErrorMessage')}")
    return result["EventId"]


_CALLS: Mapping[str, _Call] = {
    "lambda": lambda client, arn, text, given, key: client.invoke(
        FunctionName=arn, InvocationType="Event", Payload=text.encode()
    )["StatusCode"],
    "sqs": _send,
    "sns": lambda client, arn, text, given, key: client.publish(TopicArn=arn, Message=text)["MessageId"],
    "states": _start,
    "events": _put_event,
    "kinesis": lambda client, arn, text, given, key: client.put_record(
        StreamARN=arn, Data=text.encode(), PartitionKey=given["PartitionKey"]
    )["SequenceNumber"],
}
