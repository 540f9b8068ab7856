"""Gaps between what the docs promise and what the code did, found by reading one against the other; each was open once."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from quarterjack import Registry, RunState, Scheduler
from quarterjack.auditor.audit import audit
from quarterjack.domain.tenants.app_versions import AppVersions
from quarterjack.fires.claim import FireClaim
from quarterjack.fires.context import FireContext
from quarterjack.logs import RunLogger
from quarterjack.ports.queues import RawMessage
from quarterjack.testing import ManualClock, Memory
from quarterjack.testing.process import Hand, make_worker, work_off
from quarterjack.ticker.tick import dispatch, tick
from quarterjack.undertaker.bury import bury_one
from quarterjack.worker.delivery.receive import receive
from quarterjack.worker.delivery.visibility import HIDDEN, InFlightMessage
from quarterjack.worker.execution.settle import release_run
from quarterjack.worker.pipeline import run_batch


class Place:
    """One job, one worker that has leased its run and then vanishes."""

    def __init__(self, **policies: Any) -> None:
        self.clock = ManualClock(datetime(2026, 5, 4, 8, 30, tzinfo=UTC))
        self.memory = Memory(self.clock, shards=1)
        self.services = self.memory.connect()
        self.registry, self.started = Registry(), list[str]()

        @self.registry.job("work", **policies)
        def work(ctx: object, payload: object) -> None:
            self.started.append("again")

        self.scheduler = Scheduler("acme", jobs=self.registry, services=self.services, clock=self.clock)

    def worker(self, name: str) -> Hand:
        def wait(seconds: float) -> None:
            self.clock.advance(timedelta(seconds=seconds))

        worker = make_worker(self.services, self.registry, self.clock, wait=wait, name=name)
        return Hand(worker=worker)

    def start_and_hang(self) -> tuple[str, Hand, InFlightMessage]:
        """A run whose worker is inside the job's code: its id, the worker, its ticket."""
        run = self.scheduler.submit("work")
        hand = self.worker("first")
        (delivery,) = self.services.work.receive(most=1, wait=0, visibility=HIDDEN)
        received = receive(hand.worker, [delivery])
        release: list[InFlightMessage] = []

        def hang(*_: object) -> list[object]:
            """The process goes no further."""
            release.append(received[0].in_flight)
            return []

        executor: Any = SimpleNamespace(run=hang)
        run_batch(replace(hand.worker, executor=executor), received)
        return run.id, hand, release[0]


def test_a_worker_that_stops_never_gives_an_at_most_once_run_back() -> None:
    place = Place(delivery="at_most_once")
    run_id, hand, ticket = place.start_and_hang()
    assert not release_run(hand.worker, ticket)
    assert place.scheduler.get_run(run_id).state is RunState.RUNNING
    place.clock.advance(timedelta(minutes=6))
    tick(place.services, clock=place.clock, holder="ticker")
    assert place.scheduler.get_run(run_id).state is RunState.LOST
    assert place.worker("second").work() == []
    assert place.started == []


def test_a_run_that_may_be_repeated_is_given_back_and_starts_again() -> None:
    place = Place()
    run_id, hand, ticket = place.start_and_hang()
    assert release_run(hand.worker, ticket)
    place.worker("second").work()
    assert (place.scheduler.get_run(run_id).state, place.started) == (RunState.SUCCEEDED, ["again"])


def test_a_run_whose_worker_died_does_not_start_again_past_its_deadline() -> None:
    place = Place(deadline=30)
    run_id, _, _ = place.start_and_hang()
    place.clock.advance(timedelta(seconds=90))
    place.worker("second").work()
    assert (place.scheduler.get_run(run_id).state, place.started) == (RunState.EXPIRED, [])


def test_a_clock_that_steps_back_between_reading_and_planning_loses_no_chain() -> None:
    place = Place()
    place.scheduler.create_schedule("hourly", "work", "0 * * * *")
    (entry,) = place.memory.entries()
    place.clock.reach(entry.due - 180_000)
    page = place.services.agenda.due(0, upto=place.clock() + 180_000, after=None, limit=10)
    handled = dispatch(page.entries, FireContext(services=place.services, clock=lambda: place.clock() - 5))
    assert (handled.agenda.done, handled.fires.claimed, [left.key for left in place.memory.entries()]) == (
        0,
        0,
        [entry.key],
    )


