"""Owners change their schedules at random while these fire: 0 lost, 0 double, nothing after a stop had returned.

The whole of it, 1,000 acts on the local cloud with real processes, is a proof; a part of it, over services in memory with real threads,
runs always. ``OPERATIONS`` and ``SEED`` choose others.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from quarterjack import Context, Registry, Scheduler
from quarterjack.daemon.roles import run_ticker
from quarterjack.daemon.worker_process import WorkerProcess
from quarterjack.domain.times import SECOND
from quarterjack.ports.services import Services
from quarterjack.services import connect, system_clock
from quarterjack.testing import Memory

from tests.support.installation.operations import DENSE, Owners, Told
from tests.support.installation.reckoning import Began, Reckoning, is_over, reckon
from tests.support.installation.scene import UNDERTAKER, Scene, ticker, until, worker
from tests.support.scenes.world import NOON, World

REST = 240.0  # seconds at the most until all that is due has been dealt with
JOB = "test.note"


def judged(
    owners: Owners, began: Callable[[], Sequence[Began]], services: Services, tenant: str, *, backfills: bool
) -> Reckoning:
    """Let the owners act, let everything come to rest, and reckon."""
    owners.act()
    upto = system_clock()
    rested = until(lambda: is_over(owners.told, services, tenant, upto, backfills=backfills), REST)
    result = reckon(owners.told, began(), services, tenant, upto)
    acts: dict[str, int] = {}
    for told in owners.told:
        acts[told.act] = acts.get(told.act, 0) + 1
    print(f"seed={owners.seed}", dict(sorted(result.counts.items())), acts, dict(owners.refused))  # noqa: T201 (a figure to report)
    assert result.violations == [], "\n".join(result.details)
    assert rested, "something is still under way"
    return result


@contextmanager
def running(memory: Memory, jobs: Registry) -> Iterator[None]:
    """Two tickers and two workers, each with services of its own, as threads."""
    stop = threading.Event()
    workers = [WorkerProcess(memory.connect(), jobs) for _ in range(2)]
    threads = [
        *(
            threading.Thread(target=run_ticker, args=(memory.connect(),), kwargs={"stop": stop, "period": 0.2})
            for _ in "ab"
        ),
        *(threading.Thread(target=one.run, kwargs={"stop": stop, "grace": 5.0}) for one in workers),
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_acts_that_race_with_live_fires_lose_none_and_double_none() -> None:
    idle = threading.Event()
    memory, jobs, began = (
        Memory(system_clock, idle=lambda seconds: idle.wait(min(seconds, 0.02))),
        Registry(),
        list[Began](),
    )

    def note(ctx: Context, payload: dict[str, Any]) -> None:
        began.append(Began(run=ctx.run_id, at=system_clock(), said=payload["said"]))

    jobs.job(JOB)(note)
    owners = Owners(
        connect=lambda: Scheduler("acme", jobs=jobs, services=memory.connect()),
        job=JOB,
        payload=lambda said: {"said": said},
        names=[f"s-{number:02}" for number in range(24)],
        operations=120,
        seconds=5.0,
        expressions=DENSE,
        seed=int(os.environ.get("SEED", "1")),
    )
    with running(memory, jobs):
        result = judged(owners, lambda: began, memory.connect(), "acme", backfills=False)
    assert result.counts["ran"] > 5, "too few for a race"
    assert result.counts["revisions"] > 30


@pytest.mark.cloud
@pytest.mark.proof
def test_a_thousand_acts_race_with_real_processes(scene: Scene) -> None:
    crew = scene.start(
        worker("worker-1"), worker("worker-2"), ticker("ticker-1", period=1), ticker("ticker-2", period=1), UNDERTAKER
    )
    count = int(os.environ.get("OPERATIONS", "1000"))
    owners = Owners(
        connect=lambda: scene.scheduler,
        job=JOB,
        payload=lambda said: {"to": scene.to, "said": said},
        names=[f"s-{number:02}" for number in range(60)],
        operations=count,
        seconds=count * 0.15,
        seed=int(os.environ.get("SEED", "1")),
    )

    def began() -> Sequence[Began]:
        return [Began(run=start.run, at=int(start.at * 1_000), said=start.said) for start in scene.starts()]

    result = judged(owners, began, connect(scene.settings), scene.settings.tenant, backfills=True)
    assert result.counts["acts"] + sum(owners.refused.values()) >= count
    assert result.counts["ran"] > count // 8
    assert all(crew[name].exit_code is None for name in crew.names)


def told(act: str, at: int, **words: Any) -> Told:
    return Told(act=act, name="s", called=at, returned=at, **words)


CREATED = told("create", NOON, revision=1, said="x")
SECOND_START = NOON + 120 * SECOND


@pytest.mark.parametrize(
    ("told", "change", "kinds"),
    [
        ([CREATED], lambda began: began, set()),
        ([CREATED], lambda began: began[1:], {"lost"}),
        ([CREATED], lambda began: [*began, began[0]], {"double"}),
        ([CREATED], lambda began: [replace(began[0], said="y"), *began[1:]], {"astray"}),
        ([CREATED, told("pause", SECOND_START - 1)], lambda began: began, {"after stop"}),
        ([CREATED, told("pause", SECOND_START + 1)], lambda began: began, set()),
        ([CREATED, told("trigger", NOON, run="acme/s#nowhere")], lambda began: began, {"lost"}),
        ([replace(CREATED, returned=NOON - 1)], lambda began: began, {"intervals"}),
    ],
)
def test_the_reckoning_notices_what_is_wrong(
    told: list[Told], change: Callable[[list[Began]], list[Began]], kinds: set[str]
) -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "* * * * *", payload={"said": "x"})
    world.live(150)
    began = [Began(run=start.run_id, at=start.at, said="x") for start in world.started]
    assert [one.at for one in began] == [NOON + 60 * SECOND, SECOND_START]
    result = reckon(told, change(began), world.services, "acme", NOON + 150 * SECOND)
    assert {violation.partition(":")[0] for violation in result.violations} == kinds
