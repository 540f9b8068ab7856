"""Processor time of a tick and of a worker, as ratios to what boto3 alone takes for the same calls in the same run.

python -m bench ratio [--fires 5000] [--repeat 3]

HTTP is answered in the process for all. ``same_calls``: the calls of the tick or the worker are noted and made again with boto3, one
after the other. ``yardstick``: a fire's part of the two calls that no scheduler on these services can do without, one claim of 25 rows
and one batch of 10 messages. boto3 validates no parameters, as ours do not. Each figure is the least of the
repetitions, which alternate. Exits with 1 where the ratio to the yardstick is above its bound.
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
from botocore.config import Config

from bench import tick, work
from bench.report import Table, write
from bench.stub import Exchange

BOUNDS = {"tick": 1.3, "work": 2.2}
_YARDSTICK = {"BatchExecuteStatement": 25, "SendMessageBatch": 10}  # items of one call
_TIMES = 200  # that each of them is made
_SERVICES = {"DynamoDB_20120810": "dynamodb", "AmazonSQS": "sqs"}


def measure_tick(fires: int, exchanges: list[Exchange] | None = None) -> float:
    """Microseconds a fire; the calls and their answers go to ``exchanges``."""
    return tick.measure(tick.CASES[0], fires, exchanges)["cpu_us_per_fire"]


def measure_work(fires: int, exchanges: list[Exchange] | None = None) -> float:
    """Microseconds a run."""
    return work.measure(work.CASES[0], fires, exchanges)["cpu_us_per_fire"]


_PARTS = {"tick": measure_tick, "work": measure_work}


def _round(exchanges: dict[str, list[Exchange]], fires: int) -> dict[str, float]:
    """Each of the figures once."""
    figures = {"yardstick": measure_yardstick(exchanges["tick"])}
    for part, measure in _PARTS.items():
        figures[part] = measure(fires)
        figures[f"{part} by boto3"] = measure_boto3(exchanges[part], fires)
    return figures


def _row(part: str, least: dict[str, float]) -> dict[str, Any]:
    ours, same, yardstick = least[part], least[f"{part} by boto3"], least["yardstick"]
    figures = {"us_per_fire": ours, "same_calls": same, "yardstick": yardstick}
    ratios = {"to_same_calls": round(ours / same, 2), "ratio": round(ours / yardstick, 2), "at_most": BOUNDS[part]}
    return {"part": part} | {name: round(value, 1) for name, value in figures.items()} | ratios


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


def _client(name: str, answers: Iterator[Exchange]) -> Any:
    session = boto3.session.Session("bench", "bench", region_name="us-east-1")
    config = Config(parameter_validation=False)
    client = session.client(name, endpoint_url="http://127.0.0.1:9", config=config)

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
    exchanges: dict[str, list[Exchange]] = {part: [] for part in BOUNDS}
    for part, measure in _PARTS.items():
        measure(given.fires, exchanges[part])
    rounds = [_round(exchanges, given.fires) for _ in range(given.repeat)]
    least = {name: min(figures[name] for figures in rounds) for name in rounds[0]}
    rows = [_row(part, least) for part in BOUNDS]
    write("ratio", rows)
    Table("ratio to boto3's own calls", rows).show()
    if any(row["ratio"] > row["at_most"] for row in rows):
        raise SystemExit(1)
