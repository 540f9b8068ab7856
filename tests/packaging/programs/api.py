"""The extra api: the function answers a request of API Gateway."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from functions.api.handler import handler

CONTEXT = SimpleNamespace(function_name="f", memory_limit_in_mb=512, invoked_function_arn="arn", aws_request_id="r")
HTTP = {"method": "GET", "path": "/v1/tenants/default/schedules", "protocol": "HTTP/1.1", "sourceIp": "192.0.2.1"}
EVENT: dict[str, Any] = {
    "version": "2.0",
    "routeKey": "$default",
    "rawPath": HTTP["path"],
    "rawQueryString": "",
    "headers": {"host": "api.example.com", "x-forwarded-proto": "https", "x-forwarded-port": "443"},
    "requestContext": {"http": HTTP, "domainName": "api.example.com", "stage": "$default", "requestId": "r"},
    "isBase64Encoded": False,
}
answered = handler(EVENT, CONTEXT)
assert answered["statusCode"] == 401, answered
