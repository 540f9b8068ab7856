"""Secrets of tenants in Parameter Store: where they are, for how long they are known, and what an error says."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws
from quarterjack.aws import Client
from quarterjack.aws.errors import ServiceError, translated
from quarterjack.aws.secrets import KEPT, SsmSecrets
from quarterjack.errors import InvalidInput, Misconfigured, Unavailable
from quarterjack.ports.secrets import LARGEST
from quarterjack.settings import Settings

REGION = "eu-west-1"


@pytest.fixture
def ssm(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("AWS_REGION", REGION)
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    with mock_aws():
        yield boto3.client("ssm", region_name=REGION)


class Clock:
    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at


def secrets_of(prefix: str = "quarterjack", clock: Clock | None = None) -> SsmSecrets:
    return SsmSecrets(lambda: Client("ssm", Settings(region=REGION)), prefix, now=clock or Clock())


def test_a_secret_is_a_decrypted_parameter_under_its_tenants_path(ssm: Any) -> None:
    ssm.put_parameter(Name="/quarterjack/tenants/acme/crm", Value="hush-acme\n", Type="SecureString")
    ssm.put_parameter(Name="/quarterjack/tenants/beta/crm", Value="hush-beta", Type="SecureString")
    ssm.put_parameter(Name="/other/tenants/acme/crm", Value="hush-other", Type="SecureString")
    assert secrets_of().get("acme", "crm") == "hush-acme"
    assert secrets_of().get("beta", "crm") == "hush-beta"
    assert secrets_of("other").get("acme", "crm") == "hush-other"


@pytest.mark.parametrize(
    "name",
    ["", "../beta/crm", "..", ".", ".hidden", "a/b", "/a", "a:3", "a b", "a\n", "ä", "~x", "*", "x" * 101, 7, None],
)
def test_a_name_that_could_lead_elsewhere_is_refused_before_anything_is_asked(name: Any) -> None:
    def nobody() -> Client:
        raise AssertionError("asked")

    secrets = SsmSecrets(nobody, "quarterjack")
    for call in (secrets.get, secrets.delete):
        with pytest.raises(InvalidInput, match="is not a valid name"):
            call("acme", name)
    with pytest.raises(InvalidInput, match="is not a valid name"):
        secrets.put("acme", name, "hush-0123")
    for tenant in ("acme/..", "*", "", "a/b"):
        with pytest.raises(InvalidInput, match="tenant"):
            secrets.get(tenant, "crm")
        with pytest.raises(InvalidInput, match="tenant"):
            secrets.list(tenant)


def test_a_value_is_known_for_five_minutes(ssm: Any) -> None:
    clock = Clock()
    secrets = secrets_of(clock=clock)
    place = "/quarterjack/tenants/acme/crm"
    ssm.put_parameter(Name=place, Value="first", Type="SecureString")
    assert secrets.get("acme", "crm") == "first"
    ssm.put_parameter(Name=place, Value="second", Type="SecureString", Overwrite=True)
    clock.at = KEPT - 1
    assert secrets.get("acme", "crm") == "first"
    clock.at = KEPT
    assert secrets.get("acme", "crm") == "second"
    ssm.delete_parameter(Name=place)
    clock.at = 2 * KEPT
    for _ in range(2):
        with pytest.raises(Misconfigured, match="no secret 'crm'"):  # a value that is gone is used no longer
            secrets.get("acme", "crm")
    ssm.put_parameter(Name=place, Value="third", Type="SecureString")
    clock.at += 5
    assert secrets.get("acme", "crm") == "third"


def test_what_is_missing_names_parameter_tenant_and_command(ssm: Any) -> None:
    with pytest.raises(Misconfigured) as raised:
        secrets_of().get("acme", "crm")
    assert "/quarterjack/tenants/acme/crm" in str(raised.value)
    assert "quarterjack --tenant acme secrets set crm" in str(raised.value)


class Failing:
    """A service that answers with an error, and counts how often it was asked."""

    def __init__(self, code: str, status: int = 400) -> None:
        self.asked = 0
        self._response = {"Error": {"Code": code, "Message": "no"}, "ResponseMetadata": {"HTTPStatusCode": status}}

    def call(self, operation: str, **_: Any) -> dict[str, Any]:
        self.asked += 1
        problem = ServiceError(self._response)
        raise translated(self._response, operation) from problem


def failing(code: str, status: int = 400) -> tuple[SsmSecrets, Failing, Clock]:
    service, clock = Failing(code, status), Clock()
    client: Any = service
    return SsmSecrets(lambda: client, "quarterjack", now=clock), service, clock


def test_a_missing_permission_is_named_with_the_parameter() -> None:
    secrets, service, clock = failing("AccessDeniedException")
    for _ in range(3):
        with pytest.raises(Misconfigured) as raised:
            secrets.get("acme", "crm")
        assert "/quarterjack/tenants/acme/crm" in str(raised.value)
        assert "ssm:GetParameter on parameter/quarterjack/tenants/*" in str(raised.value)
        assert "kms:Decrypt" in str(raised.value)
    assert service.asked == 1  # a thousand runs a second that lack it do not use up the quota
    clock.at = 5
    with pytest.raises(Misconfigured):
        secrets.get("acme", "crm")
    assert service.asked == 2
    with pytest.raises(Misconfigured, match="ssm:PutParameter"):
        secrets.put("acme", "crm", "hush-0123")


def test_a_throttled_service_fails_the_attempt_and_is_asked_again() -> None:
    secrets, service, _ = failing("ThrottlingException")
    for _ in range(2):
        with pytest.raises(Unavailable, match="/quarterjack/tenants/acme/crm cannot be read now"):
            secrets.get("acme", "crm")
    assert service.asked == 2


def test_a_value_too_short_to_be_masked_is_not_used(ssm: Any) -> None:
    ssm.put_parameter(Name="/quarterjack/tenants/acme/pin", Value="123", Type="SecureString")
    with pytest.raises(Misconfigured, match="shorter than 4 characters") as raised:
        secrets_of().get("acme", "pin")
    assert "123" not in str(raised.value)


def test_what_is_set_is_listed_and_deleted(ssm: Any) -> None:
    secrets = secrets_of()
    for number in range(23):  # more than a page
        secrets.put("acme", f"s{number:02}", f"hush-{number:04}")
    secrets.put("acme", "s00", "hush-anew")
    secrets.put("acmee", "s00", "hush-other")
    assert secrets.get("acme", "s00") == "hush-anew"
    listed = secrets.list("acme")
    assert [secret.name for secret in listed] == [f"s{number:02}" for number in range(23)]
    assert (listed[0].version, listed[1].version) == (2, 1)
    assert listed[0].changed_at is not None
    assert "hush" not in repr(listed)
    stored = ssm.get_parameter(Name="/quarterjack/tenants/acme/s01")["Parameter"]
    assert stored["Type"] == "SecureString"
    assert secrets.delete("acme", "s00")
    assert not secrets.delete("acme", "s00")
    with pytest.raises(Misconfigured):
        secrets.get("acme", "s00")
    assert secrets.get("acmee", "s00") == "hush-other"


def test_a_new_value_is_used_at_once_where_it_was_set(ssm: Any) -> None:
    secrets = secrets_of()
    secrets.put("acme", "crm", "first")
    assert secrets.get("acme", "crm") == "first"
    secrets.put("acme", "crm", "second")
    assert secrets.get("acme", "crm") == "second"


@pytest.mark.parametrize("value", ["", "abc", " abc \n", "x" * (LARGEST + 1), "ü" * LARGEST, "hush\0hush"])
def test_a_value_that_cannot_be_stored_is_refused_and_not_shown(value: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        secrets_of().put("acme", "crm", value)
    assert raised.value.value == "…"


def test_threads_that_need_the_same_secret_ask_once() -> None:
    class Slow:
        asked = 0
        inside = threading.Event()
        going = threading.Event()

        def call(self, operation: str, **_: Any) -> dict[str, Any]:
            Slow.asked += 1
            self.inside.set()
            assert self.going.wait(10)
            return {"Parameter": {"Value": "hush-0123"}}

    client: Any = Slow()
    secrets, got = SsmSecrets(lambda: client, "quarterjack"), list[str]()
    threads = [threading.Thread(target=lambda: got.append(secrets.get("acme", "crm"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    assert Slow.inside.wait(10)
    Slow.going.set()
    for thread in threads:
        thread.join(10)
    assert (got, Slow.asked) == (["hush-0123"] * 8, 1)
