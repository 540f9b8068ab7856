"""The IAM identity of the caller: one for each set of credentials."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from quarterjack.aws import identity
from quarterjack.aws.identity import CallerIdentity
from quarterjack.aws.session import AwsSession
from quarterjack.settings import from_environment

_PROFILES = """
[alice]
aws_access_key_id = ALICE
aws_secret_access_key = secret
[admin]
aws_access_key_id = ADMIN
aws_secret_access_key = secret
"""


class Sts:
    """STS: the user of an access key; counts the questions."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def client(self, _service: str, _settings: object, session: AwsSession, **_: object) -> Any:
        self.session = session
        return self

    def call(self, operation: str) -> dict[str, str]:
        assert operation == "get_caller_identity"
        key = self.session.credentials().access_key
        self.asked.append(key)
        return {"Arn": f"arn:aws:iam::1:user/{key.lower()}"}


@pytest.fixture
def sts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Sts:
    made = Sts()
    monkeypatch.setattr(identity, "Client", made.client)
    monkeypatch.setattr(identity, "_known", {})
    (tmp_path / "credentials").write_text(_PROFILES)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    return made


def test_every_profile_of_a_process_has_its_own_identity(sts: Sts, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    for profile in ("alice", "admin", "alice"):
        monkeypatch.setenv("AWS_PROFILE", profile)
        who = CallerIdentity(from_environment(), AwsSession())
        seen += [who(), who()]
    alice, admin = "iam:arn:aws:iam::1:user/alice", "iam:arn:aws:iam::1:user/admin"
    assert seen == [alice, alice, admin, admin, alice, alice]
    assert sts.asked == ["ALICE", "ADMIN"], "once for each key"


def test_keys_in_the_environment_have_theirs(sts: Sts, monkeypatch: pytest.MonkeyPatch) -> None:
    for key in ("A", "B"):
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", key)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        assert CallerIdentity(from_environment(), AwsSession())() == f"iam:arn:aws:iam::1:user/{key.lower()}"
    assert sts.asked == ["A", "B"]


def test_a_process_without_credentials_says_so(sts: Sts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    assert CallerIdentity(from_environment(), AwsSession())().startswith("iam:unknown (no AWS credentials")
    assert sts.asked == []
