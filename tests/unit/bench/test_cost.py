"""The costs are made of calls that were counted, not of figures that somebody typed."""

from __future__ import annotations

import re
from datetime import date

import pytest
from quarterjack.auditor.run_walks import check_runs
from quarterjack.domain.tenants.caller import role
from quarterjack.domain.times import HOUR
from quarterjack.fires.context import FireContext

from bench.cost import CPU_US, RUNS, audit_reads, besides_table, direct, gb_seconds, row, runs_table, table_rows
from bench.modelled.counted import VARIANTS, Counts, Tally, recurring
from bench.modelled.log_bytes import LOG_BYTES, measured
from bench.modelled.prices import MILLION, PRICES
from bench.tick import CASES, SHARDS, measure
from tests.support.doc_pages import ROOT

PLAIN = ("one-off, now", "one-off, an hour ahead", "hourly", "minutely")
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
    assert figures["$logs"] == pytest.approx((LOG_BYTES["run"] + LOG_BYTES["fire"]) * 0.53e-3, abs=0.006)
    assert figures["$all"] == pytest.approx(
        sum(figure for name, figure in figures.items() if name[0] == "$" and name not in ("$all", "$eventbridge")),
        abs=0.04,
    )


def test_every_attempt_has_its_lines_and_recovery_is_billed_like_storage() -> None:
    once, twice = (row("any", 1, Counts(batches=each, row_bytes=900), CPU_US) for each in (0.1, 0.2))
    assert twice["$logs"] == pytest.approx(2 * once["$logs"], abs=0.02)
    assert once["$storage"] == 0.75
    assert once["$recovery"] == 0.6


def test_the_auditor_reads_a_schedule_twice_an_hour_and_the_ledger_once_a_week() -> None:
    world, tally = recurring(3), Tally()
    services = world.memory.connect(hook=tally)
    heads, _ = services.schedules.scan_heads("", limit=10)
    assert len(heads) == 3
    tally.clear()
    context = FireContext(services=services, clock=world.clock, caller=role("auditor"))
    for head in heads:
        check_runs(head, 2 * HOUR, context)
    assert tally.reads == 3 * (audit_reads(500, 1) - audit_reads(500, 0))
    assert audit_reads(4_096, 0) == 13 / 2
    assert audit_reads(500, 60) - audit_reads(500, 0) < 0.3  # of a run: the two hours are shared


PAGE = ROOT / "docs/explanation/performance.md"


def test_the_page_says_what_is_not_of_every_run() -> None:
    assert besides_table() in PAGE.read_text(), f"write this into {PAGE}:\n{besides_table()}"


@pytest.mark.check
def test_the_page_and_the_readme_have_the_tables_that_are_counted() -> None:
    rows = table_rows(CPU_US, RUNS)
    counted = runs_table(rows)
    assert counted in PAGE.read_text(), f"write this into {PAGE}:\n{counted}"
    plain = [each["$all"] for each in rows if each["case"] in PLAIN]
    readme = re.search(r"A million runs: \$(\S+) to \$(\S+), with logs", (ROOT / "README.md").read_text())
    assert readme is not None
    assert [float(each) for each in readme.groups()] == pytest.approx([min(plain), max(plain)], abs=0.05)
    ratios = re.search(r"A plain run costs (\S+) to (\S+) times", PAGE.read_text())
    assert ratios is not None
    assert [float(each) for each in ratios.groups()] == pytest.approx(
        [each / (direct() * MILLION) for each in (min(plain), max(plain))], abs=0.06
    )


@pytest.mark.check
def test_the_bytes_of_log_are_those_that_the_functions_write() -> None:
    found = measured()
    assert found.keys() == LOG_BYTES.keys()
    for what, size in LOG_BYTES.items():
        assert found[what] == pytest.approx(size, rel=0.05, abs=3), f"{what}: write {found} into LOG_BYTES"


def test_more_calls_take_longer() -> None:
    few, many = (Counts(ticker_calls=1, worker_calls=calls) for calls in (1, 10))
    assert gb_seconds(many, CPU_US) * MILLION - gb_seconds(few, CPU_US) * MILLION == pytest.approx(9 * 8_000 * 0.5)


def test_every_price_says_where_and_when_it_was_read() -> None:
    for price in PRICES:
        assert date.fromisoformat(f"{price.read}-01") <= date(2100, 1, 1)
        assert price.source
        assert price.dollars > 0
    assert len({price.what for price in PRICES}) == len(PRICES)
