"""Messages and letters: what is sent is what is read, and nothing that is not ours raises anything but Unreadable."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from quarterjack.domain.message import (
    MESSAGE_SCHEMA,
    DeadLetter,
    Message,
    Wait,
    check_schema,
    decode,
    decode_letter,
    encode_letter,
)
from quarterjack.domain.names import RunRef, fire_ref, one_off_ref
from quarterjack.domain.payload import json_text, size
from quarterjack.domain.policies import Start
from quarterjack.errors import TooNew, Unreadable

NAMES = st.text("abcXYZ019._:@/-", min_size=1, max_size=40)
TIMES = st.integers(1, 10**14)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
MESSAGES = st.builds(
    Message,
    run=st.one_of(
        st.builds(lambda n, f: fire_ref(f"acme/{n}", f), NAMES, TIMES), st.builds(one_off_ref, st.just("acme"), NAMES)
    ),
    revision=st.integers(0, 10**6),
    not_before=TIMES,
    start=st.sampled_from(Start),
    fence=st.integers(0, 10**6),
    trace=st.none() | st.text(min_size=1),
    returned=st.integers(0, 3),
    unknown_since=st.none() | st.integers(1, 10**14),
    waited=st.frozensets(st.sampled_from(Wait)),
)


@given(MESSAGES)
def test_a_message_is_read_as_it_was_sent(message: Message) -> None:
    body = message.encode()
    assert decode(body) == message
    assert json.loads(body)["v"] == MESSAGE_SCHEMA
    body.encode("utf-8")


@given(JSON)
def test_a_payload_is_text_that_tables_and_queues_take(value: Any) -> None:
    text = json_text(value)
    assert json.loads(text) == json.loads(json.dumps(value))
    assert size(text) == len(text.encode("utf-8"))
    assert not {character for character in text if ord(character) < 0x20 or character in "\ufffe\uffff"}, (
        "SQS refuses these"
    )


def test_a_payload_has_the_bytes_of_its_letters() -> None:
    assert size(json_text("ä日😀")) == 2 + 2 + 3 + 4
    assert json_text("\ud83d") == '"\\ud83d"', "half a letter is none, and said in ASCII"


@given(MESSAGES, st.text(), st.none() | JSON)
def test_fields_of_a_later_release_are_passed_over_and_sent_on(message: Message, name: str, value: Any) -> None:
    later = {f"later {name}": value}
    read = decode(json.dumps(json.loads(message.encode()) | later))
    assert read == message
    again = replace(read, not_before=read.not_before + 1, fence=read.fence + 1)
    sent = json.loads(again.encode())
    assert {field: sent[field] for field in later} == later
    assert sent["fence"] == again.fence


def test_a_small_message_is_small() -> None:
    message = Message(run=fire_ref("acme/report", 10**12), revision=1, not_before=10**12)
    assert len(message.encode()) < 90


@given(st.text() | JSON.map(json.dumps))
def test_what_is_no_message_is_unreadable_and_nothing_else(text: str) -> None:
    with pytest.raises(Unreadable):
        decode(text)


@given(MESSAGES, st.data())
def test_a_message_with_something_missing_or_wrong_is_unreadable_or_read(message: Message, data: st.DataObject) -> None:
    body = json.loads(message.encode())
    name = data.draw(st.sampled_from(sorted(body)))
    value = data.draw(st.none() | JSON)
    body[name] = value
    try:
        read = decode(json.dumps(body))
    except Unreadable:
        return
    assert isinstance(read, Message)
    read.encode()


@pytest.mark.parametrize(
    "body",
    [
        "[" * 100_000,
        '{"v":' * 50_000,
        '{"v":2,"run":"a/b#1","not_before":Infinity}',
        '{"v":2,"run":"a/b#1","not_before":NaN}',
        '{"v":2,"run":"a/b#1","not_before":1,"returned":{"n":1}}',
        '{"v":2,"run":"a/b#1","not_before":1,"unknown_since":[7]}',
        '{"v":2,"run":"a/b#1","not_before":1,"waited":7}',
        '{"v":2,"run":"a/b#1","not_before":1,"waited":["dentist"]}',
        '{"v":2,"run":"a/b#1","not_before":1,"trace":{}}',
        '{"v":Infinity}',
        '{"v":null}',
    ],
)
def test_what_is_made_to_hurt_is_unreadable(body: str) -> None:
    with pytest.raises(Unreadable):
        decode(body)
    assert decode_letter(body) is None


@pytest.mark.parametrize("version", [0, -1, 1.5, 1_001, 10**30, "2"])
def test_no_release_writes_such_a_schema(version: object) -> None:
    """A message that pretends to be of a later release would go round until it is deployed: for ever."""
    with pytest.raises(Unreadable) as refused:
        decode(json.dumps({"v": version}))
    assert not isinstance(refused.value, TooNew)


@pytest.mark.parametrize("version", [10**9])
def test_nor_has_an_item_such_a_schema(version: int) -> None:
    with pytest.raises(Unreadable) as refused:
        check_schema({"v": version}, "row")
    assert not isinstance(refused.value, TooNew)


@pytest.mark.parametrize("version", [MESSAGE_SCHEMA + 1, 99])
def test_a_message_of_a_later_schema_is_told_apart(version: int) -> None:
    with pytest.raises(TooNew, match="deploy the workers first"):
        decode(json.dumps({"v": version}))


@pytest.mark.parametrize("version", [1])
def test_a_message_of_an_older_schema_is_refused(version: int) -> None:
    """It says what only the row may say."""
    body = {"v": version, "run": "acme/~k#once", "job": "steal", "due": 1, "start": "prompt", "payload": {}}
    with pytest.raises(Unreadable, match="reads only 2"):
        decode(json.dumps(body))


@given(MESSAGES)
def test_a_message_says_nothing_that_row_or_revision_have(message: Message) -> None:
    optional = {"rev", "start", "fence", "trace", "returned", "unknown_since", "backfill", "waited"}
    assert set(json.loads(message.encode())) <= {"v", "run", "not_before"} | optional


@given(
    st.builds(
        DeadLetter,
        body=st.text(),
        reason=st.text(min_size=1),
        fence=st.integers(0, 10**6),
        error_type=st.text(),
        error=st.text(),
        traceback=st.text(),
    )
)
def test_a_letter_is_read_as_it_was_sent(letter: DeadLetter) -> None:
    assert decode_letter(encode_letter(letter)) == letter


@given(st.text() | JSON.map(json.dumps) | MESSAGES.map(Message.encode))
def test_what_sqs_moved_as_it_was_is_no_letter(text: str) -> None:
    assert decode_letter(text) is None


@pytest.mark.parametrize("body", ['{"letter":1}', '{"letter":1,"verdict":{}}', '{"letter":1,"body":5}'])
def test_a_letter_with_gaps_is_a_letter(body: str) -> None:
    letter = decode_letter(body)
    assert letter is not None
    assert letter.reason == "unknown"


@pytest.mark.parametrize(
    "body", ['{"letter":1,"verdict":[]}', '{"letter":1,"verdict":null}', '{"letter":1,"verdict":"x"}']
)
def test_a_letter_whose_verdict_is_garbage_raises_nothing_else(body: str) -> None:
    letter = decode_letter(body)
    assert letter is None or letter.reason


def test_a_run_ref_says_whose_it_is() -> None:
    assert fire_ref("acme/s", 5) == RunRef("acme/s", "000000000000005")
    assert str(one_off_ref("acme", "k")) == "acme/~k#once"
    assert [one_off_ref("acme", "k").is_one_off, fire_ref("acme/s", 5).is_one_off] == [True, False]
    assert one_off_ref("acme", "k").tenant == fire_ref("acme/s/t", 5).tenant == "acme"
