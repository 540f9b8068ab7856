"""``ctx.transaction`` on the local cloud: of two workers of which one has stolen the other's lease, one writes."""

from __future__ import annotations

import threading
from typing import Any

import boto3
import pytest
from quarterjack import Context, Registry, Retry, RunState, Scheduler
from quarterjack.domain.times import MINUTE
from quarterjack.errors import LeaseLost
from quarterjack.ports.services import Clock
from quarterjack.services import connect, system_clock
from quarterjack.settings import Settings
from quarterjack.testing.process import Hand, make_worker

from tests.support.job_tables import items_of, make_table

SOON = Retry(max_attempts=4, base=0.1, jitter=0.0)


@pytest.fixture
def client(local_settings: Settings) -> Any:
    return boto3.client("dynamodb", endpoint_url=local_settings.endpoint, region_name=local_settings.region)


class Hands:
    """Two workers of one installation; the clock of the second is so far ahead that it takes every lease."""

    def __init__(self, settings: Settings, jobs: Registry) -> None:
        self.scheduler = Scheduler("acme", jobs=jobs, settings=settings)
        clocks: tuple[Clock, ...] = (system_clock, lambda: system_clock() + 2 * MINUTE)
        wait = threading.Event().wait
        self.first, self.second = (
            Hand(worker=make_worker(connect(settings), jobs, clock, wait=wait, name=f"w{number}"))
            for number, clock in enumerate(clocks)
        )


def add(table: str, amount: int) -> dict[str, Any]:
    """One more: what an item with a fixed value would hide."""
    values = {":n": {"N": str(amount)}}
    key = {"id": {"S": "balance"}}
    return {
        "Update": {
            "TableName": table,
            "Key": key,
            "UpdateExpression": "ADD cents :n",
            "ExpressionAttributeValues": values,
        }
    }


def test_two_workers_with_a_stolen_lease_write_once(local_settings: Settings, client: Any) -> None:
    jobs, table, refused = Registry(), make_table(client), list[str]()

    @jobs.job("pay", retry=SOON)
    def pay(ctx: Context, payload: dict[str, int]) -> int:
        assert ctx.resume is None  # reads what is recorded: nothing, for the first worker
        if ctx.fence == 1:  # it stalls here: its lease lapses, and its message is seen by the other worker
            hands.first.worker.services.work.hide(
                [message.receipt for message in hands.first.worker.heartbeat.all()], 0
            )
            assert hands.second.work()
        try:
            return int(ctx.transaction([add(table, payload["cents"])], result=ctx.fence))
        except LeaseLost:
            refused.append(ctx.run_id)
            raise

    hands = Hands(local_settings, jobs)
    run = hands.scheduler.submit("pay", {"cents": 4200})
    hands.first.work()
    found = hands.scheduler.get_run(run.id)
    assert (found.state, found.result, found.steps) == (RunState.SUCCEEDED, 2, {"transaction": 2})
    assert refused == [run.id], "the first worker came back, and could not write"
    assert items_of(client, table) == [{"id": {"S": "balance"}, "cents": {"N": "4200"}}]


def test_what_failed_afterwards_is_not_written_again(local_settings: Settings, client: Any) -> None:
    jobs, table = Registry(), make_table(client)

    @jobs.job("pay", retry=SOON)
    def pay(ctx: Context, payload: dict[str, int]) -> Any:
        written = ctx.transaction([add(table, 1)], step="pay", result={"attempt": ctx.attempt})
        if ctx.attempt == 1:
            raise ConnectionError
        return written

    hands = Hands(local_settings, jobs)
    run = hands.scheduler.submit("pay")
    hands.first.work()
    for _ in range(40):
        if hands.scheduler.get_run(run.id).state is RunState.SUCCEEDED:
            break
        hands.second.work()
        threading.Event().wait(0.1)
    assert hands.scheduler.get_run(run.id).result == {"attempt": 1}
    assert items_of(client, table) == [{"id": {"S": "balance"}, "cents": {"N": "1"}}]
