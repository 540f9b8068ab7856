"""The costs are made of calls that were counted, not of figures that somebody typed."""

from __future__ import annotations

from datetime import date

import pytest

from bench.cost import CPU_US, gb_seconds, row
from bench.modelled.counted import VARIANTS, Counts, recurring
from bench.modelled.prices import MILLION, PRICES
from bench.tick import CASES, SHARDS, measure

LOCK = 2  # writes of a shard's lock, taken and given back


def test_services_in_memory_and_the_wire_count_the_same_writes_of_a_tick() -> None:
    fires = 100
    wire = measure(CASES[0], fires)["write_units_per_fire"] * fires - LOCK * SHARDS
    world = recurring(fires)
    assert world.claimed == fires
    assert world.ticker.writes - LOCK == wire == 3 * fires


@pytest.mark.parametrize(
    ("variant", "writes"),
    [
        ("one-off, now", 5),  # entry, run, entry gone, lease, settle
        ("one-off, an hour ahead", 5),
        ("hourly", 5),  # claim, lease, settle, next entry, this one gone
        ("hourly, exactly once, two steps", 9),  # two transactions more
        ("hourly, one retry", 8),  # another lease and settlement, and the row of the attempt
    ],
)
def test_a_run_writes_what_the_protocol_says(variant: str, writes: int) -> None:
    counts = VARIANTS[variant](60).counts()
    assert writes <= counts.writes <= writes + LOCK / 60 * 3


def test_dense_schedules_share_their_steps() -> None:
    sparse, dense = VARIANTS["hourly"](60).counts(), VARIANTS["minutely"](200).counts()
    assert dense.writes < 3.5
    assert sparse.writes >= 5
    assert dense.ticker_calls < sparse.ticker_calls


def test_a_run_that_dies_costs_more_than_one_that_succeeds() -> None:
    dead = VARIANTS["hourly, dead at its first attempt, an incident each"](20)
    assert dead.counts().writes > VARIANTS["hourly"](20).counts().writes


def test_dollars_are_counts_times_prices() -> None:
    asked = Counts(writes=5, reads=2, queue=0.4, ticker_calls=0.25, worker_calls=0.5, batches=0.1)
    figures = row("any", 1, asked, CPU_US)
    assert figures["$writes"] == pytest.approx(3.125, abs=0.006)
    assert figures["$reads"] == 0.25
    assert figures["$sqs"] == 0.16
    assert figures["$all"] == pytest.approx(
        sum(figures[f"${part}"] for part in ("writes", "reads", "sqs", "lambda", "storage")), abs=0.03
    )


def test_more_calls_take_longer() -> None:
    few, many = (Counts(ticker_calls=1, worker_calls=calls) for calls in (1, 10))
    assert gb_seconds(many, CPU_US) * MILLION - gb_seconds(few, CPU_US) * MILLION == pytest.approx(9 * 8_000 * 0.5)


def test_every_price_says_where_and_when_it_was_read() -> None:
    for price in PRICES:
        assert date.fromisoformat(f"{price.read}-01") <= date(2100, 1, 1)
        assert price.source
        assert price.dollars > 0
    assert len({price.what for price in PRICES}) == len(PRICES)
