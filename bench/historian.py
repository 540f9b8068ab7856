"""How far the historian is behind: from the end of a run, as its row has it, to the last consumer's return; on the local cloud.

python -m bench historian [--seconds 20] [--rates 10,100]

One thread claims, leases and ends runs at an even rate, in batches as a worker does; another follows the stream, a round every two
seconds, as `quarterjack historian` does, with all consumers. Both use one processor. The changes of a run are three. CPU is that of the
following thread, in ms for 1,000 changes; requests to the emulator are waits, not CPU.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Sequence
from typing import Any

from quarterjack.daemon.roles import HISTORIAN_PERIOD
from quarterjack.domain.history.run_change import RunChange
from quarterjack.domain.names import fire_ref
from quarterjack.domain.run import RunRow, RunState
from quarterjack.domain.times import HOUR
from quarterjack.historian import deliver as delivery
from quarterjack.historian.context import HistorianContext
from quarterjack.historian.follow import FollowReport, StreamFollower
from quarterjack.local.cloud import LocalCloud, reached_by_this_process
from quarterjack.ports.services import Services
from quarterjack.services import connect, system_clock
from quarterjack.settings import Settings
from quarterjack.state.lease import lease, succeed
from quarterjack.testing.cloud import fresh_settings

from bench.report import Table, write

BEAT = 0.25  # seconds between two batches of the writer


class Witness:
    """The last consumer: it notes how long ago each run ended."""

    def __init__(self) -> None:
        self.delays: list[int] = []  # ms

    def __call__(self, changes: Sequence[RunChange], context: HistorianContext) -> None:
        now = system_clock()
        ended = (change.new.ended_at for change in changes if change.new is not None)
        self.delays += [now - at for at in ended if at is not None]


def write_runs(services: Services, rate: int, seconds: float) -> None:
    """Let ``rate`` runs a second go from claim to end."""
    began, number = time.monotonic(), 0
    while (past := time.monotonic() - began) < seconds:
        due, now = int(past * rate), system_clock()
        runs = [_run(now + n, n) for n in range(number, due)]
        if runs:
            services.ledger.claim(runs)
            first: dict[str, Any] = {"revision": 1, "token": "t", "worker": "w", "max_attempts": 3, "steal": False}
            services.ledger.lease_all([(r.ref, lease(now=r.due, first=True, **first)) for r in runs])
            now = system_clock()
            services.ledger.move_all([(r.ref, succeed(fence=1, now=now, expires=now + HOUR)) for r in runs])
        number = due
        time.sleep(max(0.0, BEAT - (time.monotonic() - began - past)))


def _run(at: int, number: int) -> RunRow:
    ref = fire_ref(f"bench/schedule-{number % 50}", at)
    return RunRow(ref=ref, state=RunState.QUEUED, revision=1, job="bench", due=at, not_before=at, created_at=at)


def measure(settings: Settings, rate: int, seconds: float) -> dict[str, Any]:
    witness = Witness()
    consumers = delivery.CONSUMERS
    delivery.CONSUMERS = (*consumers, witness)
    try:
        total, cpu = _follow(settings, rate, seconds)
    finally:
        delivery.CONSUMERS = consumers
    delays = sorted(witness.delays)
    return {
        "runs_a_second": rate,
        "seconds": seconds,
        "ended": len(delays),
        "changes": total.changes,
        "batches": total.batches,
        "delay_p50_ms": delays[len(delays) // 2],
        "delay_p99_ms": delays[len(delays) * 99 // 100],
        "delay_max_ms": delays[-1],
        "cpu_ms_per_1000": round(1_000_000 * cpu / total.changes, 1),
    }


def _follow(settings: Settings, rate: int, seconds: float) -> tuple[FollowReport, float]:
    """Follow until every run's end was seen: the sum of the rounds, and seconds of processor time."""
    follower, total = StreamFollower(connect(settings), system_clock), FollowReport()
    follower.poll()
    writer = threading.Thread(target=write_runs, args=(connect(settings), rate, seconds))
    writer.start()
    cpu, idle = 0.0, 0
    while writer.is_alive() or idle < 2:
        began, before = time.monotonic(), time.thread_time()
        done = follower.poll()
        cpu += time.thread_time() - before
        total.add(done)
        idle = 0 if done.changes else idle + 1
        if not done.has_more:
            time.sleep(max(0.0, HISTORIAN_PERIOD - (time.monotonic() - began)))
    writer.join()
    return total, cpu


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="bench historian")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--rates", default="10,100")
    given = parser.parse_args(arguments)
    with LocalCloud() as cloud, reached_by_this_process(cloud.environment):
        rows = [measure(fresh_settings(cloud), int(rate), given.seconds) for rate in given.rates.split(",")]
    write("historian", rows)
    Table("historian", rows).show()
