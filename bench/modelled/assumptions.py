"""What the capacity model takes for granted of AWS and of our processes: each line with its source.

What the product's own model takes, too, is in ``quarterjack/state/capacity/figures.py``.
"""

from __future__ import annotations

import random
from itertools import accumulate, pairwise

from quarterjack.state.capacity.figures import INPUTS, Figure

_FACTS = "the project's facts, November 2026"


TABLE_QUOTA = Figure("DynamoDB, a table by default; it can be raised", 40_000, "units/s", _FACTS)
DOUBLING = Figure(
    "DynamoDB, an on-demand table that is asked for more doubles after (splits of single hot keys are left out)",
    1_800,
    "s",
    "DynamoDB developer guide, warm throughput: 'double the previous peak within 30 minutes'",
)
IN_FLIGHT = Figure("SQS, messages in flight of one queue", 120_000, "messages", _FACTS)
PROVISIONED_RAMP = Figure(
    "Lambda on SQS, provisioned: further batches at once", 1_000, "a minute", f"{_FACTS}; AWS News Blog, November 2025"
)
POLLERS_KEPT = Figure(
    "Lambda on SQS, provisioned: pollers of a queue that can always be kept (the minimum), at most",
    200,
    "pollers",
    "Lambda API reference, ProvisionedPollerConfig: MinimumPollers 1 to 200; it may grow to 10,000 for SQS",
)
ENVIRONMENTS_RAMP = Figure(
    "Lambda, new environments of a function; so many at once, then at that rate",
    1_000,
    "in 10 s",
    "Lambda developer guide, scaling behaviour",
)
ACCOUNT = Figure(
    "Lambda, functions at once of an account by default; it can be raised",
    1_000,
    "functions",
    "Lambda operator guide, scaling and concurrency",
)
PACED = Figure(
    "the claims' share of what the table of runs takes, while it refuses some",
    0.75,
    "of its capacity",
    "concurrency/request_pool.py: halved at every refusal, then raised again, so between half of it and all",
)
TICK_JITTER = Figure("ticks start anywhere in their minute, evenly", 59, "s", _FACTS)
TICK_CPU = Figure("the ticker's processor, a fire", 108, "µs", "bench tick, on a loaded machine")
ASSUMPTIONS = (*INPUTS, *(each for each in list(globals().values()) if isinstance(each, Figure)))

# Quantiles: a share of calls, and what that share takes at most, ms. Linear between them.
_DELIVERY = ((0.0, 12.0), (0.1, 13.7), (0.5, 16.2), (0.9, 33.8), (0.99, 105.0), (0.999, 250.0), (1.0, 500.0))
_CALL = ((0.0, 4.0), (0.5, 7.0), (0.9, 11.0), (0.99, 25.0), (0.999, 80.0), (1.0, 200.0))
DISTRIBUTIONS = (
    (
        "a visible message to its function, ms",
        _DELIVERY,
        "bitesizedserverless.com, 1,024 messages in 2022; p99.9 and beyond are guesses",
    ),
    ("a batched call, ms", _CALL, "an assumption around single-digit milliseconds"),
)
_BEFORE_LEASE = 3  # calls of a worker until the lease is committed: visibility, revisions, lease
_SAMPLES = 20_000
_CUTS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 0.9999, 1.0)


def _drawn(quantiles: tuple[tuple[float, float], ...], chance: random.Random) -> float:
    at = chance.random()
    for (low, fast), (high, slow) in pairwise(quantiles):
        if at <= high:
            return fast + (slow - fast) * (at - low) / (high - low)
    raise AssertionError("quantiles end at 1")


def overhead(seed: int) -> list[tuple[float, float]]:
    """From being visible to the committed lease of a warm, idle worker: (ms, share), the slow ones cut finely."""
    chance = random.Random(seed)
    drawn = sorted(
        _drawn(_DELIVERY, chance) + sum(_drawn(_CALL, chance) for _ in range(_BEFORE_LEASE)) for _ in range(_SAMPLES)
    )
    sums = [0.0, *accumulate(drawn)]
    atoms = []
    for low, high in pairwise(_CUTS):
        first, last = round(low * _SAMPLES), round(high * _SAMPLES)
        atoms.append(((sums[last] - sums[first]) / (last - first), high - low))
    return atoms
