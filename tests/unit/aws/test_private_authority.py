"""A local cloud at ``https`` with an authority of its own, as Amazon's emulator is one: keys and certificate from files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from quarterjack.aws import Client
from quarterjack.errors import Misconfigured
from quarterjack.settings import from_environment

from tests.support.http_servers import Service, certificate_in, serving

# What each client is asked, and where an answer of `{}` will do.
ASKED: list[tuple[str, str, str, dict[str, Any]]] = [
    ("quarterjack", "dynamodb", "list_tables", {}),
    ("quarterjack", "sqs", "list_queues", {}),
    ("botocore", "dynamodb", "list_tables", {}),
    ("botocore", "sqs", "list_queues", {}),
    ("quarterjack", "secretsmanager", "list_secrets", {}),  # by botocore in any case
]
asked = pytest.mark.parametrize(("client", "service", "operation", "arguments"), ASKED)


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    return certificate_in(tmp_path)


@pytest.fixture
def emulator(authority: Path) -> Iterator[Service]:
    with serving(authority) as made:
        yield made


@pytest.fixture(autouse=True)
def _nothing_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in (
        "ACCESS_KEY_ID",
        "SECRET_ACCESS_KEY",
        "SESSION_TOKEN",
        "PROFILE",
        "CA_BUNDLE",
        "REGION",
        "ENDPOINT_URL",
    ):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    for name in ("AWS_DEFAULT_REGION", "REQUESTS_CA_BUNDLE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def configured(monkeypatch: pytest.MonkeyPatch, folder: Path, text: str) -> None:
    """A configuration file outside of the home folder, with the profile `emulator`."""
    keys = "region = eu-west-1\naws_access_key_id = AKIAEMULATOR\naws_secret_access_key = made-at-its-start"
    (folder / "config").write_text(f"[profile emulator]\n{keys}\n{text}\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(folder / "config"))
    monkeypatch.setenv("AWS_PROFILE", "emulator")


def call(client: str, service: str, operation: str, arguments: dict[str, Any], patch: pytest.MonkeyPatch) -> Any:
    patch.setenv("QUARTERJACK_AWS_CLIENT", client)
    patch.setenv("AWS_MAX_ATTEMPTS", "1")
    return Client(service, from_environment()).call(operation, **arguments)


@asked
@pytest.mark.parametrize("by", ["profile", "services", "variables"])
def test_a_service_of_a_private_authority_is_asked(
    by: str,
    client: str,
    service: str,
    operation: str,
    arguments: dict[str, Any],
    emulator: Service,
    authority: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    section = service.replace("secretsmanager", "secrets_manager")
    configured(
        monkeypatch,
        tmp_path,
        {
            "profile": f"endpoint_url = {emulator.url}\nca_bundle = {authority}",
            "services": f"ca_bundle = {authority}\nservices = here\n[services here]\n{section} =\n  endpoint_url = {emulator.url}",
            "variables": "",
        }[by],
    )
    if by == "variables":
        monkeypatch.setenv("AWS_ENDPOINT_URL", emulator.url)
        monkeypatch.setenv("AWS_CA_BUNDLE", str(authority))
    call(client, service, operation, arguments, monkeypatch)
    (request,) = emulator.requests
    assert "Credential=AKIAEMULATOR/" in request.headers["authorization"]
    assert f"/eu-west-1/{service}/" in request.headers["authorization"]


@asked
def test_another_authority_is_an_error_that_names_the_setting(
    client: str,
    service: str,
    operation: str,
    arguments: dict[str, Any],
    emulator: Service,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As after a restart of the emulator, which signs with a new authority."""
    (tmp_path / "old").mkdir()
    configured(monkeypatch, tmp_path, f"endpoint_url = {emulator.url}\nca_bundle = {certificate_in(tmp_path / 'old')}")
    with pytest.raises(Misconfigured) as caught:
        call(client, service, operation, arguments, monkeypatch)
    for named in emulator.url, "certificate verify failed", "set AWS_CA_BUNDLE, or ca_bundle of the profile":
        assert named in str(caught.value)
    assert emulator.requests == []


@asked
def test_without_its_authority_nothing_is_sent(
    client: str,
    service: str,
    operation: str,
    arguments: dict[str, Any],
    emulator: Service,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    configured(monkeypatch, tmp_path, f"endpoint_url = {emulator.url}")
    with pytest.raises(Misconfigured, match="AWS_CA_BUNDLE"):
        call(client, service, operation, arguments, monkeypatch)
    assert emulator.requests == []


def test_the_variable_goes_before_the_profile(
    emulator: Service, authority: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configured(monkeypatch, tmp_path, f"endpoint_url = {emulator.url}\nca_bundle = {tmp_path / 'missing.pem'}")
    monkeypatch.setenv("AWS_CA_BUNDLE", str(authority))
    call("quarterjack", "dynamodb", "list_tables", {}, monkeypatch)
    assert len(emulator.requests) == 1
