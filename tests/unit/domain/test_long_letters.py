"""A letter fits its queue, whatever the message in it is: a message whose letter is refused would go round unseen."""

from __future__ import annotations

import json

import pytest
from quarterjack.domain.message import REJECTED, UNREADABLE, DeadLetter, decode, decode_letter, encode_letter, named_run

_LARGEST = 256 * 1024  # bytes of a message in SQS; since 2025 a queue may take four times as much
_MUCH = 1_000_000  # characters
_RUN = "acme/~order-1#once"
_MESSAGE = {"v": 2, "run": _RUN, "not_before": 1}


@pytest.mark.parametrize("state", ["", REJECTED, UNREADABLE])
@pytest.mark.parametrize(
    "body",
    [
        '"' * _MUCH,
        "\u00e9" * _MUCH,
        "[" * _MUCH,
        json.dumps(_MESSAGE | {"more": '"' * _MUCH}),
        json.dumps(_MESSAGE | {"trace": "\u20ac" * _MUCH}),
        json.dumps(_MESSAGE | {"backfill": "\\" * _MUCH}),
    ],
)
def test_a_letter_fits_its_queue(body: str, state: str) -> None:
    letter = DeadLetter(body=body, reason="r" * 500, state=state, error="\u20ac" * 2_000, traceback="\u20ac" * 16_000)
    text = encode_letter(letter)
    assert len(text.encode()) <= _LARGEST
    found = decode_letter(text)
    assert found is not None
    assert found.state == state


@pytest.mark.parametrize("name", ["trace", "more"])
def test_a_letter_of_a_message_that_is_too_long_names_its_run(name: str) -> None:
    """Also where the run stands behind what makes it long: the verdict on a run is not lost by what somebody sent."""
    body = json.dumps({name: "x" * _MUCH} | _MESSAGE)
    found = decode_letter(encode_letter(DeadLetter(body=body, reason="failed", fence=1)))
    assert found is not None
    assert str(decode(found.body).run) == _RUN


def test_the_beginning_of_an_unreadable_message_still_names_its_run() -> None:
    body = json.dumps(_MESSAGE) + '"' * _MUCH
    found = decode_letter(encode_letter(DeadLetter(body=body, reason="unreadable", state=UNREADABLE)))
    assert found is not None
    assert str(named_run(found.body)) == _RUN


def test_what_a_letter_says_can_be_stored() -> None:
    text = json.dumps({"letter": 1, "body": "\ud800", "verdict": {"reason": "\ud800", "error": "a\ud800b"}})
    found = decode_letter(text)
    assert found is not None
    assert [one.encode() for one in (found.body, found.reason, found.error)] == [b"\\ud800", b"\\ud800", b"a\\ud800b"]
