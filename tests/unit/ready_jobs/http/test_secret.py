"""Where secrets come from, and that TLS is what it says."""

from __future__ import annotations

import datetime as dt
import ipaddress
import ssl
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from minutehand import Retry
from minutehand.errors import InvalidInput, Misconfigured
from minutehand.ready_jobs.http import Secret
from minutehand.ready_jobs.http.exchange import _trust
from minutehand.ready_jobs.http.request import KEPT, Vault, resolve
from moto import mock_aws

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
    monkeypatch.setattr("minutehand.ready_jobs.http.request.time.monotonic", lambda: now[0])
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
    assert resolve(Secret(env="TOKEN_7", form="Bearer {}")) == ("Bearer {}x", ("{}x",))


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


# TLS.


def certified(folder: Path, name: str) -> tuple[ssl.SSLContext, Path]:
    """A server's context and the certificate that it shows, for 127.0.0.1 or another name."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    alternative = x509.IPAddress(ipaddress.ip_address(name)) if name[0].isdigit() else x509.DNSName(name)
    day = dt.timedelta(days=1)
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number(), now - day, now + day)
        .add_extension(x509.SubjectAlternativeName([alternative]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate, private = folder / "certificate.pem", folder / "key.pem"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    private.write_bytes(key.private_bytes(*form))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, private)
    return context, certificate


@pytest.fixture(autouse=True)
def trust_anew() -> Iterator[None]:
    _trust.cache_clear()
    yield
    _trust.cache_clear()


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
