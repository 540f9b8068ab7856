"""The emulator's items: copies that share nothing, and sizes as MiniStack counts them."""

from __future__ import annotations

from collections import defaultdict
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from quarterjack.local.emulator.items import copied, quicken_items

from tests.support.ministack import dynamodb, fresh_dynamodb

NUMBERS = st.one_of(
    st.integers(-(10**30), 10**30).map(str),
    st.sampled_from(["0", "00", "007", "1.50", "-0.001", "1e5", "-2E-7", "100000", "not a number", ""]),
)
SCALARS: st.SearchStrategy[Any] = st.one_of(
    st.text(max_size=6).map(lambda text: {"S": text}),
    NUMBERS.map(lambda number: {"N": number}),
    st.binary(max_size=6).map(lambda content: {"B": content}),
    st.sampled_from(
        [{"BOOL": True}, {"NULL": True}, {"B": "aGVsbG8="}, {"B": "?"}, {"SS": ["a", "é"]}, {"NS": ["1", "20"]}]
    ),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda values: {"L": values}),
        st.dictionaries(st.text(max_size=4), inner, max_size=3).map(lambda values: {"M": values}),
    ),
    max_leaves=6,
)
ITEMS = st.dictionaries(st.text(max_size=5), VALUES, max_size=5)


def parts(node: Any) -> list[int]:
    """The identities of everything in it that can be changed."""
    within = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return [id(node)] * isinstance(node, (dict, list)) + [part for each in within for part in parts(each)]


@given(ITEMS)
def test_a_copy_is_equal_and_shares_nothing(item: Any) -> None:
    copy = copied(item)
    assert copy == item
    assert not set(parts(copy)) & set(parts(item))


@given(ITEMS)
def test_the_size_is_what_ministack_counts(item: Any) -> None:
    quick = fresh_dynamodb(quicken_items)
    assert quick._item_size_bytes(item) == dynamodb._item_size_bytes(item)


def test_what_is_no_item_is_copied_as_before() -> None:
    table = {"name": "runs", "items": defaultdict(dict, a={"k": {"key": {"S": "k"}}}), "number": 1}
    copy = copied(table)
    assert copy == table
    assert type(copy["items"]) is defaultdict
    assert not set(parts(copy)) & set(parts(table))
    assert copied(None) is None
    assert dynamodb._item_size_bytes(None) == fresh_dynamodb(quicken_items)._item_size_bytes(None) == 0


def test_a_release_that_works_otherwise_is_left_as_it_is() -> None:
    module = SimpleNamespace(copy=1)
    quicken_items(module)
    assert vars(module) == {"copy": 1}
