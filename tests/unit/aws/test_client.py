"""A client: errors as ours, waits told, batches in rounds, spans, and botocore where the settings ask for it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.trace import SpanKind
from quarterjack.aws import BatchBackoff, Client, ConditionFailed
from quarterjack.aws.transport import ATTEMPTS
from quarterjack.dynamodb.table_client import TableClient
from quarterjack.errors import Misconfigured, Unavailable
from quarterjack.settings import Settings

from tests.support.http_servers import REGION, VARIABLES, Response, Service, error

FAILED: Response = (500, {}, b"")
ROOT = Path(__file__).parents[3]


@pytest.fixture
def settings(service: Service, monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    return Settings(endpoint=service.url, region=REGION)


def without_waits(client: Client) -> Client:
    assert client.transport is not None
    client.transport._wait = lambda _: None
    return client


def test_a_client_tells_how_long_it_waited_whatever_the_response_was(service: Service, settings: Settings) -> None:
    service.answers += [(200, {}, b"{}"), error("AccessDeniedException")]
    waits: list[float] = []
    idle = iter([5.0, 5.25, 7.0, 7.5])
    client = Client("dynamodb", settings, waited=waits.append, idle=lambda: next(idle))
    client.call("get_item")
    with pytest.raises(Misconfigured):
        client.call("get_item")
    assert waits == [0.25, 0.5]


@pytest.mark.parametrize(
    ("service_name", "answer"),
    [
        ("sqs", error("KmsDisabled", x_amzn_query_error="KMS.DisabledException;Sender")),
        ("sqs", error("KmsAccessDenied")),
        (
            "dynamodb",
            (400, {}, b'{"__type": "x#AccessDeniedException", "message": "KMS key access denied error: disabled"}'),
        ),
    ],
)
def test_a_key_that_is_disabled_is_named_as_such(
    service: Service, settings: Settings, service_name: str, answer: Response
) -> None:
    service.answers.append(answer)
    with pytest.raises(Misconfigured, match="enable the KMS key") as refused:
        Client(service_name, settings).call("get_item")
    assert "grant" not in str(refused.value)
    assert len(service.requests) == 1


@pytest.mark.parametrize(
    ("code", "remedy", "false"),
    [
        ("UnrecognizedClientException", "AWS_ACCESS_KEY_ID", "grant"),
        ("ExpiredTokenException", "AWS_ACCESS_KEY_ID", "grant"),
        ("AccessDeniedException", "grant the caller this action", "AWS_ACCESS_KEY_ID"),
    ],
)
def test_a_caller_who_is_unknown_is_not_told_to_ask_for_permission(
    service: Service, settings: Settings, code: str, remedy: str, false: str
) -> None:
    service.answers += [error(code)]
    with pytest.raises(Misconfigured, match=remedy) as refused:
        Client("dynamodb", settings).call("get_item")
    assert false not in str(refused.value)


# Batches.


@pytest.mark.parametrize("rounds", [1, 7])
def test_one_batch_against_constant_errors_sends_one_request_a_round(
    service: Service, settings: Settings, rounds: int
) -> None:
    service.always = FAILED
    client, backoff = without_waits(Client("dynamodb", settings)), BatchBackoff(rounds=rounds, wait=lambda _: None)
    assert TableClient(client, "t", backoff=backoff).execute([{"Statement": "s", "Parameters": []}] * 25) == {}
    assert len(service.requests) == rounds


def test_many_batches_against_constant_errors_share_the_quota_of_retries(service: Service, settings: Settings) -> None:
    service.always = FAILED
    client, backoff = without_waits(Client("dynamodb", settings)), BatchBackoff(wait=lambda _: None)
    for _ in range(100):
        wanted = [("t", {"key": {"S": "k"}})]
        assert TableClient(client, "t", backoff=backoff).read(wanted) == ([], wanted)
    assert 100 < len(service.requests) <= 120, "a hundred first requests, and 20 retries at the most"


def test_a_batch_goes_on_once_the_service_does(service: Service, settings: Settings) -> None:
    service.answers += [FAILED] * 3
    client, backoff = without_waits(Client("dynamodb", settings)), BatchBackoff(wait=lambda _: None)
    service.answers.append((200, {}, b'{"UnprocessedItems": {}}'))
    put = {"PutRequest": {"Item": {"entry": {"S": "e"}}}}
    assert TableClient(client, "t", backoff=backoff).write({"e": put}) == {"e"}


# Plain botocore.


def test_botocore_sends_all_requests_where_the_settings_say_so(service: Service, settings: Settings) -> None:
    client = Client("dynamodb", Settings(endpoint=settings.endpoint, region=REGION, aws_client="botocore"))
    assert client.transport is None
    content = b'{"__type": "c#ConditionalCheckFailedException", "message": "no", "Item": {"a": {"S": "b"}}}'
    service.answers.append((400, {}, content))
    with pytest.raises(ConditionFailed) as refused:
        client.call("put_item", TableName="t", Item={})
    assert refused.value.item == {"a": {"S": "b"}}
    assert "quarterjack/" in service.requests[0].headers["user-agent"]
    assert list(client.rounds(BatchBackoff(rounds=3, wait=lambda _: None))) == [0, 1, 2]


@pytest.mark.parametrize(("variables", "attempts"), [({}, ATTEMPTS), ({"AWS_MAX_ATTEMPTS": "2"}, 2)])
def test_botocore_follows_the_sdks_retry_variables(
    service: Service,
    settings: Settings,
    variables: dict[str, str],
    attempts: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda _: None)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    service.always = FAILED
    client = Client("dynamodb", Settings(endpoint=settings.endpoint, region=REGION, aws_client="botocore"))
    with pytest.raises(Unavailable):
        client.call("get_item", TableName="t", Key={})
    assert len(service.requests) == attempts


def test_another_word_for_the_client_is_refused() -> None:
    with pytest.raises(Misconfigured, match=r"QUARTERJACK_AWS_CLIENT='boto'.*'botocore'"):
        Settings(aws_client="boto")


# The way does not depend on what is imported.

PROGRAM = """
{first}
import sys
from quarterjack.aws import Client
from quarterjack.settings import from_environment
client = Client("dynamodb", from_environment())
print(client.call("get_item"), type(client.transport).__name__, "botocore.session" in sys.modules)
"""


@pytest.mark.parametrize("first", ["", "import boto3", "import opentelemetry.trace"])
def test_requests_go_the_same_way_whatever_was_imported_first(service: Service, first: str) -> None:
    environ = {
        **VARIABLES,
        "AWS_REGION": REGION,
        "AWS_ENDPOINT_URL": service.url,
        "PYTHONPATH": f"{ROOT / 'shared'}:{ROOT}",
    }
    program = PROGRAM.format(first=first)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, env=environ)
    assert done.stdout.split() == ["{}", "Transport", str(first == "import boto3")], done.stderr
    assert service.requests[0].headers["user-agent"].startswith("quarterjack/")


# Spans.


@dataclass
class Tracer:
    """Notes the spans that are started, and how they end."""

    spans: list[tuple[str, Any, Any]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @contextmanager
    def start_as_current_span(self, name: str, *, kind: SpanKind, attributes: dict[str, str]) -> Iterator[None]:
        self.spans.append((name, kind, attributes))
        try:
            yield
        except Exception as problem:
            self.problems.append(type(problem).__name__)
            raise


def test_each_call_is_one_span_however_often_it_is_sent(
    service: Service, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracer = Tracer()
    monkeypatch.setattr(trace, "get_tracer", lambda name: tracer)
    service.answers += [FAILED, (200, {}, b"{}"), error("ResourceNotFoundException")]
    client = without_waits(Client("dynamodb", settings))
    client.call("get_item")
    with pytest.raises(Misconfigured):
        client.call("get_item")
    described = {"rpc.system": "aws-api", "rpc.service": "DynamoDB", "rpc.method": "GetItem"}
    assert tracer.spans == [("DynamoDB.GetItem", SpanKind.CLIENT, described)] * 2
    assert tracer.problems == ["ServiceError"]
    assert len(service.requests) == 3


def test_without_the_api_no_span_is_made(service: Service, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "opentelemetry.trace")
    assert Client("dynamodb", settings).call("get_item") == {}
    assert "opentelemetry.trace" not in sys.modules
