"""Where secrets come from, and that TLS is what it says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from moto import mock_aws
from quarterjack import Retry
from quarterjack.errors import InvalidInput, Misconfigured
from quarterjack.ready_jobs.http import Secret
from quarterjack.ready_jobs.http.secrets import KEPT, Vault, mask, resolve, without_beginning

from tests.support.certificates import certified
from tests.support.http_endpoint import serving
from tests.support.http_jobs import harness_of, once


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    with mock_aws():
        yield


def test_a_parameter_is_read_decrypted(cloud: None) -> None:
    boto3.client("ssm", region_name="eu-west-1").put_parameter(Name="/crm/token", Value="p-1", Type="SecureString")
    assert Vault().value(Secret(parameter="/crm/token")) == "p-1"


def test_a_secret_is_read_whole_or_by_its_key(cloud: None) -> None:
    manager = boto3.client("secretsmanager", region_name="eu-west-1")
    manager.create_secret(Name="crm", SecretString='{"token": "s-1"}')
    vault = Vault()
    assert vault.value(Secret(secret="crm")) == '{"token": "s-1"}'
    assert vault.value(Secret(secret="crm", key="token")) == "s-1"
    with pytest.raises(Misconfigured, match="not a JSON object with the key 'user'"):
        vault.value(Secret(secret="crm", key="user"))
    with pytest.raises(Misconfigured, match="ResourceNotFound"):
        vault.value(Secret(secret="other"))


def test_a_rotated_secret_is_used_after_five_minutes(cloud: None, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("quarterjack.ready_jobs.http.secrets.time.monotonic", lambda: now[0])
    parameters, vault, token = boto3.client("ssm", region_name="eu-west-1"), Vault(), Secret(parameter="token")
    parameters.put_parameter(Name="token", Value="old", Type="String")
    assert vault.value(token) == "old"
    parameters.put_parameter(Name="token", Value="new", Type="String", Overwrite=True)
    now[0] = KEPT
    assert vault.value(token) == "old"
    now[0] = KEPT + 1
    assert vault.value(token) == "new"


def test_the_form_surrounds_the_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN_7", "{}x")
    assert resolve(Secret(env="TOKEN_7", form="Bearer {}"), allow_env=True) == ("Bearer {}x", ("{}x",))


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"env": ""},
        {"env": "A", "secret": "b"},
        {"env": "A", "key": "k"},
        {"env": "A", "form": "Bearer"},
        {"env": 7},
    ],
)
def test_a_secret_names_one_place(given: dict[str, str]) -> None:
    with pytest.raises(InvalidInput):
        Secret(**given)


def test_an_empty_secret_is_an_error(cloud: None, monkeypatch: pytest.MonkeyPatch) -> None:
    manager = boto3.client("secretsmanager", region_name="eu-west-1")
    manager.create_secret(Name="blank", SecretString=" \n")
    manager.create_secret(Name="keys", SecretString='{"token": "", "none": null}')
    boto3.client("ssm", region_name="eu-west-1").put_parameter(Name="blank", Value=" ", Type="SecureString")
    monkeypatch.setenv("BLANK", " ")
    for secret in (
        Secret(secret="blank"),
        Secret(secret="keys", key="token"),
        Secret(secret="keys", key="none"),
        Secret(parameter="blank"),
        Secret(env="BLANK"),
    ):
        with pytest.raises(Misconfigured, match="empty"):
            Vault().value(secret, allow_env=True)


def test_a_variable_is_read_under_quarterjack_local_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRM_TOKEN", "hush-9")
    for endpoint in (None, "https://vpce-1.dynamodb.eu-west-1.vpce.amazonaws.com"):
        if endpoint is None:
            monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
        else:
            monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        with pytest.raises(Misconfigured, match="allow_env_secrets=True"):
            Vault().value(Secret(env="CRM_TOKEN"))
    assert Vault().value(Secret(env="CRM_TOKEN"), allow_env=True) == "hush-9"
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:4566")
    assert Vault().value(Secret(env="CRM_TOKEN")) == "hush-9"


@pytest.mark.parametrize(
    "echoed",
    [
        'p/a "ss"&word+1',
        "p%2Fa%20%22ss%22%26word%2B1",
        "p%2Fa+%22ss%22%26word%2B1",
        'p/a \\"ss\\"&word+1',
        "p/a &quot;ss&quot;&amp;word+1",
        "cC9hICJzcyImd29yZCsx",
    ],
)
def test_a_secret_is_masked_in_the_usual_encodings(echoed: str) -> None:
    assert mask(['p/a "ss"&word+1'], f"you sent <{echoed}>") == "you sent <[secret]>"


def test_a_secret_that_is_cut_off_with_its_body_is_not_half_shown() -> None:
    text = mask(["hush-0123456789"], "long text, hush-01234")
    assert "hush" not in without_beginning(["hush-0123456789"], text)


# TLS.


def test_a_certificate_of_an_authority_that_is_trusted_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context, certificate = certified(tmp_path, "127.0.0.1")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with serving(context) as endpoint:
        endpoint.answers((200, {}, b"over TLS"))
        assert once(harness_of(endpoint.url)).result["body"] == "over TLS"
        assert endpoint.url.startswith("https://")


@pytest.mark.parametrize(("name", "trusted"), [("127.0.0.1", False), ("other.example", True)])
def test_a_certificate_that_proves_nothing_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, trusted: bool
) -> None:
    context, certificate = certified(tmp_path, name)
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with serving(context) as endpoint:
        run = once(harness_of(endpoint.url, retry=Retry(max_attempts=1)))
        assert endpoint.asked == []
    assert (run.state, run.error_type) == ("DEAD", "ConnectionError")
    assert "certificate verify failed" in str(run.error)
