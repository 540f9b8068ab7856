"""What an incident costs; docs/how-to/notifications.md has these figures."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from quarterjack.dynamodb.dynamo_tables import DynamoTables
from quarterjack.dynamodb.table_client import TableClient
from quarterjack.ports.services import Services
from quarterjack.stores.schedules import IncidentChange, ScheduleStore
from quarterjack.stores.tables import TABLES
from quarterjack.testing.process import bury_all, make_worker

from tests.support.scenes.incidents import Scene
from tests.support.scenes.world import Faults


class Transactions:
    """A client of DynamoDB that counts the rows of the transactions that it is given."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        table = TableClient(self, "t")  # type: ignore[arg-type]  # it can but call
        self.schedules = ScheduleStore(DynamoTables(dict.fromkeys(TABLES, table)))

    def call(self, operation: str, /, **arguments: Any) -> dict[str, Any]:
        assert operation == "transact_write_items"
        self.rows.append(len(arguments["TransactItems"]))
        return {}


class Meter:
    """Counts the rows of the transactions that go through it."""

    def __init__(self, services: Services) -> None:
        self._inner, self._written = services.schedules, Transactions()
        self.services = replace(services, schedules=self)  # type: ignore[arg-type]

    @property
    def rows(self) -> list[int]:
        return self._written.rows

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def note(self, note: IncidentChange) -> bool:
        self._written.schedules.note(note)
        return self._inner.note(note)


def test_the_first_failure_writes_six_rows_each_further_one_two_and_a_recovery_four() -> None:
    scene = Scene()
    scene.schedule()
    meter = Meter(scene.process())
    scene.services = meter.services
    scene.live(3 * 60 + 1)
    assert meter.rows == [6, 2, 2]
    scene.broken = False
    scene.live(3 * 60)
    assert meter.rows == [6, 2, 2, 4]


def test_a_success_of_a_healthy_schedule_makes_the_calls_that_it_always_made() -> None:
    plain, told = calls_of_a_success(), calls_of_a_success(on_failure="job:page", pause_on_failure=3)
    assert plain == told
    assert "head" not in plain


def calls_of_a_success(**options: object) -> list[str]:
    scene = Scene(broken=False)
    scene.schedule(**({"on_failure": None, "on_recovery": None} | options))  # type: ignore[arg-type]
    scene.tick()
    scene.wait(60)
    calls = Faults()
    scene.work(make_worker(scene.process(calls), scene.jobs, scene.clock, wait=scene.wait))
    return [f"{operation} {detail.verb}" for operation, detail in calls.calls]


def test_an_incident_that_goes_on_is_looked_at_a_dozen_times_a_month() -> None:
    scene = Scene()
    scene.schedule("0 13 * * *", on_failure=None, on_recovery=None)
    scene.live(3700)
    scene.scheduler.pause_schedule("s")
    looks = Faults()
    scene.services = scene.process(looks)
    for _ in range(30 * 24):
        scene.tick()
        scene.wait(3600)
    assert 8 <= sum(detail.verb == "succeeded" for _, detail in looks.calls) <= 14


def test_a_failure_reads_three_things_more() -> None:
    scene = Scene()
    scene.schedule()
    scene.tick()
    scene.wait(60)
    scene.work()
    calls = Faults()
    bury_all(scene.process(calls), scene.clock)
    verbs = [detail.verb for _, detail in calls.calls]
    assert verbs == ["receive", "read", "bury", "head", "revisions", "succeeded", "note", "delete"]
