"""Values that are pieces of the mask: a text must not grow by them, whoever chose the payload."""

from __future__ import annotations

import json
import random
import time

from quarterjack.domain.redaction import MASK, USUAL


def _pieces() -> list[str]:
    """Values of which each is found in what a naive replacement of the others leaves."""
    chosen, rounds = random.Random(1), dict[str, None]()
    for _ in range(20):
        text = MASK * 2
        for value in sorted(rounds, key=len, reverse=True):
            text = text.replace(value, MASK)[:20_000]
        found = {text[at : at + size] for size in (4, 5, 6) for at in range(len(text) - size + 1)}
        rounds |= dict.fromkeys(chosen.sample(sorted(found), min(15, len(found))))
    return list(rounds)


def test_values_that_are_pieces_of_the_mask_do_not_make_the_text_grow() -> None:
    payload, text = json.dumps({"token": _pieces()}), MASK * 20
    began = time.process_time()
    shown = USUAL.text(text, payload)
    assert len(shown) <= 2 * len(text)
    assert time.process_time() - began < 5


def test_each_value_is_masked_also_where_two_of_them_overlap() -> None:
    payload = json.dumps({"token": ["alpha-beta", "beta-gamma"], "password": "delta"})
    assert USUAL.text("say alpha-beta-gamma, delta and eta", payload) == f"say {MASK}, {MASK} and eta"


def test_many_values_take_little_time() -> None:
    payload, text = json.dumps({"token": [f"{number:05x}" for number in range(30_000)]}), "z" * 64_000
    began = time.process_time()
    assert USUAL.text(text, payload) == text
    assert time.process_time() - began < 1
