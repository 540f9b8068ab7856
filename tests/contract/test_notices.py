"""Notices to topics, on moto and the local cloud: what subscribers get."""

from __future__ import annotations

import json

import pytest
from quarterjack.errors import QuarterjackError

from tests.support.builders import a_notice
from tests.support.engines import Engine
from tests.support.topics import a_topic

NOTICE = a_notice(
    schedule="reports/daily",
    incident="failure-1",
    began="2026-05-04T12:00:00.000Z",
    at="2026-05-04T12:00:00.000Z",
    text="acme/reports/daily fails: ünsäglich.",
    run="acme/reports/daily#000001777896000000",
)


def test_a_subscriber_gets_the_document_and_what_to_filter_by(engine: Engine) -> None:
    topic, got = a_topic(engine)
    engine.services.notices.publish(topic, NOTICE)
    (letter,) = got()
    assert json.loads(letter["Message"]) == NOTICE.document()
    assert letter["Subject"] == "acme/reports/daily fails"
    said = {name: attribute["Value"] for name, attribute in letter["MessageAttributes"].items()}
    assert said == {"kind": "failure", "tenant": "acme", "schedule": "reports/daily", "job": "report"}


def test_a_fifo_topic_leaves_out_what_is_repeated(engine: Engine) -> None:
    topic, got = a_topic(engine, fifo=True)
    for _ in range(2):
        engine.services.notices.publish(topic, NOTICE)
    assert len(got()) == 1


def test_a_topic_that_is_not_there_is_an_error_of_its_own(engine: Engine) -> None:
    topic, got = a_topic(engine)
    with pytest.raises(QuarterjackError):
        engine.services.notices.publish(topic + "-gone", NOTICE)
    assert got() == []
