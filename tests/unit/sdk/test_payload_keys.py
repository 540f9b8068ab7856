"""Keys of payloads: JSON has texts only, and each once in an object; no value is lost in silence."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from typing import Any

import pytest
from quarterjack.apply.document import read
from quarterjack.arguments import payload_text
from quarterjack.cli.parameters import read_payload
from quarterjack.declare import declaration
from quarterjack.errors import InvalidInput
from quarterjack.importers.celery import read_beat
from quarterjack.importers.celery_config import BeatConfig
from quarterjack.importers.eventbridge import read_eventbridge

from tests.support.scenes.world import START, Faults, World

TWICE = '{"a": [{"day": 1, "week": 2, "day": 3}]}'
REFUSED = "the key 'day' occurs twice in one object"


@pytest.mark.parametrize(
    ("payload", "place", "key"),
    [
        ({1: 2}, "payload", "1"),
        ({1: 2, "1": 3}, "payload", "1"),
        ({"x": [{}, {True: 1}]}, "payload.x[1]", "true"),
        ({"x": ({None: 1},)}, "payload.x[0]", "null"),
        ({"x": {2.5: 1, "2.5": 1}}, "payload.x", "2.5"),
    ],
)
def test_keys_that_are_not_text_are_refused(payload: Any, place: str, key: str) -> None:
    world, faults = World(), Faults()
    owner = world.owner(faults)
    world.scheduler.create_schedule("s", "note", "0 18 * * *")
    for call in (
        lambda: owner.submit("note", payload),
        lambda: owner.create_schedule("n", "note", "0 18 * * *", payload=payload),
        lambda: owner.update_schedule("s", payload=payload),
        lambda: owner.trigger("s", payload=payload),
        lambda: owner.bulk("trigger", prefix="s", payload=payload),
        lambda: owner.backfill("s", start=START, end=START, payload=payload),
        lambda: declaration(place="here", name="d", job="note", expression="0 18 * * *", payload=payload),
    ):
        with pytest.raises(InvalidInput, match="is a key that is not text") as refused:
            call()
        assert (refused.value.field, json.dumps(refused.value.value)) == (place, key)
        assert refused.value.remedy == f'write it as text: "{key}"'
    assert set(faults.verbs()) <= {"governance"}


def test_the_keys_of_a_typed_field_are_for_its_type() -> None:
    """The type reads them back as it wrote them."""

    @dataclass
    class Counts:
        by_day: dict[int, int]

    assert payload_text(Counts({2: 1, 10: 1})) == '{"by_day":{"10":1,"2":1}}'
    with pytest.raises(InvalidInput, match=r"^payload.by_day=2: is a key that is not text"):
        payload_text({"by_day": {2: 1}})


def test_a_payload_on_the_command_line_has_each_key_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(TWICE))
    for text in (TWICE, "-"):
        with pytest.raises(InvalidInput, match=rf"^payload=.*{REFUSED}"):
            read_payload(text)


@pytest.mark.parametrize("payload", [TWICE, "{a: [{day: 1, day: 3}]}"])
def test_a_payload_in_a_file_has_each_key_once(payload: str) -> None:
    for text in (f'{{"schedules": {{"s": {{"job": "j", "expression": "* * * * *", "payload": {payload}}}}}}}',):
        with pytest.raises(InvalidInput, match=r"^f.yaml:1='day': is a duplicate key"):
            read(text, "f.yaml")


def test_a_payload_that_is_imported_has_each_key_once() -> None:
    rule = {
        "Name": "n",
        "ScheduleExpression": "rate(1 hour)",
        "State": "ENABLED",
        "FlexibleTimeWindow": {"Mode": "OFF"},
        "Target": {"Arn": "arn:aws:lambda:eu-west-1:123456789012:function:f", "RoleArn": "r", "Input": TWICE},
    }
    found = read_eventbridge(json.dumps(rule), "file.json", now=START)
    assert (found.schedules, [REFUSED in note for note in found.lines[0].notes]) == ({}, [True])
    beat = {"b": {"task": "t", "schedule": 3600.0, "kwargs": {"x": {1: 2, "1": 3}}}}
    assert "is a key that is not text" in str(read_beat(BeatConfig(entries=beat), "m", "").lines)
