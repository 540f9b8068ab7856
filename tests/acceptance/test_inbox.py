"""The recipe of docs/how-to/inbox.md against a PostgreSQL server: workers die, stall and lose their leases, and it writes once."""

from __future__ import annotations

import importlib
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from quarterjack import Context, RunState, Scheduler
from quarterjack.domain.times import MINUTE
from quarterjack.errors import LeaseLost
from quarterjack.services import system_clock
from quarterjack.testing import Crash, Memory
from quarterjack.testing.process import Hand, make_worker

from tests.support.doc_pages import page
from tests.support.installation.scene import until
from tests.support.postgres import running_postgres
from tests.support.scenes.world import Faults, crash

pytestmark = pytest.mark.check

_BLOCK = re.compile(r"```(python|sql)\n(.*?)```", re.DOTALL)
BLOCKS = [(kind, text) for kind, text in _BLOCK.findall(page("docs/how-to/inbox.md").text)]
ORDER = {"order": "o-17", "cents": 4200}


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    with running_postgres() as found:
        yield found


@pytest.fixture
def recipe(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The page's modules, and its tables, empty."""
    for text in (text for kind, text in BLOCKS if kind == "python"):
        (tmp_path / text.split("\n", 1)[0].removeprefix("# ")).write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("DATABASE", database)
    with psycopg.connect(database) as connection:
        connection.execute("DROP TABLE IF EXISTS inbox, payments")
        connection.execute(next(text for kind, text in BLOCKS if kind == "sql").encode())
    yield importlib.import_module("billing")
    for name in ("billing", "inbox"):
        sys.modules.pop(name, None)


class Hands:
    """Two workers; the clock of the second is so far ahead that it takes every lease."""

    def __init__(self, recipe: Any, faults: Faults | None = None) -> None:
        self.memory = Memory(system_clock)
        self.jobs, self.during = recipe.jobs, list[Callable[[Context], None]]()
        self.first = self._hand(system_clock, faults)
        self.second = self._hand(lambda: system_clock() + 2 * MINUTE)
        self.scheduler = Scheduler("acme", jobs=recipe.jobs, services=self.memory.connect(), clock=system_clock)

    def _hand(self, clock: Callable[[], int], faults: Faults | None = None) -> Hand:
        wait = threading.Event().wait
        return Hand(worker=make_worker(self.memory.connect(faults), self.jobs, clock, wait=wait, name=f"w{clock}"))

    def take_over(self) -> None:
        """The first worker is silent: its message is seen by the second one, which finds the lease lapsed."""
        self.first.worker.services.work.hide([one.receipt for one in self.first.worker.heartbeat.all()], 0)
        assert self.second.work()


def payments(database: str) -> list[tuple[str, int]]:
    with psycopg.connect(database) as connection:
        return list(connection.execute("SELECT id, cents FROM payments"))


def inbox(database: str) -> list[tuple[int, Any]]:
    with psycopg.connect(database) as connection:
        return list(connection.execute("SELECT fence, result FROM inbox"))


def test_it_pays_once_and_says_what_it_did(recipe: Any, database: str) -> None:
    hands = Hands(recipe)
    run = hands.scheduler.submit("billing.pay", ORDER)
    hands.first.work()
    found = hands.scheduler.get_run(run.id)
    assert (found.state, found.steps) == (RunState.SUCCEEDED, {"pay": "paid by attempt 1"})
    assert payments(database) == [("o-17", 4200)]
    assert inbox(database) == [(1, {"value": "paid by attempt 1"})]


def test_a_worker_that_dies_before_the_commit_leaves_nothing(recipe: Any, database: str) -> None:
    hands, once = Hands(recipe), recipe.once

    def dies(database: str, ctx: Context, name: str, work: Any) -> Any:
        def fatal(connection: Any) -> None:
            work(connection)
            raise Crash

        return once(database, ctx, name, fatal)

    recipe.once = dies
    run = hands.scheduler.submit("billing.pay", ORDER)
    with pytest.raises(Crash):
        hands.first.work()
    assert (payments(database), inbox(database)) == ([], [])
    recipe.once = once
    hands.take_over()
    assert hands.scheduler.get_run(run.id).result == "paid by attempt 2"
    assert payments(database) == [("o-17", 4200)]


def test_a_worker_that_dies_after_the_commit_has_paid(recipe: Any, database: str) -> None:
    hands = Hands(recipe, Faults().at("keep step", before=crash))
    run = hands.scheduler.submit("billing.pay", ORDER)
    with pytest.raises(Crash):
        hands.first.work()
    hands.take_over()
    found = hands.scheduler.get_run(run.id)
    assert (found.state, found.attempt, found.result) == (RunState.SUCCEEDED, 2, "paid by attempt 1")
    assert payments(database) == [("o-17", 4200)]


def test_a_worker_whose_lease_was_stolen_before_it_began_is_told(recipe: Any, database: str) -> None:
    hands, once, told = Hands(recipe), recipe.once, list[str]()

    def stalls(database: str, ctx: Context, name: str, work: Any) -> Any:
        if ctx.fence == 1:
            hands.take_over()
        try:
            return once(database, ctx, name, work)
        except LeaseLost as problem:
            told.append(str(problem))
            raise

    recipe.once = stalls
    run = hands.scheduler.submit("billing.pay", ORDER)
    hands.first.work()
    assert hands.scheduler.get_run(run.id).result == "paid by attempt 2"
    assert told == ["a worker with a greater fence than 1 has been here; stop"]
    assert payments(database) == [("o-17", 4200)]


@pytest.mark.parametrize("ends", ["commits", "is cut off"])
def test_of_a_worker_that_stalls_within_its_transaction_and_its_successor_one_pays(
    recipe: Any, database: str, ends: str
) -> None:
    """The successor waits at the row until the stalled transaction is over."""
    hands, once, successor = Hands(recipe), recipe.once, list[threading.Thread]()

    def stalls(database: str, ctx: Context, name: str, work: Any) -> Any:
        def slow(connection: Any) -> Any:
            value = work(connection)
            if ctx.fence == 1:
                successor.append(threading.Thread(target=hands.take_over))
                successor[0].start()
                assert until(lambda: waiting(database) == 1, 60)
                if ends == "is cut off":
                    cut_off(database, connection.info.backend_pid)
            return value

        return once(database, ctx, name, slow)

    recipe.once = stalls
    run = hands.scheduler.submit("billing.pay", ORDER)
    with suppress(psycopg.Error):
        hands.first.work()
    successor[0].join(60)
    paid_by = 1 if ends == "commits" else 2
    found = hands.scheduler.get_run(run.id)
    assert (found.state, found.result) == (RunState.SUCCEEDED, f"paid by attempt {paid_by}")
    assert payments(database) == [("o-17", 4200)]


def waiting(database: str) -> int:
    """Sessions that wait for a lock."""
    with psycopg.connect(database, autocommit=True) as connection:
        row = connection.execute("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'").fetchone()
        assert row is not None
        return int(row[0])


def cut_off(database: str, session: int) -> None:
    """What the server does with a session that is idle in its transaction for too long."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(%s)", [session])
