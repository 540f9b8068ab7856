"""What errors must not repeat of a payload."""

from __future__ import annotations

import json
import time

import pytest
from quarterjack.domain.redaction import MASK, USUAL, Redact
from quarterjack.errors import InvalidInput

SHOWN = [
    "password='hunter-22'",
    "{'db_password': 'hunter-22', 'user': 'ada'}",
    '{"accessToken":"hunter-22"}',
    '{\\"api_key\\": \\"hunter-22\\"}',
    'body={"X-Api-Key": "a \\"hunter-22\\" b"}',
    "Authorization: Bearer hunter-22",
    "headers['Authorization'] = 'Basic hunter-22'",
    "https://example.com/?token=hunter-22&page=2",
    "https://ada:hunter-22@example.com/",
    "client_secret => hunter-22",
    "PASSWORD:hunter-22",
    "secrets={'a': ['hunter-22'], 'b': {'c': 'hunter-22'}}",
    "payload={'password': 'hunter-22…",  # cut off
    "1 validation error for Login\npassword\n  String should have 12 characters [type=x, input_value='hunter-22', input_type=str]",
    "GET failed with bearer abcdefgh.hunter-22",
]


@pytest.mark.parametrize("text", SHOWN)
def test_what_stands_behind_a_name_is_masked(text: str) -> None:
    masked = USUAL.text(text)
    assert "hunter-22" not in masked
    assert MASK in masked


@pytest.mark.parametrize(
    "text",
    [
        "User is not authorized to perform: secretsmanager:GetSecretValue on resource",
        "KeyError: 'token'",
        'File "/app/token.py", line 3, in password',
        "TokenError: the server does not answer",
        "basic authentication failed",
        "division by zero",
        "token=None, secret=false",
    ],
)
def test_what_helps_stays(text: str) -> None:
    assert USUAL.text(text) == text


def test_what_follows_a_masked_value_stays() -> None:
    assert USUAL.text("{'password': 'x\\'y', 'user': 'ada'}") == "{'password': [redacted], 'user': 'ada'}"
    assert USUAL.text("token=abc&page=2 failed") == "token=[redacted]&page=2 failed"


def test_a_value_of_the_payload_is_masked_wherever_it_stands() -> None:
    payload = json.dumps({"user": "ada", "login": {"password": 'it\'s "77"'}, "tokens": ["t-0123", 4567]})
    text = USUAL.text('no login for ada with it\'s "77", it\\\'s "77", it\'s \\"77\\", t-0123 or 4567', payload)
    assert text == f"no login for ada with {', '.join([MASK] * 4)} or {MASK}"


def test_further_names_and_patterns() -> None:
    policy = Redact(fields=("iban",), patterns=(r"\b\d{16}\b",))
    assert policy.text("IBAN='DE1', card 4111111111111111, password=x1") == f"IBAN={MASK}, card {MASK}, password={MASK}"
    assert policy.text("odd account XY-99", '{"my_iban": "XY-99"}') == f"odd account {MASK}"
    assert Redact(usual=False, fields=("iban",)).text("password=x1, iban=2") == f"password=x1, iban={MASK}"
    assert Redact(usual=False).text("password=x1", '{"password": "x1"}') == "password=x1"


@pytest.mark.parametrize("given", [{"fields": "iban"}, {"fields": [""]}, {"patterns": ["("]}, {"fields": ["a"] * 101}])
def test_a_policy_that_cannot_be(given: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        Redact(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    ["password" * 8_000, "token=" * 10_000, "secret" + "a" * 64_000, "{'token': {" * 5_000, "x://" + "a:" * 30_000],
)
def test_it_takes_time_in_proportion_to_the_text(text: str) -> None:
    """Half of the text takes about half of the time: not a quarter, as with a pattern that goes back."""
    took = []
    for part in (text[: len(text) // 4], text):
        began = time.process_time()
        USUAL.text(part)
        took.append(time.process_time() - began)
    assert took[1] < 12 * took[0] + 0.05
