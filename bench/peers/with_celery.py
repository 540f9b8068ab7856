"""Celery: beat and a worker of two processes over Redis, no results kept; one-offs wait in the worker.

Its ``crontab`` knows minutes and no seconds, so every ten seconds is an interval.
"""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import Any

from celery import Celery
from celery.signals import beat_init, worker_ready

from bench.peers.plan import EVERY, RECURRING, given, ready

PROCESSES = 2
plan = given()
app = Celery("peer", broker=plan.redis)
app.conf.update(task_ignore_result=True, enable_utc=True, timezone="UTC", worker_hijack_root_logger=False)


def _work(name: str) -> None:
    plan.note(name)


work = app.task(name="peer.work")(_work)


def _entry(name: str) -> dict[str, Any]:
    every = timedelta(seconds=EVERY)
    return {"task": "peer.work", "schedule": every, "args": (name,), "last_run_at": plan.begin - every}


if plan.kind == RECURRING:
    app.conf.beat_schedule = {name: _entry(name) for name in plan.names}
worker_ready.connect(lambda **_: ready("worker"), weak=False)
beat_init.connect(lambda **_: ready("beat"), weak=False)


def main(role: str) -> None:
    if role == "worker":
        app.worker_main(["worker", "--concurrency", str(PROCESSES), "--loglevel", "WARNING", "--without-gossip"])
    elif role == "beat":
        app.start(["beat", "--scheduler", "celery.beat:Scheduler", "--loglevel", "WARNING", "--pidfile", ""])
    else:
        for name in plan.names:
            work.apply_async((name,), eta=plan.begin)
        ready(role)


if __name__ == "__main__":
    main(sys.argv[1])
