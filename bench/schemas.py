"""Checks of payloads by JSON Schema: microseconds for one payload, from its JSON text to the answer.

    python -m bench schemas            all figures, as a table
    python -m bench schemas --check    the same; exit 1 if a payload of the fifty schemas takes more than 0.2 ms

The fifty schemas and the payloads are those of tests/support/payload_schemas.py: about half of them fit. A refusal is found and worded,
too. Processor time, the best of five rounds.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from quarterjack.errors import InvalidInput
from quarterjack.payload_types.schema import PayloadSchema, _compiled

from tests.support.payload_schemas import SCHEMAS, payloads

ROUNDS, REPEATS, COUNT = 5, 20, 60
MOST = 200.0  # microseconds
ORDER = {
    "type": "object",
    "required": ["id", "items"],
    "additionalProperties": False,
    "properties": {
        "id": {"type": "string", "pattern": "^A-[0-9]+$"},
        "day": {"type": "string", "format": "date"},
        "items": {"type": "array", "items": {"$ref": "#/$defs/item"}},
    },
    "$defs": {
        "item": {
            "type": "object",
            "required": ["sku"],
            "properties": {"sku": {"type": "string"}, "qty": {"type": "integer", "minimum": 1}},
        }
    },
}


def micros(act: Callable[[], object], repeats: int = REPEATS) -> float:
    """Processor time of one call."""
    best = float("inf")
    for _ in range(ROUNDS):
        began = time.process_time_ns()
        for _ in range(repeats):
            act()
        best = min(best, (time.process_time_ns() - began) / repeats / 1_000)
    return best


def checked(schema: PayloadSchema, text: str) -> Callable[[], None]:
    def act() -> None:
        with suppress(InvalidInput):
            schema.check(text, "job")

    return act


def order(items: int) -> str:
    lines = [{"sku": f"pen-{number}", "qty": number + 1} for number in range(items)]
    return json.dumps({"id": "A-7", "day": "2026-12-24", "items": lines})


def of_fifty() -> tuple[list[float], list[float]]:
    """Of each drawn payload that fits, and of each that is refused."""
    fitting, refused = list[float](), list[float]()
    for seed, schema in enumerate(SCHEMAS.values()):
        ready = PayloadSchema(schema)
        for payload in payloads(schema, seed, COUNT):
            spent = micros(checked(ready, json.dumps(payload)), 3)
            (fitting if ready.fits(payload) else refused).append(spent)
    return fitting, refused


def row(label: str, figures: Sequence[float]) -> None:
    ordered = sorted(figures)
    last = ordered[int(len(ordered) * 0.99)]
    print(f"{label:<52}{statistics.median(ordered):>9.1f}{last:>9.1f}{ordered[-1]:>9.1f}  µs (p50, p99, longest)")


def main(arguments: Sequence[str]) -> None:
    fitting, refused = of_fifty()
    row(f"50 schemas, {len(fitting):,} payloads that fit", fitting)
    row(f"50 schemas, {len(refused):,} payloads that do not", refused)
    ready = PayloadSchema(ORDER)
    for items in (1, 20, 1_000):
        text = order(items)
        reading = micros(partial(json.loads, text))
        row(f"an order of {items:,} items, {len(text) / 1_000:.1f} KB", [micros(checked(ready, text))])
        row("  of that, to read its JSON", [reading])
    bad = order(20).replace('"qty": 20', '"qty": 0')
    row("an order of 20 items, the last of which is refused", [micros(checked(ready, bad))])
    hanging, text = PayloadSchema({"pattern": "^(a+)+$"}), json.dumps("a" * 200_000)
    row("a pattern that hangs where one backtracks, 200 KB", [micros(checked(hanging, text))])
    row("to declare a job with such a schema", [micros(_declared, 5)])
    slow = [spent for spent in (*fitting, *refused) if spent > MOST]
    if "--check" in arguments and slow:
        sys.exit(f"{len(slow)} payloads took more than {MOST:.0f} µs, the longest {max(slow):.0f}")


def _declared() -> Any:
    _compiled.cache_clear()
    return PayloadSchema(ORDER)


if __name__ == "__main__":
    main(sys.argv[1:])
