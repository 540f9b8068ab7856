"""APScheduler 3: one process, 20 threads, its jobs in memory or in PostgreSQL, by intervals or, as from a crontab, by cron fields."""

from __future__ import annotations

import sys
import threading
from datetime import UTC, timedelta
from typing import Any

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.memory import MemoryJobStore
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler

from bench.peers.plan import EVERY, RECURRING, TIMES, given, ready

THREADS = 20
CRON = "cron"  # the role of one whose jobs are in memory, with cron fields
plan = given()


def work(name: str) -> None:
    plan.note(name)


def timing(role: str) -> dict[str, Any]:
    first = plan.begin
    if plan.kind == RECURRING and role == CRON:
        of_minute = {"minute": first.minute, "hour": first.hour, "day": first.day, "month": first.month}
        return {"trigger": "cron", "second": ",".join(map(str, plan.seconds)), "timezone": UTC, **of_minute}
    if plan.kind == RECURRING:
        last = first + timedelta(seconds=EVERY * (TIMES - 1))
        return {"trigger": "interval", "seconds": EVERY, "start_date": first, "end_date": last}
    return {"trigger": "date", "run_date": first}


def main(role: str) -> None:
    store = SQLAlchemyJobStore(url=plan.database) if role == "postgres" else MemoryJobStore()
    scheduler = BackgroundScheduler(
        jobstores={"default": store},
        executors={"default": ThreadPoolExecutor(THREADS)},
        job_defaults={"misfire_grace_time": None, "coalesce": False, "max_instances": 1_000},
        timezone=UTC,
    )
    scheduler.start(paused=True)
    for name in plan.names:
        scheduler.add_job(work, args=[name], id=name, **timing(role))
    scheduler.resume()
    ready(role)
    threading.Event().wait()


if __name__ == "__main__":
    # by its importable name, which is what the store keeps of it
    from bench.peers import with_apscheduler

    with_apscheduler.main(sys.argv[1])
