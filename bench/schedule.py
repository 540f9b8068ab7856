"""The time engine beside cronsim and croniter: microseconds for the next fire, and for parsing.

    python -m bench schedule            all figures, as a table
    python -m bench schedule --check    the same; exit 1 if a figure is missed

"step" walks from fire to fire, the only way in which cronsim and croniter can be asked without parsing again; "ask"
puts random instants of thirty years to one parsed expression, which is what the ticker does. Quarterjack and cronsim work
in Europe/Berlin, croniter on naive time (with a zone it is slower, and wrong: docs/adr/0010). Processor time, the best
of seven rounds.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

from croniter import croniter
from cronsim import CronSim
from quarterjack.timing import Rule, expressions, timetable
from quarterjack.timing import rule as rules

ZONE = "Europe/Berlin"
START = datetime(2026, 1, 1, tzinfo=UTC)
START_MS = int(START.timestamp() * 1000)
YEARS_30 = 30 * 365 * 86_400_000
ROUNDS = 7
COMMON = (  # at most 10 µs
    "* * * * *",
    "*/5 * * * *",
    "0 * * * *",
    "30 2 * * *",
    "0 9 * * 1-5",
    "15,45 8-18 * * *",
    "0 0 1 * *",
    "0 3 * * 0",
)
SPARSE = ("0 0 29 2 *", "0 0 1 1 *", "0 12 31 12 *", "0 0 13 * 5", "0 0 * 2 1")  # at most 25 µs
DIALECTS = ("*/10 * * * * *", "0 9 L * *", "0 9 * * 5#3")  # cronsim and croniter write some of these in another way
WIDTH = 22
LABEL = 44
LAYERS: tuple[tuple[str, str | list[str], dict[str, Any]], ...] = (
    ("rate(5 minutes)", "rate(5 minutes)", {}),
    (
        "RRULE, last workday of the month",
        "DTSTART:20000101T090000 RRULE:FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1",
        {},
    ),
    ("RRULE, every 7 seconds since 1900", "DTSTART:19000101T000000 RRULE:FREQ=SECONDLY;INTERVAL=7", {}),
    ("two expressions", ["0 9 * * *", "0 12 * * 1-5"], {}),
    ("hourly, window of 15 minutes", "0 * * * *", {"window": 900}),
    ("daily, without weekends and holidays", "0 9 * * *", {"exclude": ["weekends"], "calendar": "DE-BY"}),
    ("every minute, not from 8 to 17", "* * * * *", {"exclude": ["* 8-17 * * *"]}),
    ("last business day of the month", "0 9 L * *", {"calendar": "DE-BY", "on_excluded": "previous_business_day"}),
)


def main(arguments: Sequence[str] = ()) -> None:
    failed = []
    print(f"{'next fire, µs':{WIDTH}}{'step':>8}{'ask':>8}{'cronsim':>10}{'croniter':>10}")
    for limit, group in ((10, COMMON), (25, SPARSE), (25, DIALECTS)):
        for expression in group:
            step, ask, cronsim, peer = next_fire(expression)
            print(f"{expression:{WIDTH}}{step:8.2f}{ask:8.2f}{cronsim:10.2f}{peer:10.2f}")
            if max(step, ask) > limit or max(step, ask) > min(cronsim, peer):
                failed.append(expression)
    print(f"\n{'parse, µs':{WIDTH}}{'cold':>8}{'cached':>8}{'cronsim':>10}{'croniter':>10}")
    for expression in (*COMMON, *SPARSE):
        cold, cached, cronsim, peer = parse(expression)
        print(f"{expression:{WIDTH}}{cold:8.2f}{cached:8.2f}{cronsim:10.2f}{peer:10.2f}")
        if cold > 60 or cached > 1:
            failed.append(f"parse {expression}")
    layers()
    stored()
    print("\nmissed: " + ", ".join(failed) if failed else "\nevery figure reached")
    if failed and "--check" in arguments:
        raise SystemExit(1)


def next_fire(expression: str) -> tuple[float, float, float, float]:
    table = timetable(Rule(expression=expression, timezone=ZONE), anchor=0)
    count = 10 if expression in SPARSE else 2000
    rng = random.Random(7)
    instants = [START_MS + rng.randrange(YEARS_30) for _ in range(2000)]

    def step() -> None:
        due: int | None = START_MS
        for _ in range(count):
            due = table.next(due or 0)

    def ask() -> None:
        for instant in instants:
            table.next(instant)

    return (
        best(step, count),
        best(ask, len(instants)),
        best(lambda: exhaust(CronSim(expression, START.astimezone(ZoneInfo(ZONE))), count), count),
        best(lambda: exhaust(croniter(expression, datetime(2026, 1, 1), ret_type=datetime), count), count),  # noqa: DTZ001
    )


def exhaust(peer: object, count: int) -> None:
    for _ in islice(peer, count):  # type: ignore[call-overload]
        pass


def parse(expression: str) -> tuple[float, float, float, float]:
    """Cold: text to pattern. Cached: what the ticker pays for an expression that the process has seen."""
    rule = Rule(expression=expression, timezone=ZONE)

    def cold() -> None:
        for _ in range(300):
            expressions._read.__wrapped__(expression)

    def cached() -> None:
        for _ in range(10_000):
            expressions.read(expression)
            timetable(rule, anchor=0)

    def sim() -> None:
        for _ in range(300):
            CronSim(expression, START)

    def peer() -> None:
        for _ in range(300):
            croniter.expand(expression)

    return best(cold, 300), best(cached, 10_000), best(sim, 300), best(peer, 300)


def layers() -> None:
    """What policies add: no peer has them. Random instants of thirty years, as in "ask"."""
    rng = random.Random(7)
    instants = [START_MS + rng.randrange(YEARS_30) for _ in range(1000)]
    print(f"\n{'with policies, µs':{LABEL}}{'ask':>8}")
    for label, expression, policies in LAYERS:
        table = timetable(Rule.of(expression, timezone=ZONE, **policies), anchor=START_MS, key="acme/nightly")
        took = best(lambda table=table: [table.next(instant) for instant in instants], len(instants))  # type: ignore[misc]
        print(f"{label:{LABEL}}{took:8.2f}")


def stored() -> None:
    """A rule out of a revision: as JSON text seen before, and built anew from its fields."""
    rule = Rule(expression="0 9 * * 1-5", timezone=ZONE)
    text, fields = '{"expression": "0 9 * * 1-5", "timezone": "Europe/Berlin"}', rule.as_dict()
    seen = best(lambda: [rules.from_json(text) for _ in range(10_000)], 10_000)
    built = best(lambda: [Rule.from_dict(fields) for _ in range(1000)], 1000)
    print(f"\nrule from JSON seen before {seen:.2f} µs, from its fields {built:.2f} µs")


def best(run: Callable[[], object], times: int) -> float:
    """Microseconds for one of ``times`` in the best of some rounds."""
    rounds = []
    for _ in range(ROUNDS):
        start = time.process_time()
        run()
        rounds.append(time.process_time() - start)
    return min(rounds) / times * 1e6


if __name__ == "__main__":
    main(sys.argv[1:])