def test_the_auditor_removes_entries_that_lie_beyond_the_end_of_their_revision() -> None:
    place = Place()
    place.scheduler.create_schedule("monthly", "work", "0 0 1 * *")
    place.scheduler.create_schedule("yearly", "work", "0 0 1 1 *")
    place.scheduler.pause_schedule("monthly")
    report = audit(place.services, clock=place.clock)
    assert (report.tidied, report.rearmed) == (1, 0)
    assert [entry.id for entry in place.memory.entries()] == ["acme/yearly#1"]
    place.scheduler.resume_schedule("monthly")
    assert sorted(entry.id for entry in place.memory.entries()) == ["acme/monthly#2", "acme/yearly#1"]


def test_a_line_of_a_job_may_have_fields_that_logging_keeps_for_itself(caplog: pytest.LogCaptureFixture) -> None:
    logger = RunLogger(logging.getLogger("job"), {"run_id": "acme/~1#once"})
    fields = {"name": "Ada", "module": "m", "to": "all"}
    with caplog.at_level(logging.INFO):
        logger.info("greeted", extra=fields)
    (line,) = caplog.records
    assert {key: vars(line)[key] for key in ("run_id", "name_", "module_", "to")} == {
        "run_id": "acme/~1#once",
        "name_": "Ada",
        "module_": "m",
        "to": "all",
    }


def test_updates_that_keep_the_rule_keep_the_phase_of_a_rate() -> None:
    place = Place()
    first = place.scheduler.create_schedule("daily", "work", "rate(1 day)").created_at
    for number in range(3):
        place.clock.advance(timedelta(hours=12))
        place.scheduler.update_schedule("daily", payload={"number": number})
        tick(place.services, clock=place.clock, holder="ticker")
    due = first + timedelta(days=1)
    assert [run.due for run in place.scheduler.list_runs("daily").items] == [due]
    assert place.scheduler.get_schedule("daily").next_fires[0] == due + timedelta(days=1)
    place.scheduler.update_schedule("daily", expression="rate(2 days)")
    assert place.scheduler.get_schedule("daily").next_fires[0] == first + timedelta(days=3, hours=12)


@pytest.mark.parametrize(
    "garbage",
    [
        "[" * 50_000,
        '{"v":1,"run":"acme/~b#once","job":"work","due":Infinity,"start":"prompt"}',
        '{"v":1,"run":"acme/~b#once","job":"work","due":1,"start":"prompt","rev":' + "9" * 40 + "}",
        '{"v":1,"run":"","job":"work","due":1,"start":"prompt"}',
    ],
    ids=["too deep", "infinite", "too large", "nobody's"],
)
def test_garbage_in_the_queue_stops_nothing_beside_it(garbage: str) -> None:
    place = Place()
    runs = [place.scheduler.submit("work").id for _ in range(9)]
    deliveries = [
        *place.services.work.receive(most=10, wait=0, visibility=HIDDEN),
        RawMessage(body=garbage, receipt="nobody's", receives=1),
    ]
    worker = place.worker("first").worker
    outcomes = work_off(worker, receive(worker, deliveries))
    assert [outcome.action for outcome in outcomes] == ["settled"] * 9 + ["unreadable"]
    assert {place.scheduler.get_run(run).state for run in runs} == {RunState.SUCCEEDED}
    (letter,) = place.services.dead.receive(most=10, wait=0)
    assert bury_one(letter, place.services, place.clock).action == "unreadable"


def test_the_auditor_reports_runs_at_instants_that_are_no_fires_any_more() -> None:
    place = Place()
    place.scheduler.create_schedule("half-hourly", "work", "*/30 * * * *")
    place.clock.advance(timedelta(minutes=70))
    tick(place.services, clock=place.clock, holder="ticker")
    (entry,) = place.memory.entries()
    (revision,) = place.services.schedules.revisions([("acme/half-hourly", 1)]).found.values()
    odd = FireClaim(revision, entry.due - 17 * 60_000 - 3_600_000).run(place.clock(), AppVersions())
    place.services.ledger.claim([odd])
    place.worker("first").work()
    report = audit(place.services, clock=place.clock)
    assert (report.moved, report.unclaimed, report.failed) == (1, 0, 0)
