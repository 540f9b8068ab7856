"""procrastinate: one asyncio worker of a hundred jobs at a time over PostgreSQL, which is its scheduler too; done jobs are kept.

Its schedules are cron fields, seconds among them. Its worker looks for jobs of the future every 5 s, as it does by default: what
``burst`` shows of lateness is that interval.
"""

from __future__ import annotations

import asyncio
import sys

from procrastinate import App, PsycopgConnector

from bench.peers.plan import RECURRING, given, ready

AT_ONCE = 100
plan = given()
app = App(connector=PsycopgConnector(conninfo=plan.database))


async def _work(name: str) -> None:
    plan.note(name)


async def _scheduled(timestamp: int, name: str) -> None:
    del timestamp
    plan.note(name)


work, scheduled = app.task(name="work")(_work), app.task(name="scheduled")(_scheduled)


async def serve() -> None:
    if plan.kind == RECURRING:
        cron = f"{plan.begin:%M %H %d %m} * {','.join(map(str, plan.seconds))}"  # croniter has the seconds in the sixth field
        for name in plan.names:
            app.periodic(cron=cron, periodic_id=name, task_kwargs={"name": name})(scheduled)
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        ready("worker")
        await app.run_worker_async(concurrency=AT_ONCE)


async def submit() -> None:
    async with app.open_async():
        await work.configure(schedule_at=plan.begin).batch_defer_async(*({"name": name} for name in plan.names))
    ready("submit")


def main(role: str) -> None:
    asyncio.run(submit() if role == "submit" else serve())


if __name__ == "__main__":
    main(sys.argv[1])
