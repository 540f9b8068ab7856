"""The IAM identity of a process: asked once, and not known is no reason to stop."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from quarterjack import Scheduler, Settings
from quarterjack.aws import AwsSession, CallerIdentity, identity
from quarterjack.errors import Misconfigured, Unavailable
from quarterjack.services import connect


@pytest.fixture(autouse=True)
def _unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "_known", {})


@pytest.fixture
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")


class Sts:
    """Answers, or fails, as it is told."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.asked = list(answers), 0

    def __call__(self, *given: Any, **config: Any) -> Sts:
        return self

    def call(self, operation: str) -> dict[str, str]:
        self.asked += 1
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return {"Arn": answer}


@pytest.mark.usefixtures("_keys")
def test_it_is_asked_once_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    sts = Sts("arn:aws:iam::1:role/r")
    monkeypatch.setattr(identity, "Client", sts)
    for _ in range(3):
        who = CallerIdentity(Settings(region="eu-west-1"), AwsSession())
        assert who() == who() == "iam:arn:aws:iam::1:role/r"
    assert sts.asked == 1


@pytest.mark.usefixtures("_keys")
@pytest.mark.parametrize("problem", [Unavailable("GetCallerIdentity: timed out"), Misconfigured("no credentials")])
def test_without_an_answer_the_line_says_why_and_it_is_asked_again_later(
    problem: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    sts, now = Sts(problem, "arn:aws:iam::1:user/u"), [1_000.0]
    monkeypatch.setattr(identity, "Client", sts)
    monkeypatch.setattr("quarterjack.aws.identity.time.monotonic", lambda: now[0])
    who = CallerIdentity(Settings(region="eu-west-1"), AwsSession())
    assert who() == who() == f"iam:unknown ({problem})"
    assert sts.asked == 1
    now[0] += 301
    assert who() == "iam:arn:aws:iam::1:user/u"


@pytest.mark.usefixtures("_keys")
def test_a_long_one_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "Client", Sts("a" * 400))
    assert len(CallerIdentity(Settings(region="eu-west-1"), AwsSession())()) == 256


@pytest.mark.cloud
def test_the_local_cloud_tells_it_and_acts_have_it(local_settings: Settings) -> None:
    owner = Scheduler("acme", settings=replace(local_settings))
    owner.create_schedule("s", "j", "0 0 1 1 *")
    (line,) = owner.audit().items
    assert line.actor.startswith("iam:arn:aws:")
    assert line.identity is None
    assert connect(local_settings).identity() == line.actor
