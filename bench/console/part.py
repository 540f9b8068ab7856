"""The console and the API over a large ledger: what every page costs, and a steady load of reads by key against one process.

    python -m bench console [--schedules 10000] [--runs 1000000] [--rate 200] [--seconds 60]

A page is asked twice; the figures are of the second time: wall and processor time of the server, that of rendering its template,
read units and requests as DynamoDB would count them, bytes as gzip makes them. The tables are in memory, so that no time of a network
is in them. The load is sent by threads of this process to a server in it, so both share the processors. Exits with 1 if a page takes
more than 300 ms or 250 read units, or if the load meets an error. With 1,000,000 runs, making the ledger takes some minutes.
"""

from __future__ import annotations

import argparse
import gzip
import http.client
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import uvicorn
from fastapi import FastAPI
from fastapi.testclient import TestClient
from jinja2 import Template

from bench.console.ledger import TENANT, LargeLedger, LedgerSize, large_ledger
from bench.console.pages import KEY, READS, addresses, application, values_of
from bench.progress import say
from bench.report import Table, write

MOST_UNITS, MOST_MS = 250, 300
_SENDERS = 16
_BY_KEY = ("schedules/{name}", "runs/{run}")


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="bench console")
    parser.add_argument("--schedules", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=1_000_000, help="that ended, in seven days")
    parser.add_argument("--rate", type=float, default=200.0, help="requests a second of the load")
    parser.add_argument("--seconds", type=float, default=60.0, help="of the load; 0: none")
    asked = parser.parse_args(arguments)
    ledger = large_ledger(LedgerSize(schedules=asked.schedules, runs=asked.runs))
    say(f"made in {sum(ledger.seconds.values()):.0f} s: {ledger.seconds}")
    app = application(ledger)
    rows = pages(app, ledger)
    write("console", rows)
    Table(f"pages over {asked.schedules:,} schedules and {asked.runs:,} runs", rows).show()
    too_much = [row["address"] for row in rows if row["read units"] > MOST_UNITS or row["ms"] > MOST_MS]
    errors = 0
    if asked.seconds:
        under_load = load(app, ledger, asked.rate, asked.seconds)
        write("console-load", [under_load])
        Table("reads by key", [under_load]).show()
        errors = under_load["errors"]
    if too_much or errors:
        raise SystemExit(f"beyond the bounds: {too_much}; errors: {errors}")


def pages(app: FastAPI, ledger: LargeLedger) -> list[dict[str, Any]]:
    """Each page of the console and each read of the API, warm."""
    client, reads = (
        TestClient(app, headers={"Authorization": f"Bearer {KEY}"}, follow_redirects=False),
        ledger.memory.reads,
    )
    of_api = [path.format(**values_of(ledger)) for path in READS]
    places = [f"/console/t/{TENANT}/{path}" for path in addresses(app, ledger)]
    rows = []
    for address in [*places, *(f"/v1/tenants/{TENANT}/{path}" for path in of_api)]:
        client.get(address)
        reads.reset()
        wall, own = time.perf_counter(), time.process_time()
        with rendering() as rendered:
            answer = client.get(address)
        wall, own = time.perf_counter() - wall, time.process_time() - own
        rows.append(
            {
                "address": address.split(TENANT, 1)[1][:60],
                "status": answer.status_code,
                "ms": round(wall * 1e3),
                "cpu ms": round(own * 1e3),
                "render ms": round(sum(rendered) * 1e3, 1),
                "read units": round(reads.units),
                "requests": reads.requests,
                "gzip KB": round(len(gzip.compress(answer.content)) / 1e3, 1),
            }
        )
    return rows


@contextmanager
def rendering() -> Iterator[list[float]]:
    """Seconds of processor time of each template that is rendered meanwhile."""
    seconds, render = list[float](), Template.render

    def timed(template: Template, *given: Any, **named: Any) -> str:
        began = time.thread_time()
        text = render(template, *given, **named)
        seconds.append(time.thread_time() - began)
        return text

    with patch.object(Template, "render", timed):
        yield seconds


def load(app: FastAPI, ledger: LargeLedger, rate: float, seconds: float) -> dict[str, Any]:
    """Reads by key at a steady rate, each sender over a connection of its own: a request's time counts from when it was due."""
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_config=None, access_log=False))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    port = server.servers[0].sockets[0].getsockname()[1]
    paths = [f"/v1/tenants/{TENANT}/{path.format(**values_of(ledger))}" for path in _BY_KEY]
    begin, each = time.perf_counter() + 0.5, _SENDERS / rate

    def send(sender: int) -> tuple[list[float], int]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        times, errors, due = list[float](), 0, begin + sender / rate
        while due < begin + seconds:
            time.sleep(max(0.0, due - time.perf_counter()))
            connection.request("GET", paths[len(times) % len(paths)], headers={"Authorization": f"Bearer {KEY}"})
            answer = connection.getresponse()
            answer.read()
            errors += answer.status != 200
            times.append(time.perf_counter() - due)
            due += each
        connection.close()
        return times, errors

    with ThreadPoolExecutor(_SENDERS) as pool:
        found = list(pool.map(send, range(_SENDERS)))
    server.should_exit = True
    thread.join()
    times = sorted(one for some, _ in found for one in some)
    return {
        "requests": len(times),
        "a second": round(len(times) / seconds),
        "errors": sum(errors for _, errors in found),
        "p50 ms": round(times[len(times) // 2] * 1e3, 1),
        "p99 ms": round(times[int(len(times) * 0.99)] * 1e3, 1),
        "max ms": round(times[-1] * 1e3, 1),
    }
