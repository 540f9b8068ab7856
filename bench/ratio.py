"""Processor time of a tick and of a worker, as ratios to what boto3 alone takes for the same calls in the same run.

python -m bench ratio [--fires 5000] [--repeat 3]

HTTP is answered in the process for both. The calls of a tick and of a worker are noted and then made again with boto3, one after the
other, with its defaults. Each figure is the least of the repetitions, which alternate; exits with 1 above the bounds.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import boto3
from botocore.awsrequest import AWSResponse

from bench import tick, work
from bench.report import Table, write
from bench.stub import Exchange

BOUNDS = {"tick": 1.3, "work": 2.2}
_SERVICES = {"DynamoDB_20120810": "dynamodb", "AmazonSQS": "sqs"}


def measure_tick(fires: int, exchanges: list[Exchange] | None = None) -> float:
    """Microseconds a fire; the calls and their answers go to ``exchanges``."""
    return tick.measure(tick.CASES[0], fires, exchanges)["cpu_us_per_fire"]


def measure_work(fires: int, exchanges: list[Exchange] | None = None) -> float:
    """Microseconds a run."""
    return work.measure(work.CASES[0], fires, exchanges)["cpu_us_per_fire"]


def measure_boto3(exchanges: Sequence[Exchange], fires: int) -> float:
    """Microseconds a fire that boto3 takes for these calls."""
    answers = iter(exchanges)
    clients = {name: _client(name, answers) for name in _SERVICES.values()}
    calls = [_call_of(clients, exchange) for exchange in exchanges]
    gc.collect()
    gc.freeze()
    started = time.process_time()
    for method, arguments in calls:
        method(**arguments)
    cpu = time.process_time() - started
    gc.unfreeze()
    return cpu / fires * 1e6


def _client(name: str, answers: Iterator[Exchange]) -> Any:
    session = boto3.session.Session("bench", "bench", region_name="us-east-1")
    client = session.client(name, endpoint_url="http://127.0.0.1:9")

    def answer(**_: object) -> AWSResponse:
        response = AWSResponse("http://127.0.0.1:9/", 200, {}, None)
        response._content = next(answers).content
        return response

    client.meta.events.register("before-send", answer)
    return client


def _call_of(clients: dict[str, Any], exchange: Exchange) -> tuple[Callable[..., Any], dict[str, Any]]:
    prefix, _, operation = exchange.target.partition(".")
    client = clients[_SERVICES[prefix]]
    names = {api: method for method, api in client.meta.method_to_api_mapping.items()}
    return getattr(client, names[operation]), json.loads(exchange.body)


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="bench ratio")
    parser.add_argument("--fires", type=int, default=5_000)
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args(arguments)
    os.environ.setdefault("AWS_EC2_METADATA_DISABLED", "true")
    rows = []
    for part, measure in {"tick": measure_tick, "work": measure_work}.items():
        exchanges: list[Exchange] = []
        measure(given.fires, exchanges)
        pairs = [(measure(given.fires), measure_boto3(exchanges, given.fires)) for _ in range(given.repeat)]
        ours, theirs = min(pair[0] for pair in pairs), min(pair[1] for pair in pairs)
        row = {"part": part, "us_per_fire": round(ours, 1), "boto3_us_per_fire": round(theirs, 1)}
        rows.append(row | {"ratio": round(ours / theirs, 2), "at_most": BOUNDS[part]})
    write("ratio", rows)
    Table("ratio to boto3's own calls", rows).show()
    if any(row["ratio"] > row["at_most"] for row in rows):
        raise SystemExit(1)
