"""Which shard an owner's entries lie in, and what a very large tenant has of its own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from quarterjack.domain.names import fire_ref, one_off_ref
from quarterjack.domain.tenants.agenda_layout import (
    MOST_PLACES,
    MOST_SHARDS,
    AgendaLayout,
    TenantPlace,
    group_of,
    parse_places,
)
from quarterjack.errors import InvalidInput

NAMES = st.from_regex(r"[A-Za-z0-9._:@/-]{1,200}", fullmatch=True)
ACTS = st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(0, 5), st.integers(1, 10)), max_size=8)
SIXTEEN = AgendaLayout(shards=16)


@given(NAMES, st.integers(1, MOST_SHARDS))
def test_a_shard_is_one_of_them_and_always_the_same(name: str, shards: int) -> None:
    layout = AgendaLayout(shards=shards)
    shard = layout.shard_of(f"acme/{name}")
    assert 0 <= shard < shards
    assert layout.shard_of(f"acme/{name}") == shard


def test_shards_are_filled_evenly() -> None:
    counts = [0] * 16
    for number in range(16_000):
        counts[SIXTEEN.shard_of(f"acme/report-{number}")] += 1
    assert 800 < min(counts) <= max(counts) < 1_200


def test_shards_stay_where_they_are_from_release_to_release() -> None:
    """And from process to process: a hash of Python's own would differ in each."""
    assert [SIXTEEN.shard_of(f"acme/s{n}") for n in range(6)] == [2, 4, 14, 8, 11, 13]


def test_a_tenant_with_shards_of_its_own_lies_in_no_other_and_nobody_else_in_its() -> None:
    layout = SIXTEEN.placed("acme", 4, 1)
    assert layout.shards == 20
    own = {layout.shard_of(f"acme/{word}{n}") for n in range(200) for word in ("s", "~")}
    assert own == {16, 17, 18, 19}
    others = {layout.shard_of(f"acme.too/s{n}") for n in range(500)}
    assert others == set(range(16))
    assert [layout.shard_of(f"other/s{n}") for n in range(99)] == [SIXTEEN.shard_of(f"other/s{n}") for n in range(99)]


@given(ACTS, st.integers(1, 40))
def test_whatever_operators_do_every_shard_has_one_holder_and_an_older_layout_leads_to_one_that_exists(
    acts: list[tuple[str, int, int]], wanted: int
) -> None:
    layout, led = SIXTEEN, set[int]()
    for tenant, shards, weight in acts:
        layout = layout.placed(tenant, shards, weight)
        led |= {layout.shard_of(f"{name}/s{n}") for name in ("a", "b", "c", "d") for n in range(20)}
        reserved = [shard for place in layout.places.values() for shard in place.shards]
        assert len(set(reserved)) == len(reserved), "nobody shares a reserved shard"
        assert sorted([*reserved, *layout.common]) == list(range(layout.shards))
        assert layout.weight_of(tenant) == weight
        place = layout.places.get(tenant)
        assert {layout.shard_of(f"{tenant}/s{n}") for n in range(200)} <= set(
            place.shards[: place.used] if place and place.used else layout.common
        )
    assert max(led, default=0) < layout.shards, "tickers read them all"
    grown = layout.grown(wanted)
    assert len(grown.common) == max(wanted, 16)
    assert AgendaLayout(shards=layout.shards, places=parse_places(layout.places_as_text())) == layout


def test_what_was_reserved_once_is_used_again() -> None:
    layout = SIXTEEN.placed("acme", 4, 1).placed("acme", 0, 1)
    assert layout.places["acme"] == TenantPlace(shards=(16, 17, 18, 19))
    assert layout.shard_of("acme/s") < 16
    again = layout.placed("acme", 2, 3)
    assert (again.shards, again.places["acme"]) == (20, TenantPlace(shards=(16, 17, 18, 19), used=2, weight=3))


def test_a_tenant_with_nothing_of_its_own_is_not_stored() -> None:
    layout = SIXTEEN.placed("acme", 0, 3)
    assert layout.places_as_text() == '{"acme":[[],0,3]}'
    assert layout.placed("acme", 0, 1) == SIXTEEN
    assert SIXTEEN.places_as_text() is None


def test_there_are_not_too_many_shards_and_places() -> None:
    with pytest.raises(InvalidInput, match=r"limits.agenda_shards=1009: makes more than 1024 in all; use at most 1008"):
        SIXTEEN.placed("acme", MOST_SHARDS - 15, 1)
    layout = SIXTEEN
    for number in range(MOST_PLACES):
        layout = layout.placed(f"t{number}", 0, 2)
    with pytest.raises(InvalidInput, match=r"tenant='acme'.*more than 500.*from another tenant"):
        layout.placed("acme", 0, 2)
    assert layout.placed("t1", 0, 3).weight_of("t1") == 3


def test_a_tenant_of_weight_one_is_one_group_and_another_as_many_as_it_weighs() -> None:
    runs = [fire_ref("acme/s", 1_000 * n) for n in range(200)] + [one_off_ref("acme", f"{n}") for n in range(200)]
    assert {group_of(run, 1) for run in runs} == {"acme"}
    groups = [group_of(run, 3) for run in runs]
    assert set(groups) == {"acme#0", "acme#1", "acme#2"}
    assert min(groups.count(group) for group in set(groups)) > 90, "evenly"
    assert groups == [group_of(run, 3) for run in runs]
