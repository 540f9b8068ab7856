"""Our signatures are botocore's."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import botocore.auth
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import ReadOnlyCredentials
from quarterjack.aws.session import Signer

NOW = datetime(2026, 11, 21, 6, 0, 59, tzinfo=UTC)
ANYBODY = ReadOnlyCredentials("AKIAEXAMPLE", "secret/with+signs", None)
URLS = [
    "https://dynamodb.eu-central-1.amazonaws.com/",
    "https://dynamodb.eu-central-1.amazonaws.com:443/",
    "http://127.0.0.1:4566/",
    "http://LocalHost:80/",
    "https://gateway.example:8443/aws/dynamo~db/",
    "http://[::1]:4566/",
]


def botocores(url: str, own: dict[str, str], body: bytes, credentials: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda: NOW)
    headers = {"Content-Type": "application/x-amz-json-1.0", "User-Agent": "quarterjack", **own}
    request = AWSRequest("POST", url, headers=headers, data=body)
    SigV4Auth(credentials, "dynamodb", "eu-central-1").add_auth(request)
    return str(request.headers["Authorization"])


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("credentials", [ANYBODY, ANYBODY._replace(token="session+token/==")])
@pytest.mark.parametrize("body", [b"{}", '{"name":"Ünïcode 🕰"}'.encode()])
def test_a_signature_is_what_botocore_would_sign(
    url: str, credentials: ReadOnlyCredentials, body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = "DynamoDB_20120810.BatchExecuteStatement"
    headers = Signer("dynamodb", "eu-central-1", url).headers(target, body, credentials, NOW)
    assert headers["authorization"] == botocores(url, {"X-Amz-Target": target}, body, credentials, monkeypatch)
    assert headers.get("x-amz-security-token") == credentials.token


@pytest.mark.parametrize("credentials", [ANYBODY, ANYBODY._replace(token="session+token/==")])
def test_a_header_of_another_name_has_its_place_among_those_that_are_signed(
    credentials: ReadOnlyCredentials, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = "https://gateway.example/2015-03-31/functions/arn%3Aaws%3Alambda%3Aacme-ticker_1/invocations"
    for own in ("x-amz-invocation-type", "x-amz-z"):
        headers = Signer("dynamodb", "eu-central-1", url, own=own).headers("Event", b"{}", credentials, NOW)
        assert headers[own] == "Event"
        assert headers["authorization"] == botocores(url, {own: "Event"}, b"{}", credentials, monkeypatch)


def test_a_header_of_every_request_is_signed(monkeypatch: pytest.MonkeyPatch) -> None:
    query = {"x-amzn-query-mode": "true"}
    headers = Signer("dynamodb", "eu-central-1", URLS[0], fixed=query).headers("t", b"{}", ANYBODY, NOW)
    assert headers["x-amzn-query-mode"] == "true"
    assert headers["authorization"] == botocores(URLS[0], {"X-Amz-Target": "t", **query}, b"{}", ANYBODY, monkeypatch)


def test_the_key_follows_the_day_and_the_credentials() -> None:
    def signature(signer: Signer, credentials: ReadOnlyCredentials, now: datetime) -> str:
        return signer.headers("t", b"{}", credentials, now)["authorization"]

    kept = Signer("sqs", "eu-central-1", URLS[0])
    for credentials in (ANYBODY, ANYBODY._replace(secret_key="rotated")):
        for now in (NOW, NOW.replace(day=22)):
            assert signature(kept, credentials, now) == signature(
                Signer("sqs", "eu-central-1", URLS[0]), credentials, now
            )


def test_a_key_that_another_thread_derives_meanwhile_signs_nothing_of_this_one() -> None:
    """Credentials are refreshed, or a day begins, between the look at the key and its use."""

    class Raced(Signer):
        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, value)
            if name == "_key" and value[0]:
                super().__setattr__(name, ("another secret", "20261121", b"another key"))

    raced, alone = (kind("dynamodb", "eu-central-1", URLS[0]) for kind in (Raced, Signer))
    assert raced.headers("T", b"{}", ANYBODY, NOW) == alone.headers("T", b"{}", ANYBODY, NOW)
