"""DBOS: one process over PostgreSQL, a thread for each schedule, which is a cron expression; workflows without a step."""

from __future__ import annotations

import sys
import threading
import time
from datetime import datetime
from typing import Any

from dbos import DBOS, SetEnqueueOptions

from bench.peers.plan import RECURRING, given, ready

QUEUE = "burst"
plan = given()


def _scheduled(_: datetime, name: Any) -> None:
    plan.note(str(name))


def _work(name: str) -> None:
    plan.note(name)


def main() -> None:
    DBOS(
        config={
            "name": "peer",
            "system_database_url": plan.database,
            "scheduler_polling_interval_sec": 5.0,
            "console_log_level": "WARNING",
        }
    )
    scheduled, work = DBOS.workflow(name="scheduled")(_scheduled), DBOS.workflow(name="work")(_work)
    DBOS.launch()
    if plan.kind == RECURRING:
        schedule = f"{','.join(map(str, plan.seconds))} {plan.begin:%M %H %d %m} *"
        for name in plan.names:
            DBOS.create_schedule(schedule_name=name, workflow_fn=scheduled, schedule=schedule, context=name)
    else:
        queue = DBOS.register_queue(QUEUE)
        for name in plan.names:
            with SetEnqueueOptions(delay_seconds=plan.first - time.time()):
                queue.enqueue(work, name)
    ready(sys.argv[1])
    threading.Event().wait()


if __name__ == "__main__":
    main()
