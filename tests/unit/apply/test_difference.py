"""How payloads differ, key by key; and that secrets are not shown."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from quarterjack.apply.plan import PayloadChange, masked, payload_changes, same_json
from quarterjack.domain.redaction import MASK, USUAL, Redact

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "a b"]), inner, max_size=3),
    max_leaves=8,
)


def lines(before: Any, after: Any, redact: Redact = USUAL) -> list[str]:
    return [f"{one.kind} {one.path} {one.before!r} {one.after!r}" for one in payload_changes(before, after, redact)]


def test_keys_are_added_removed_and_changed_at_their_paths() -> None:
    before = {"region": "eu", "days": [1, 2], "deep": {"a": {"b": 1}}, "old": True}
    after = {"region": "us", "days": [1, 2, 3], "deep": {"a": {"b": 2}}, "new key": None}
    assert lines(before, after) == [
        "changed payload.region 'eu' 'us'",
        "added payload.days[2] None 3",
        "changed payload.deep.a.b 1 2",
        'added payload["new key"] None None',
        "removed payload.old True None",
    ]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, {"a": 1}, ["added payload.a None 1"]),
        ({"a": 1}, None, ["removed payload.a 1 None"]),
        (None, {}, ["changed payload None {}"]),
        ([1, 2, 3], [2, 3], ["removed payload[0] 1 None"]),
        ([1, 3], [1, 2, 3], ["added payload[1] None 2"]),
        ({"n": 1}, {"n": 1.0}, ["changed payload.n 1 1.0"]),
        ({"n": 1}, {"n": True}, ["changed payload.n 1 True"]),
        ("a", [1], ["changed payload 'a' [1]"]),
        (0, None, ["changed payload 0 None"]),
    ],
)
def test_of_other_payloads(before: Any, after: Any, expected: list[str]) -> None:
    assert lines(before, after) == expected


def test_what_a_name_or_a_pattern_hides_is_not_shown() -> None:
    before = {"api_key": "k-1", "db": {"Password": {"of": "alice"}}, "url": "https://a:b1c2@x.test", "iban": "DE1"}
    after = {"api_key": "k-2", "db": {"Password": {"of": "bob"}}, "url": "https://a:zzzz@x.test", "iban": "DE2"}
    after["auth_token"] = "new"
    shown = lines(before, after, Redact(fields=("iban",)))
    assert shown[:2] == [
        f"changed payload.api_key {MASK!r} {MASK!r}",
        f"changed payload.db.Password {MASK!r} {MASK!r}",
    ]
    assert shown[3:] == [
        f"changed payload.iban {MASK!r} {MASK!r}",
        f"added payload.auth_token None {MASK!r}",
    ]
    text = " ".join(shown)
    for secret in ("k-1", "k-2", "alice", "bob", "b1c2", "zzzz", "DE1", "DE2", "new"):
        assert secret not in text
    assert "iban" not in json.dumps(masked(after, Redact(fields=("iban",)))).replace('"iban": "[redacted]"', "")


@given(JSON, JSON)
def test_there_is_a_difference_exactly_if_they_are_not_the_same(before: Any, after: Any) -> None:
    found = payload_changes(before, after, USUAL)
    assert bool(found) is not same_json(before, after)
    assert len({one.path for one in found}) == len(found) or any("[" in one.path for one in found)
    assert all(isinstance(one, PayloadChange) for one in found)


@given(JSON)
def test_a_mask_leaves_what_is_not_hidden(value: Any) -> None:
    assert same_json(masked(value, USUAL), value)
