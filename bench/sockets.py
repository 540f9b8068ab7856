"""What ticker and worker cost over real sockets, log lines included: CPU a fire, the answers given by another process.

python -m bench sockets [--fires 5000] [--repeat 3] [--workers-only]

As ``tick`` and ``work``, whose stub answers in the process; here a child answers over loopback, so that connections, HTTP and waiting
are in the figures, and each run writes its log lines (to nowhere). Nothing else is on the way, unlike end to end.
"""

from __future__ import annotations

import argparse
import gc
import logging
import multiprocessing
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from quarterjack import Registry, logs
from quarterjack.daemon.worker_process import WorkerProcess
from quarterjack.ports.services import Services
from quarterjack.services import connect
from quarterjack.settings import DEFAULT_TICKER_THREADS, Settings
from quarterjack.ticker.fan_out import FanOutConfig
from quarterjack.ticker.tick import tick

from bench import work
from bench.report import Table, write
from bench.stub import StubbedCloud
from bench.tick import MINUTE, SHARDS, Case, cloud_of, named, row

HOURLY, MINUTELY = named("hourly cron"), named("minutely cron")
_ENDS = b"\r\n\r\n"
_PATIENCE = 120  # seconds for all runs


@contextmanager
def answering(make: Callable[[], StubbedCloud]) -> Iterator[tuple[Services, Any]]:
    """Services over a child process that answers; and how many messages were deleted, as it counts them."""
    deleted = multiprocessing.Value("q", 0)
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        child = multiprocessing.get_context("fork").Process(target=_serve, args=(server, make(), deleted), daemon=True)
        child.start()
        os.environ.update(AWS_ACCESS_KEY_ID="bench", AWS_SECRET_ACCESS_KEY="bench")
        endpoint = f"http://127.0.0.1:{server.getsockname()[1]}"
    try:
        services = connect(Settings(prefix="bench", endpoint=endpoint, region="us-east-1", shards=SHARDS))
        yield services, deleted
    finally:
        child.terminate()
        child.join()


def _serve(server: socket.socket, cloud: StubbedCloud, deleted: Any) -> None:
    while True:
        threading.Thread(target=_answer_all, args=(server.accept()[0], cloud, deleted), daemon=True).start()


def _answer_all(connection: socket.socket, cloud: StubbedCloud, deleted: Any) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    got = b""
    while True:
        while _ENDS not in got:
            piece = connection.recv(1 << 16)
            if not piece:
                return
            got += piece
        head, _, body = got.partition(_ENDS)
        fields = dict(line.split(": ", 1) for line in head.decode().lower().split("\r\n")[1:])
        while len(body) < int(fields["content-length"]):
            body += connection.recv(1 << 16)
        got = b""
        content = cloud.post(fields, body, 0).content
        deleted.value = cloud.deleted
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(content) + content)


def measure_work(runs: int, concurrency: int = 100) -> dict[str, float]:
    """A worker process over sockets; CPU a run, microseconds."""
    case, registry, done = work.CASES[0], Registry(), work.Counter()
    registry.job(case.job)(done.nothing)
    with answering(lambda: work.cloud_of(case, runs)) as (services, deleted):
        process = WorkerProcess(services, registry, concurrency=concurrency)
        stop = threading.Event()
        worker = threading.Thread(target=process.run, kwargs={"stop": stop, "grace": 10})
        gc.collect()
        started, deadline = time.process_time(), time.monotonic() + _PATIENCE
        worker.start()
        while deleted.value < runs and time.monotonic() < deadline:
            stop.wait(0.02)
        cpu = time.process_time() - started
        stop.set()
        worker.join()
    if done.count != runs:
        raise SystemExit(f"{done.count} jobs ran of {runs}")
    return {"cpu_us_per_fire": round(cpu / runs * 1e6, 1)}


def measure_tick(case: Case, fires: int) -> dict[str, float]:
    """A tick over sockets; CPU a fire, microseconds."""
    with answering(lambda: cloud_of(case, fires)) as (services, _):
        gc.collect()
        started, now = time.process_time(), case.due - MINUTE
        spread = FanOutConfig(threads=DEFAULT_TICKER_THREADS)
        report = tick(services, clock=lambda: now, holder="bench", budget=10**9, spread=spread)
        cpu = time.process_time() - started
    if report.handled.messages.sent != fires:
        raise SystemExit(f"the tick sent {report.handled.messages.sent} of {fires} fires")
    return {"cpu_us_per_fire": round(cpu / fires * 1e6, 1)}


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="bench sockets")
    parser.add_argument("--fires", type=int, default=5_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--workers-only", action="store_true")
    given = parser.parse_args(arguments)
    with Path(os.devnull).open("w", buffering=1) as nowhere:
        logs.configure(stream=nowhere)
        measure_work(100)  # imports and caches are no part of a warm worker
        measures: dict[str, Callable[[], dict[str, float]]] = {
            f"work: {work.CASES[0].name}": lambda: measure_work(given.fires)
        }
        if not given.workers_only:
            measures[f"tick: {HOURLY.name}"] = lambda: measure_tick(HOURLY, given.fires)
            measures[f"tick: {MINUTELY.name}"] = lambda: measure_tick(MINUTELY, given.fires)
        rows = [row(name, given.fires, [one() for _ in range(given.repeat)]) for name, one in measures.items()]
        logging.getLogger().handlers.clear()
    write("sockets", rows)
    Table("sockets", rows).show()
