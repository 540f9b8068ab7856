"""The yardstick of the bench: boto3 makes the very calls that a tick and a worker made, and is given their answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import botocore.client
import pytest

from bench import ratio
from bench.stub import Exchange
from tests.support.parts import in_rotation

FIRES = 300


@pytest.mark.parametrize("measure", [ratio.measure_tick, ratio.measure_work])
@in_rotation(of=6)
def test_boto3_makes_the_same_calls(
    measure: Callable[[int, list[Exchange]], float], monkeypatch: pytest.MonkeyPatch
) -> None:
    exchanges: list[Exchange] = []
    assert measure(FIRES, exchanges) > 0
    made: Counter[str] = Counter()
    call = botocore.client.BaseClient._make_api_call

    def counted(self: object, name: str, arguments: object) -> object:
        made[name] += 1
        return call(self, name, arguments)

    monkeypatch.setattr(botocore.client.BaseClient, "_make_api_call", counted)
    assert ratio.measure_boto3(exchanges, FIRES) > 0
    assert made == Counter(exchange.target.partition(".")[2] for exchange in exchanges)
    assert made


@in_rotation(of=6)
def test_the_yardstick_is_one_full_claim_and_one_full_batch_of_messages() -> None:
    exchanges: list[Exchange] = []
    ratio.measure_tick(1_000, exchanges)  # fewer fill no claim of 25 in any shard
    assert ratio.measure_yardstick(exchanges) > 0


def test_a_ratio_is_taken_within_its_round_and_the_median_of_the_rounds_is_reported() -> None:
    slow, usual = ratio.Sample(200.0, 400.0, 100.0), ratio.Sample(40.0, 100.0, 20.0)
    row = ratio.summary("tick", [slow, usual, usual, ratio.Sample(90.0, 100.0, 20.0), slow])
    assert (row["to_same_calls"], row["spread"]) == (0.5, "0.40 to 0.50")
    assert (row["to_yardstick"], row["its spread"]) == (2.0, "2.00 to 2.00")
    assert row["us_per_fire"] == 90.0
