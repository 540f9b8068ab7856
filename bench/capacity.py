"""What an installation on AWS would do under loads that take AWS to try: a model, with the real planning code, of what is not ours.

python -m bench capacity [--quick] [--seed 1] [--markdown]

Which fires are claimed when, with which delay, in which batches is computed by the code that ships; how DynamoDB, SQS and Lambda behave is
taken from a table of assumptions, each with its source (``bench/modelled/assumptions.py``). It is a model: it shows what must be
set and which quota binds, not what a bill or a dashboard will say.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

from quarterjack.domain.times import MINUTE

from bench.modelled.assumptions import ASSUMPTIONS, DISTRIBUTIONS
from bench.modelled.history import history_of
from bench.modelled.markdown import page
from bench.modelled.scenarios import (
    HASTY,
    INSTALLED,
    INSTANT,
    MORE_WRITES,
    PROVISIONED,
    TICKERS,
    UNSHARED,
    WRITES,
    Scenario,
    answer,
    around,
    burst,
    mixed,
    spread_burst,
    sustained,
)
from bench.modelled.settings import Setting
from bench.report import Table, write


def asked(*, quick: bool) -> list[tuple[Scenario, Setting]]:
    """Every load with every setting that is worth asking about."""
    length = (20 if quick else 60) * MINUTE
    steady = sustained(length=length)
    pairs = [
        (sustained(100, length=length), INSTALLED),
        (sustained(300, length=length), INSTALLED),
        (sustained(1_000, length=length), INSTALLED),
        (sustained(1_000, length=length), HASTY),
        (sustained(1_000, length=length), TICKERS),
        (steady, TICKERS),
        (steady, PROVISIONED),
        (steady, UNSHARED),
        (steady, MORE_WRITES),
        (steady, WRITES),
    ]
    pairs += [(burst(), setting) for setting in (INSTALLED, HASTY, TICKERS, PROVISIONED, WRITES, INSTANT)]
    pairs += [(spread_burst(), setting) for setting in (INSTALLED, TICKERS, PROVISIONED)]
    if not quick:
        pairs += [(mixed(), setting) for setting in (PROVISIONED, WRITES, INSTANT)]
        pairs += [(mixed(window=60), setting) for setting in (PROVISIONED, WRITES)]
    pairs += [(spread_burst(), setting) for setting in around(PROVISIONED)]
    return pairs


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="bench capacity")
    parser.add_argument("--quick", action="store_true", help="twenty minutes instead of an hour")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--markdown", action="store_true", help="print the tables of docs/how-to/size.md as well")
    given = parser.parse_args(arguments)
    rows = []
    for scenario, setting in asked(quick=given.quick):
        began = time.process_time()
        row = answer(scenario, setting, seed=given.seed)
        rows.append(row | {"cpu_s": round(time.process_time() - began, 1)})
    write("capacity", rows)
    assumed = [{"assumption": a.what, "value": f"{a.value:g} {a.unit}", "source": a.source} for a in ASSUMPTIONS]
    drawn = [
        {
            "assumption": what,
            "value": ", ".join(f"p{share * 100:g} {ms:g}" for share, ms in quantiles),
            "source": source,
        }
        for what, quantiles, source in DISTRIBUTIONS
    ]
    Table("assumptions", assumed + drawn).show()
    Table("capacity, modelled", rows).show()
    Table("the history of one tenant, modelled", [history_of(rate) for rate in (10, 100, 1_000, 10_000)]).show()
    if given.markdown:
        print(f"\n{page(rows)}")
