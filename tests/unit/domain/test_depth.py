"""How deep JSON may be nested, and which run a message is of that cannot be decoded."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from quarterjack.domain.message import Message, decode, named_run
from quarterjack.domain.names import parse_run_id
from quarterjack.domain.payload import MAX_DEPTH, is_too_deep
from quarterjack.errors import InvalidInput, Unreadable
from quarterjack.ready_jobs.http import Request

from tests.support.builders import NOON, a_message, a_run

LEAVES = st.none() | st.integers() | st.text(alphabet='[]{}"\\ab', max_size=12)
JSON = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('[{"\\', max_size=3), inner, max_size=2)
)


def with_payload(message: Message, payload: str) -> str:
    """As an older release or a stranger sends it."""
    return f'{message.encode()[:-1]},"payload":{payload}}}'


def depth_of(value: Any) -> int:
    """The oracle: levels counted on the value."""
    if isinstance(value, (list, dict)):
        below = value.values() if isinstance(value, dict) else value
        return 1 + max(map(depth_of, below), default=0)
    return 0


@given(JSON, st.integers(0, 8), st.booleans())
def test_depth_is_counted_in_the_text_as_in_the_value(value: Any, most: int, ascii_only: bool) -> None:
    assert is_too_deep(json.dumps(value, ensure_ascii=ascii_only), most) is (depth_of(value) > most)


@pytest.mark.parametrize("text", ["[" * 1_000_000, '{"a":' * 500_000, '"' + "[" * 1_000_000, '"\\' + "[" * 1_000])
def test_counting_never_recurses(text: str) -> None:
    assert is_too_deep(text) is True


def test_a_text_full_of_brackets_has_no_depth() -> None:
    assert not is_too_deep(json.dumps(["[{" * 1_000, '"[' * 1_000]))


def test_what_cannot_be_read_does_not_depend_on_who_reads() -> None:
    """Python's reader of JSON gives up at a depth that depends on the caller's stack: the message's limit is a number."""

    def below(levels: int, text: str) -> str:
        try:
            return below(levels - 1, text) if levels else type(decode(text)).__name__
        except Unreadable:
            return "Unreadable"

    for depth, found in ((MAX_DEPTH, "Message"), (3 * MAX_DEPTH, "Unreadable")):
        text = with_payload(a_message(), "[" * depth + "]" * depth)
        assert {below(levels, text) for levels in (0, 300, 600)} == {found}


@pytest.mark.parametrize("body", [65, 5_000])
def test_the_body_of_a_request_is_as_deep_as_a_payload_at_most(body: int) -> None:
    deep: Any = []
    for _ in range(body - 1):
        deep = [deep]
    with pytest.raises(InvalidInput, match="body"):
        Request(url="https://example.com", body=deep)
    assert Request(url="https://example.com", body="[" * body).content()[0] == b"[" * body


def test_a_message_that_cannot_be_decoded_names_its_run() -> None:
    message = a_message(a_run(NOON), fence=3)
    text = with_payload(message, "[" * 5_000 + "]" * 5_000)
    with pytest.raises(Unreadable):
        decode(text)
    assert named_run(text) == message.run
    cut = text[: text.index('"payload"')]
    assert named_run(cut) == message.run


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[" * 5_000,
        '{"v":1,"run":"nobody"}',
        '{"v":1,"run":17}',
        '{"v":1,"job":"j","payload":{"run":"acme/report#once"}}',
        '{"v":1,"run":"acme/\\u0072eport#once"}',
        '{"v":1,"run":"' + "a" * 5_000 + '"}',
    ],
)
def test_what_names_no_run_before_its_payload_is_tied_to_none(text: str) -> None:
    assert named_run(text) is None


def test_the_payload_of_a_message_cannot_name_another_run() -> None:
    message = a_message(a_run(NOON))
    text = with_payload(message, '{"run":"acme/other#once","fence":9,' + '"a":[' * 5_000)
    assert named_run(text) == message.run


@given(st.integers(), st.integers(0, 400))
def test_a_damaged_message_is_tied_to_its_run_or_to_none(seed: int, cut: int) -> None:
    text = list(with_payload(a_message(a_run(NOON)), "[" * 200 + "]" * 200))
    chance = random.Random(seed)
    for _ in range(3):
        text[chance.randrange(len(text))] = chance.choice('"\\{[,:x')
    found = named_run("".join(text[: len(text) - cut]))
    assert found is None or parse_run_id(str(found)) == found
