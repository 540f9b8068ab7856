"""The sink that the settings choose."""

from __future__ import annotations

from typing import Any

import pytest
from quarterjack.daemon.event_sink import event_sink
from quarterjack.errors import Misconfigured
from quarterjack.ready_jobs.http.webhook import WebhookSink
from quarterjack.settings import Settings
from quarterjack.sqs.event_sinks import EventBridgeSink, SnsSink

REGION = "eu-west-1"


def chosen(**given: Any) -> object:
    return event_sink(Settings(region=REGION, endpoint="http://127.0.0.1:1", **given))


def test_by_default_nothing_is_published() -> None:
    assert chosen() is None


def test_each_target_has_its_sink(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("ACME_HOOK", "whsec_" + "A" * 32)
    assert isinstance(chosen(events="eventbridge:acme"), EventBridgeSink)
    assert isinstance(chosen(events=f"sns:arn:aws:sns:{REGION}:123456789012:runs"), SnsSink)
    made = chosen(events="webhook:https://example.com/", event_secret="env:ACME_HOOK", event_types="run.dead")
    assert isinstance(made, WebhookSink)
    assert made.types == {"run.dead"}


@pytest.mark.parametrize(
    ("given", "variable"),
    [
        ({"events": "kafka:x"}, "QUARTERJACK_EVENTS='kafka:x'"),
        ({"events": "eventbridge:acme", "event_types": "x"}, "QUARTERJACK_EVENT_TYPES='x'"),
        ({"events": "webhook:https://example.com/"}, "QUARTERJACK_EVENT_SECRET=None"),
        (
            {"events": "webhook:https://example.com/", "event_secret": "env:NOT_SET_ANYWHERE"},
            "NOT_SET_ANYWHERE",
        ),
        (
            {"events": "webhook:ftp://x/", "event_secret": "secret:x"},
            "QUARTERJACK_EVENTS=",
        ),
        (
            {"events": "webhook:https://u@x/", "event_secret": "secret:x"},
            "QUARTERJACK_EVENTS=",
        ),
        (
            {"events": "webhook:http://x/", "event_secret": "secret:x", "event_networks": "all"},
            "QUARTERJACK_EVENT_NETWORKS=",
        ),
    ],
)
def test_a_setting_that_is_wrong_is_named(monkeypatch: pytest.MonkeyPatch, given: Any, variable: str) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    with pytest.raises(Misconfigured) as refused:
        chosen(**given)
    assert variable in str(refused.value)
    assert ";" in str(refused.value), "a remedy"
