"""A function from the start of its interpreter to the first call of AWS in its first invocation, which is traced."""

from __future__ import annotations

import importlib
import os
import sys
import time
from types import SimpleNamespace
from typing import Any, NoReturn

from bench.weighed.scale import peak, say

_BODY = (  # of a message, as the ticker sends it
    '{"v":1,"run":"bench/hello#001795240800000","job":"starter.hello","due":1795240800000,"start":"prompt","rev":1,'
    '"payload":{"to":"world"}}'
)
_RECORD = {"messageId": "m", "receiptHandle": "r", "body": _BODY, "eventSource": "aws:sqs", "attributes": {}}
_ROW = {  # of a run that has ended
    "owner": {"S": "bench/hello"},
    "key": {"S": "001795240800000"},
    "state": {"S": "SUCCEEDED"},
    "job": {"S": "j"},
    **{name: {"N": "1795240800000"} for name in ("due", "not_before", "created_at", "started_at", "ended_at")},
    **{name: {"N": "1"} for name in ("rev", "fence", "attempt")},
}
_CHANGE = {"Keys": {"owner": _ROW["owner"], "key": _ROW["key"]}, "NewImage": _ROW, "SequenceNumber": "1"}
_STREAMED = {"dynamodb": {**_CHANGE, "ApproximateCreationDateTime": 1795240801}}
_CONTEXT = SimpleNamespace(
    function_name="bench",
    memory_limit_in_mb=512,
    invoked_function_arn="arn:aws:lambda:eu-west-1:123456789012:function:bench",
    aws_request_id="bench",
    log_stream_name="bench",
    get_remaining_time_in_millis=lambda: 60_000,
)


_REQUEST = {  # of API Gateway, in format 2.0, signed by IAM
    "version": "2.0",
    "routeKey": "$default",
    "rawPath": "/v1/tenants/default/schedules",
    "rawQueryString": "",
    "headers": {"host": "bench", "accept": "application/json"},
    "requestContext": {
        "http": {"method": "GET", "path": "/v1/tenants/default/schedules", "protocol": "HTTP/1.1", "sourceIp": "::1"},
        "authorizer": {"iam": {"userArn": "arn:aws:iam::123456789012:role/bench", "userId": "bench"}},
        "stage": "$default",
    },
    "isBase64Encoded": False,
}


def main(function: str) -> None:
    module = importlib.import_module(f"functions.{function}.handler")
    services = module.services()
    for client in (services.ledger._tables.client, services.work._client):
        client.transport.connections = SimpleNamespace(post=_stop)
    module.handler(_event(function), _CONTEXT)
    raise SystemExit(f"the {function} has not called AWS")


def _event(function: str) -> dict[str, Any]:
    if function == "api":
        return _REQUEST
    return {"Records": [_STREAMED if function == "historian" else _RECORD]}


def _stop(*_: Any) -> NoReturn:
    """Here it ends, in whatever thread."""
    say(cpu_ms=time.process_time() * 1_000, peak_mb=peak())
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
