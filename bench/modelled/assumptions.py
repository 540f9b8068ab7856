"""What the capacity model takes for granted of AWS and of our processes: the one table, each line with its source."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import accumulate, pairwise

_FACTS = "the project's facts, November 2026"


@dataclass(frozen=True)
class Assumption:
    what: str
    value: float
    unit: str
    source: str


PARTITION_WRITES = Assumption(
    "DynamoDB, writes of one partition; an agenda shard is one key and never more than one",
    1_000,
    "units/s",
    f"{_FACTS}; DynamoDB developer guide, warm throughput scenarios",
)
NEW_TABLE_WRITES = Assumption("DynamoDB, a new on-demand table, each", 4_000, "units/s", _FACTS)
TABLE_QUOTA = Assumption("DynamoDB, a table by default; it can be raised", 40_000, "units/s", _FACTS)
DOUBLING = Assumption(
    "DynamoDB, an on-demand table that is asked for more doubles after (splits of single hot keys are left out)",
    1_800,
    "s",
    "DynamoDB developer guide, warm throughput: 'double the previous peak within 30 minutes'",
)
IN_FLIGHT = Assumption("SQS, messages in flight of one queue", 120_000, "messages", _FACTS)
STANDARD_START = Assumption("Lambda on SQS, standard: batches at once at first", 5, "batches", _FACTS)
STANDARD_RAMP = Assumption(
    "Lambda on SQS, standard: further ones while messages wait", 300, "a minute", f"{_FACTS}; Lambda developer guide"
)
STANDARD_MOST = Assumption(
    "Lambda on SQS, standard: most of one queue", 1_250, "batches", "Lambda developer guide, SQS scaling"
)
PROVISIONED_RAMP = Assumption(
    "Lambda on SQS, provisioned: further batches at once", 1_000, "a minute", f"{_FACTS}; AWS News Blog, November 2025"
)
POLLER_BATCHES = Assumption(
    "Lambda on SQS, provisioned: batches at once of a poller",
    10,
    "batches",
    "AWS News Blog: 20,000 batches of 2,000 pollers",
)
POLLER_CALLS = Assumption("Lambda on SQS, provisioned: receives of a poller", 10, "a second", _FACTS)
POLLERS_KEPT = Assumption(
    "Lambda on SQS, provisioned: pollers of a queue that can always be kept (the minimum), at most",
    200,
    "pollers",
    "Lambda API reference, ProvisionedPollerConfig: MinimumPollers 1 to 200; it may grow to 10,000 for SQS",
)
ENVIRONMENTS_RAMP = Assumption(
    "Lambda, new environments of a function; so many at once, then at that rate",
    1_000,
    "in 10 s",
    "Lambda developer guide, scaling behaviour",
)
ACCOUNT = Assumption(
    "Lambda, functions at once of an account by default; it can be raised",
    1_000,
    "functions",
    "Lambda operator guide, scaling and concurrency",
)
COLD_START = Assumption(
    "a worker's cold start at 512 MB",
    1_000,
    "ms",
    "217 ms of CPU measured on a loaded machine (bench memory), at 0.29 of a core: 512 of 1,769 MB; 250 for the rest are a guess",
)
PACED = Assumption(
    "the claims' share of what the table of runs takes, while it refuses some",
    0.75,
    "of its capacity",
    "concurrency/request_pool.py: halved at every refusal, then raised again, so between half of it and all",
)
TICK_JITTER = Assumption("ticks start anywhere in their minute, evenly", 59, "s", _FACTS)
DATABASE_CALL = Assumption(
    "DynamoDB, a batched call, on average", 8, "ms", "an assumption: AWS promises single-digit milliseconds"
)
QUEUE_CALL = Assumption("SQS, a batched send or deletion, on average", 10, "ms", "an assumption")
TICK_CPU = Assumption("the ticker's processor, a fire", 108, "µs", "bench tick, on a loaded machine")
WORK_CPU = Assumption(
    "the worker's processor at 512 MB, a run",
    674,
    "µs",
    "bench work: 135 µs on a loaded machine, and 60 for two log lines, TLS and sockets; at 0.29 of a core",
)
JOB = Assumption("a job takes; those of a batch side by side", 50, "ms", "a choice: set it to yours")
ASSUMPTIONS = tuple(each for each in list(globals().values()) if isinstance(each, Assumption))

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
