"""arq: one asyncio worker of a hundred jobs at a time over Redis, which is its scheduler too; results are kept for an hour.

Its schedules are cron fields, seconds among them.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC
from typing import Any

from arq import create_pool, cron, func
from arq.connections import RedisSettings
from arq.worker import run_worker

from bench.peers.plan import RECURRING, given, ready

AT_ONCE = 100
plan = given()
redis = RedisSettings.from_dsn(plan.redis)


async def work(_: dict[str, Any], name: str) -> None:
    plan.note(name)


def of(name: str) -> Callable[[dict[str, Any]], Awaitable[None]]:
    async def run(context: dict[str, Any]) -> None:
        await work(context, name)

    return run


def at_its_instants(name: str) -> Any:
    at = plan.begin
    return cron(of(name), name=name, day=at.day, hour=at.hour, minute=at.minute, second=set(plan.seconds))


async def begun(_: dict[str, Any]) -> None:
    ready("worker")


class Settings:  # arq reads what the class itself has, and nothing that it inherits
    functions = [func(work, name="work")]  # noqa: RUF012 (arq's way to be told)
    cron_jobs = [at_its_instants(name) for name in plan.names] if plan.kind == RECURRING else []
    redis_settings = redis
    max_jobs = AT_ONCE
    timezone = UTC
    on_startup = begun


async def submit() -> None:
    pool = await create_pool(redis)
    for name in plan.names:
        await pool.enqueue_job("work", name, _defer_until=plan.begin)
    ready("submit")


def main(role: str) -> None:
    if role == "submit":
        asyncio.run(submit())
    else:
        run_worker(Settings)


if __name__ == "__main__":
    main(sys.argv[1])
