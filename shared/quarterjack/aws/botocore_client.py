"""Requests by botocore alone: for all services but DynamoDB and SQS, and for these if QUARTERJACK_AWS_CLIENT says so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, NoRegionError, SSLError

from quarterjack.aws.errors import NoResponse, ServiceError, untrusted
from quarterjack.aws.session import AwsSession, no_credentials, no_region
from quarterjack.aws.transport import ATTEMPTS, USER_AGENT
from quarterjack.clock import system_clock
from quarterjack.errors import Misconfigured
from quarterjack.settings import Settings

_CONNECT_TIMEOUT, _READ_TIMEOUT = 3, 25  # seconds; a long poll takes 20
_POOL = 50  # connections


def new_client(session: AwsSession, service: str, settings: Settings, config: Mapping[str, Any]) -> Any:
    """A client of botocore's, configured by the SDK's variables; ``config`` are fields of its Config. Raises Misconfigured."""
    defaults = {
        "connect_timeout": _CONNECT_TIMEOUT,
        "read_timeout": _READ_TIMEOUT,
        "max_pool_connections": _POOL,
        "user_agent": USER_AGENT,  # botocore would compose its own anew for every call
        "parameter_validation": False,  # every argument is made here, of checked values
        **_retries(session),
    }
    try:
        return session.botocore.create_client(
            service,
            endpoint_url=settings.endpoint_of(service),
            region_name=settings.region,
            config=Config(**{**defaults, **config}),
        )
    except NoRegionError as problem:
        raise no_region(settings, problem) from problem
    except ValueError as problem:
        raise Misconfigured(
            f"AWS_REGION={settings.region!r}: {problem}; set it to the region of your stack"
        ) from problem


def call(client: Any, operation: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """One operation. Raises ServiceError, NoResponse, Misconfigured."""
    sent = system_clock.steady()
    try:
        answer: dict[str, Any] = getattr(client, operation)(**arguments)
    except ClientError as problem:
        _hear(problem.response, sent)
        raise ServiceError(problem.response) from problem
    except NoCredentialsError as problem:
        raise no_credentials() from problem
    except SSLError as problem:
        if "certificate verify failed" in str(problem):
            raise untrusted(client.meta.endpoint_url, problem) from problem
        raise NoResponse(str(problem)) from problem
    except BotoCoreError as problem:  # connection refused, timeouts
        raise NoResponse(str(problem)) from problem
    _hear(answer, sent)
    return answer


def _hear(answer: Mapping[str, Any], sent: int) -> None:
    """What time it is, by the service."""
    system_clock.heard(answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date"), sent)


def _retries(session: AwsSession) -> dict[str, Any]:
    """Botocore's standard mode, unless the SDK's variables say otherwise: what a Config says goes before them."""
    if session.variables.retry_mode or session.variables.max_attempts:
        return {}
    return {"retries": {"mode": "standard", "total_max_attempts": ATTEMPTS}}
