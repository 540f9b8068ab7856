"""A notifier that is an SNS topic, on moto and the local cloud: a worker publishes, and a subscriber gets what the ticker would send."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from quarterjack import Registry, Retry, Run
from quarterjack.domain.notice import Notice, NoticeKind
from quarterjack.ready_jobs.notifiers import sns_notifier
from quarterjack.testing import Harness

from tests.support.builders import a_notice
from tests.support.engines import Engine
from tests.support.topics import a_topic

NOTICE = a_notice(
    kind=NoticeKind.RECOVERY,
    schedule="reports/daily",
    incident="failure-1",
    began="2026-05-04T12:00:00.000Z",
    at="2026-05-04T13:00:00.000Z",
    text="acme/reports/daily has recovered.",
)


def told(engine: Engine, topic: str, monkeypatch: pytest.MonkeyPatch, notice: Notice = NOTICE) -> Run:
    """The run of the notifier, at its end."""
    monkeypatch.setattr("quarterjack.ready_jobs.notifiers.from_environment", lambda: engine.settings)
    jobs = Registry()
    to = sns_notifier("ops.topic", topic, retry=Retry(max_attempts=3, base=1), registry=jobs)
    harness = Harness(jobs, at=datetime(2026, 5, 4, 13, tzinfo=UTC), tenant="acme")
    run = harness.scheduler.submit(to.removeprefix("job:"), notice.document())
    harness.advance(minutes=5)
    return harness.scheduler.get_run(run.id)


def test_a_subscriber_gets_what_the_ticker_would_send(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    topic, got = a_topic(engine)
    assert told(engine, topic, monkeypatch).state == "SUCCEEDED"
    (letter,) = got()
    assert json.loads(letter["Message"]) == NOTICE.document()
    said = {name: attribute["Value"] for name, attribute in letter["MessageAttributes"].items()}
    assert said == {"kind": "recovery", "tenant": "acme", "schedule": "reports/daily", "job": "report"}


def test_a_fifo_topic_gets_a_notice_once(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    topic, got = a_topic(engine, fifo=True)
    for notice in (NOTICE, NOTICE, replace(NOTICE, at="2026-05-04T14:00:00.000Z")):
        assert told(engine, topic, monkeypatch, notice).state == "SUCCEEDED"
    assert len(got()) == 2


def test_a_topic_that_is_not_there_is_permanent(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    topic, _ = a_topic(engine)
    run = told(engine, f"{topic}-gone", monkeypatch)
    assert (run.state, run.attempt, run.error_type) == ("DEAD", 1, "Permanent")
