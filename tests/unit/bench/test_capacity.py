"""The capacity model: nothing is lost in it, its limits hold, more of anything makes nothing later, and small cases by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from quarterjack.domain.times import MINUTE, SECOND
from quarterjack.state.capacity.figures import COLD_START, PARTITION_WRITES

from bench.modelled.assumptions import ASSUMPTIONS, DOUBLING, TICK_CPU, overhead
from bench.modelled.counted import World
from bench.modelled.history import history_of
from bench.modelled.lateness import Lateness
from bench.modelled.scenarios import (
    EARLIER,
    INSTALLED,
    PROVISIONED,
    TICKERS,
    TOP,
    Scenario,
    answer,
    burst,
    mixed,
    spread_burst,
    sustained,
)
from bench.modelled.settings import Setting
from bench.modelled.ticker import BIN, Visible, run_ticker
from bench.modelled.workers import Table, Worked, duration, run_workers
from tests.support.parts import in_turn

PER_SECOND = SECOND // BIN
ALONE = replace(INSTALLED, invocations=1, threads=1, requests=1, ticker_writes=0)


def ticked(scenario: Scenario, setting: Setting, seed: int = 1) -> Visible:
    return run_ticker(scenario.cohorts, setting, start=TOP - EARLIER, end=TOP + scenario.length, seed=seed)


def at_once(fires: int) -> Visible:
    """So many messages, on time, all visible in one bin."""
    visible = Visible(fires=fires)
    visible.bins[TOP // BIN] = Counter({0: fires})
    return visible


def worked_off(fires: int, **settings: Any) -> Worked:
    given = {"warm_writes": 1e6, "functions": 10_000, "warm_functions": 10_000} | settings
    return run_workers(at_once(fires), Setting(**given))


@in_turn("seed", [1, 2], ["1", "2"])
@pytest.mark.parametrize("setting", [INSTALLED, TICKERS, PROVISIONED], ids=lambda setting: setting.name)
@pytest.mark.parametrize(
    ("scenario", "fires"),
    [
        (burst(20_000), 20_000),
        (spread_burst(20_000), 20_000),
        (sustained(50, length=12 * MINUTE, before=0), 50 * 12 * 60),
        (sustained(2_000, length=3 * MINUTE, before=0), 2_000 * 3 * 60),
    ],
    ids=lambda given: given.name if isinstance(given, Scenario) else "",
)
def test_nothing_is_lost(scenario: Scenario, fires: int, setting: Setting, seed: int) -> None:
    visible = ticked(scenario, setting, seed)
    worked = run_workers(visible, setting)
    assert visible.fires + visible.passed == pytest.approx(fires)
    assert worked.started + worked.left == pytest.approx(visible.fires)
    assert worked.lateness.fires == pytest.approx(worked.started)


def test_a_mixture_has_the_fires_that_its_schedules_have_in_an_hour() -> None:
    visible = ticked(mixed(100_000), TICKERS)
    daily, hourly, quarterly, minutely = 60_000 / 24, 30_000, 9_000 * 4, 1_000 * 60
    assert visible.fires == pytest.approx(daily + hourly + quarterly + minutely)


def test_what_is_claimed_ahead_is_visible_within_the_second_after_its_time() -> None:
    visible = ticked(burst(1_000), INSTALLED)
    assert visible.behind == 0
    assert all((bin_ + 1) * BIN >= TOP and bin_ * BIN <= TOP + SECOND for bin_ in visible.bins)
    assert max(bar for bars in visible.bins.values() for bar in bars) <= 100  # of 10 ms


def test_a_ticker_takes_as_long_as_its_calls() -> None:
    visible = ticked(burst(500), ALONE)
    # one page: a query, 5 reads, 20 claims, 20 + 20 writes of 8 ms, 50 sends of 10 ms, 54 ms of CPU
    assert visible.busy == pytest.approx(0.008 + 0.04 + 0.16 + 0.5 + 0.054 + 0.32)
    assert visible.calls == pytest.approx(1 + 5 + 20 + 50 + 40)
    assert visible.steps == pytest.approx(500)


def test_threads_overlap_as_far_as_processor_and_lanes_let_them() -> None:
    one, four = (ticked(burst(2_000), replace(ALONE, threads=threads, shards=16)).busy for threads in (1, 4))
    assert one / 4 < four < one / 1.8, "sending, which is nearly half of it, has one lane"
    pool = ticked(burst(2_000), replace(ALONE, threads=4, requests=8)).busy
    assert pool < four / 2, "four keys take 4,000 writes a second"
    assert pool > 2_000 * TICK_CPU.value * 1e-6, "and no processor does more than one"


def busiest(claims: Mapping[int, float], *, after: int) -> float:
    """The share of claims (by UTC ms) that the busiest fifth of the minutes has, of 30 after some time."""
    minutes = [0.0] * 30
    for at, fires in claims.items():
        place = (at - after) // MINUTE
        if 0 <= place < len(minutes):
            minutes[place] += fires
    return sum(sorted(minutes, reverse=True)[:6]) / sum(minutes)


def test_a_shard_takes_500_steps_of_sparse_schedules_a_second() -> None:
    visible = ticked(burst(10_000), replace(ALONE, requests=100))
    assert visible.busy == pytest.approx(10_000 / 500, rel=0.1)
    assert visible.throttled > 0


def test_chains_of_dense_schedules_take_their_steps_at_all_times() -> None:
    claims = ticked(sustained(50, length=50 * MINUTE, before=0), TICKERS).claims
    by_time = {second * SECOND: float(fires) for second, fires in claims.items()}
    assert 0.2 <= busiest(by_time, after=TOP + 12 * MINUTE) <= 0.5


def test_the_real_ticker_does_so_too() -> None:
    world = World()
    world.jobs.job("nothing")(lambda _ctx, _payload: None)
    began = world.clock()
    for number in range(60):
        world.scheduler.create_schedule(f"s-{number}", "nothing", "rate(1 minute)")
        world.live(1)
    world.live(50 * 60)
    assert 0.2 <= busiest(world.claims, after=began + 12 * MINUTE) <= 0.5


# Workers, by hand.


def test_provisioned_pollers_receive_ten_times_a_second_each() -> None:
    worked = worked_off(1_000, pollers=10)  # 100 receives a second, of 10 messages: 50 messages in a bin of 50 ms
    assert worked.seconds == 1.0
    assert worked.batches == pytest.approx(100)
    assert worked.lateness.quantile(1.0) == pytest.approx(0.95 + 0.01)
    assert worked.lateness.quantile(0.5) == pytest.approx(0.45 + 0.01)


def test_standard_polling_begins_with_five_batches_and_grows_by_five_a_second() -> None:
    worked = worked_off(100_000)
    held = round(duration(50, 10) / BIN) / PER_SECOND  # seconds that a batch holds its function
    seconds = worked.seconds
    most = 5 + 5 * seconds
    assert worked.most_functions <= most
    assert (5 * seconds + 5 * seconds**2 / 2) / held * 10 == pytest.approx(100_000, rel=0.1)


def test_the_table_takes_a_lease_and_a_settlement_of_each_run() -> None:
    worked = worked_off(10_000, pollers=200, queues=10, warm_writes=1_000, quota_writes=1_000)
    assert worked.seconds == pytest.approx(2 * 10_000 / 1_000, rel=0.05)
    assert worked.throttled > 0


def test_claims_of_the_same_moment_take_from_the_table() -> None:
    visible = at_once(1_000)
    visible.claims.update({TOP // SECOND + second: 500 for second in range(100)})
    setting = Setting(pollers=200, warm_writes=1_000, warm_functions=1_000)
    assert run_workers(visible, setting).seconds == pytest.approx(2 * 1_000 / 500, rel=0.1)


def test_functions_of_the_account_bound_batches() -> None:
    worked = worked_off(5_000, pollers=200, functions=20)
    assert worked.most_functions <= 20
    assert worked.seconds == pytest.approx(5_000 / 10 / 20 * duration(50, 10) / SECOND, rel=0.35)


def test_a_cold_start_delays_its_batch_and_environments_are_made_at_a_rate() -> None:
    cold = worked_off(100, pollers=200, warm_functions=0)
    assert cold.lateness.quantile(0.01) * SECOND >= COLD_START.value
    many = worked_off(100_000, pollers=200, queues=10, warm_functions=0, job_ms=5_000)
    assert many.cold <= 1_000 + 100 * many.seconds + 1


def test_a_table_doubles_after_half_an_hour_of_pressure_up_to_its_quota() -> None:
    table = Table(Setting(warm_writes=4_000, quota_writes=10_000))
    rates = []
    for _ in range(4):
        table.press(DOUBLING.value - 1)
        rates.append(table.rate)
        table.press(1)
    assert rates == [4_000, 8_000, 10_000, 10_000]


# More of anything makes nothing later.


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("pollers", (5, 10, 20, 40)),
        ("queues", (1, 2, 4)),
        ("functions", (10, 40, 160)),
        ("warm_functions", (0, 50, 500)),
        ("warm_writes", (500, 2_000, 8_000, 40_000)),
        ("invocations", (1, 2, 4, 8)),
        ("requests", (1, 2, 8)),
        ("threads", (1, 2, 4)),
    ],
)
@in_turn("scenario", [burst(30_000), spread_burst(60_000)], ["burst", "spread"])
def test_more_is_never_later(scenario: Scenario, field: str, values: tuple[int, ...]) -> None:
    base = replace(PROVISIONED, pollers=20, queues=1)
    changes: list[dict[str, Any]] = [{field: value} for value in values]
    rows = [answer(scenario, replace(base, **change)) for change in changes]
    slack = 1.0 + 0.05  # where within a second a message is sent decides how late its whole second makes it
    for less, more in pairwise(rows):
        assert more["size"] + more["missed"] == less["size"] + less["missed"]
        assert more["p99_s"] <= less["p99_s"] + slack
        assert more["p50_s"] <= less["p50_s"] + slack


def test_the_same_seed_gives_the_same_answer() -> None:
    scenario = sustained(20, length=2 * MINUTE)
    assert answer(scenario, INSTALLED, seed=3) == answer(scenario, INSTALLED, seed=3)


def test_dollars_of_a_burst_by_hand() -> None:
    row = answer(burst(10_000), PROVISIONED)
    writes = 10_000 * 5 * 0.625e-6
    reads = 10_000 * 2 * 0.125e-6
    assert writes + reads < row["$"] < (writes + reads) * 1.6
    assert row["$_kept_a_month"] == round(100 * 2 * 720 * 0.00925)


# Parts.


def test_quantiles_and_delays_of_a_histogram() -> None:
    late = Lateness()
    late.add(0, 90)
    late.add(500, 10)
    assert (late.quantile(0.5), late.quantile(0.9), late.quantile(0.91)) == (0.01, 0.01, 0.51)
    assert late.within(0.4) == pytest.approx(0.9)
    later = late.delayed([(100, 0.5), (200, 0.5)])
    assert later.fires == pytest.approx(100)
    assert (later.quantile(0.45), later.quantile(1.0)) == (0.11, 0.71)


def test_the_overhead_of_a_start_is_a_distribution_with_a_tail() -> None:
    atoms = overhead(1)
    assert sum(share for _, share in atoms) == pytest.approx(1)
    assert [ms for ms, _ in atoms] == sorted(ms for ms, _ in atoms)
    assert 30 < atoms[0][0] < 60 < atoms[-1][0]


def test_every_assumption_says_where_it_comes_from() -> None:
    assert all(each.source and each.unit and each.value > 0 for each in ASSUMPTIONS)
    assert len({each.what for each in ASSUMPTIONS}) == len(ASSUMPTIONS)


def test_the_history_of_one_tenant_with_10_000_runs_a_second_fits_into_one_partition() -> None:
    busy = history_of(10_000)
    units = busy["units/s"]
    assert isinstance(units, int)
    assert units < PARTITION_WRITES.value / 2
    assert all(float(str(history_of(rate)["units a run"])) <= 0.05 for rate in (10, 30, 100, 1_000, 10_000))
