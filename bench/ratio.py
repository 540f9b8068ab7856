"""Processor time of a tick and of a worker, as ratios to what boto3 alone takes for the same calls in the same run.

python -m bench ratio [--fires 1000] [--seconds 45]

HTTP is answered in the process for all. ``to_same_calls``: the calls of the tick or the worker are noted and made again with boto3, one
after the other. boto3 validates no parameters, as ours do not.

``to_yardstick``: the ratio to a fire's part of the two calls that no scheduler on these services can do without, one claim of 25 rows
and one batch of 10 messages. It shows what the ratio to the same calls hides: calls that are not needed. So the bound is on this ratio,
and the program exits with 1 above it.

The speed of a shared machine changes within seconds. So a round measures everything in slices of about 0.1 s, with boto3's slices
half before and half after ours; a ratio is taken within its round. The figures are medians of the rounds, the spread is from the first
to the third quartile.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from statistics import median, quantiles
from typing import Any

import boto3
from botocore import xform_name
from botocore.awsrequest import AWSResponse
from botocore.config import Config

from bench import tick, work
from bench.progress import say
from bench.report import Table, write
from bench.stub import Exchange

BOUNDS = {"tick": 1.3, "work": 2.2}
ROUNDS = 5  # at least, however long they take
_YARDSTICK = {"BatchExecuteStatement": 25, "SendMessageBatch": 10}  # items of one call
_TIMES = 40  # that each of them is made in a slice
_SERVICES = {"DynamoDB_20120810": "dynamodb", "AmazonSQS": "sqs"}


def measure_tick(fires: int, exchanges: list[Exchange] | None = None) -> float:
    """Microseconds a fire; the calls and their answers go to ``exchanges``."""
    return tick.measure(tick.CASES[0], fires, exchanges)["cpu_us_per_fire"]


def measure_work(fires: int, exchanges: list[Exchange] | None = None) -> float:
    """Microseconds a run."""
    return work.measure(work.CASES[0], fires, exchanges)["cpu_us_per_fire"]


_PARTS = {"tick": measure_tick, "work": measure_work}


@dataclass(frozen=True)
class Sample:
    """Microseconds a fire of one part in one round."""

    ours: float
    same_calls: float
    yardstick: float


def _round(exchanges: Mapping[str, Sequence[Exchange]], fires: int) -> dict[str, Sample]:
    """Each part once, by name."""
    return {part: _sample(part, exchanges, fires) for part in _PARTS}


def _sample(part: str, exchanges: Mapping[str, Sequence[Exchange]], fires: int) -> Sample:
    """Ours in the middle of boto3's slices, so that a steady change of the machine's speed cancels out."""
    calls = exchanges[part]
    half = len(calls) // 2
    before = measure_yardstick(exchanges["tick"]), measure_boto3(calls[:half], fires)
    ours = _PARTS[part](fires)
    after = measure_boto3(calls[half:], fires), measure_yardstick(exchanges["tick"])
    return Sample(ours, before[1] + after[0], (before[0] + after[1]) / 2)


def summary(part: str, samples: Sequence[Sample]) -> dict[str, Any]:
    """A row of the table: medians, and the quartiles of the ratios."""
    figures = {
        "us_per_fire": [sample.ours for sample in samples],
        "same_calls": [sample.same_calls for sample in samples],
        "yardstick": [sample.yardstick for sample in samples],
    }
    same = [sample.ours / sample.same_calls for sample in samples]
    yardstick = [sample.ours / sample.yardstick for sample in samples]
    return {
        "part": part,
        **{name: round(median(values), 1) for name, values in figures.items()},
        "to_same_calls": round(median(same), 2),
        "spread": _spread(same),
        "to_yardstick": round(median(yardstick), 2),
        "its spread": _spread(yardstick),
        "at_most": BOUNDS[part],
        "rounds": len(samples),
        "load": round(os.getloadavg()[0], 1),
    }


def _spread(values: Sequence[float]) -> str:
    """From the first to the third quartile."""
    first, _, third = quantiles(values, n=4, method="inclusive")
    return f"{first:.2f} to {third:.2f}"


def measure_boto3(
    exchanges: Sequence[Exchange], fires: int, *, around: AbstractContextManager[object] = tick.NOTHING
) -> float:
    """Microseconds a fire that boto3 takes for these calls, which are made within ``around``."""
    answers, clients = _clients()
    answers.extend(exchange.content for exchange in exchanges)
    calls = [_call_of(clients, exchange) for exchange in exchanges]
    gc.collect()
    gc.freeze()
    started = time.process_time()
    with around:
        for method, arguments in calls:
            method(**arguments)
    cpu = time.process_time() - started
    gc.unfreeze()
    return cpu / fires * 1e6


def measure_yardstick(exchanges: Sequence[Exchange]) -> float:
    """Microseconds a fire for one claim of 25 rows and one batch of 10 messages, as they are in these calls."""
    total = 0.0
    for operation, items in _YARDSTICK.items():
        full = next(e for e in exchanges if e.target.endswith(f".{operation}") and _items(e) == items)
        total += measure_boto3([full] * _TIMES, _TIMES * items)
    return total


def _items(exchange: Exchange) -> int:
    body = json.loads(exchange.body)
    return len(body.get("Statements", body.get("Entries", ())))


@cache
def _clients() -> tuple[deque[bytes], dict[str, Any]]:
    """Clients of boto3 by service, and the contents with which the next requests are answered. Made once: it takes as long as a slice."""
    answers = deque[bytes]()
    return answers, {name: _client(name, answers) for name in _SERVICES.values()}


def _client(name: str, answers: deque[bytes]) -> Any:
    session = boto3.session.Session("bench", "bench", region_name="us-east-1")
    config = Config(parameter_validation=False)
    client = session.client(name, endpoint_url="http://127.0.0.1:9", config=config)

    def answer(**_: object) -> AWSResponse:
        response = AWSResponse("http://127.0.0.1:9/", 200, {}, None)
        response._content = answers.popleft()
        return response

    client.meta.events.register("before-send", answer)
    return client


def _call_of(clients: dict[str, Any], exchange: Exchange) -> tuple[Callable[..., Any], dict[str, Any]]:
    prefix, _, operation = exchange.target.partition(".")
    client = clients[_SERVICES[prefix]]
    return getattr(client, xform_name(operation)), json.loads(exchange.body)


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="bench ratio")
    parser.add_argument("--fires", type=int, default=1_000, help="of a slice; at least 1,000 fill a claim")
    parser.add_argument("--seconds", type=float, default=45.0, help="after which no round begins")
    given = parser.parse_args(arguments)
    os.environ.setdefault("AWS_EC2_METADATA_DISABLED", "true")
    exchanges: dict[str, list[Exchange]] = {part: [] for part in BOUNDS}
    for part, measure in _PARTS.items():
        measure(given.fires, exchanges[part])
    _round(exchanges, given.fires)  # imports and caches are no part of it
    rounds = _rounds(exchanges, given.fires, given.seconds)
    rows = [summary(part, [found[part] for found in rounds]) for part in BOUNDS]
    write("ratio", rows)
    Table("ratio to boto3's own calls", rows).show()
    if any(row["to_yardstick"] > row["at_most"] for row in rows):
        raise SystemExit(1)


def _rounds(exchanges: Mapping[str, Sequence[Exchange]], fires: int, seconds: float) -> list[dict[str, Sample]]:
    deadline, found = time.monotonic() + seconds, list[dict[str, Sample]]()
    while len(found) < ROUNDS or time.monotonic() < deadline:
        found.append(_round(exchanges, fires))
        ratios = (f"{part} {sample.ours / sample.same_calls:.2f}" for part, sample in found[-1].items())
        say(f"ratio: round {len(found)}: {', '.join(ratios)}")
    return found
