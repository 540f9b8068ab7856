"""An incident's beginning and end leave the installation as events, where it publishes any, whether or not its owner is told."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from quarterjack import Context, Registry, Retry
from quarterjack.domain.notice import RECORD, schedule_events
from quarterjack.historian.deliver import StreamReader
from quarterjack.historian.follow import StreamFollower
from quarterjack.historian.progress import OWNER
from quarterjack.testing import Crash, Harness
from quarterjack.testing.memory.peripherals import MemoryEvents

from tests.support.scenes.incidents import Scene
from tests.support.scenes.world import Faults, crash

FAILING, RECOVERED = "schedule.failing", "schedule.recovered"
BOTH = frozenset({FAILING, RECOVERED})
ALL = BOTH | {"schedule.overdue", "schedule.overdue_ended"}
UNTOLD: dict[str, Any] = {"on_failure": None, "on_recovery": None}


class Published:
    """A scene whose events are published."""

    def __init__(self, types: frozenset[str] = BOTH) -> None:
        self.scene, self.sink = Scene(), MemoryEvents()
        self.scene.memory.schedule_events = types
        self.scene.services = self.scene.process()

    def events(self) -> list[tuple[str, dict[str, object]]]:
        """The events about schedules: type and data."""
        services = replace(self.scene.services, events=self.sink)
        StreamFollower(services, self.scene.clock, StreamReader.EVENTS).poll()
        return [(event.type, dict(event.data)) for event in self.sink.taken if event.type in BOTH]

    def records(self) -> int:
        return len(list(self.scene.services.records.listed("acme/s", RECORD)))


@pytest.mark.parametrize("told", [{}, UNTOLD], ids=["told", "untold"])
def test_an_incident_is_two_events_whether_or_not_somebody_is_told(told: dict[str, Any]) -> None:
    published = Published()
    scene = published.scene
    scene.schedule(**told)
    scene.live(3 * 60 + 30)
    ((kind, failing),) = published.events()
    assert kind == FAILING
    assert (failing["schedule"], failing["tenant"], failing["job"]) == ("s", "acme", "flaky")
    assert (failing["kind"], failing["run"]) == ("failure", str(scene.run(60).ref))
    assert (failing["error_type"], failing["count"]) == ("Boom", 1)
    scene.broken = False
    scene.live(3 * 60)
    _, (kind, recovered) = published.events()
    assert (kind, recovered["run"], recovered["incident"]) == (RECOVERED, str(scene.run(240).ref), failing["incident"])
    assert scene.kinds == ([] if told else ["failure", "recovery"])


def test_silence_is_an_event_and_a_pause_within_an_incident_is_none() -> None:
    published = Published()
    scene = published.scene
    scene.schedule("0 12 * * *", expect_success_within=3600, **UNTOLD)
    scene.live(3600 + 120)
    ((kind, failing),) = published.events()
    assert (kind, failing["kind"], failing["run"]) == (FAILING, "no_success", None)
    published = Published()
    published.scene.schedule(pause_on_failure=2, **UNTOLD)
    published.scene.live(5 * 60)
    assert [kind for kind, _ in published.events()] == [FAILING]


def test_without_events_an_incident_that_nobody_is_told_of_writes_no_record() -> None:
    for types, records in ((frozenset[str](), 0), (frozenset({RECOVERED}), 1), (BOTH, 2)):
        published = Published(types)
        published.scene.schedule(**UNTOLD)
        published.scene.live(2 * 60)
        published.scene.broken = False
        published.scene.live(3 * 60)
        assert published.scene.head.incident is None
        assert published.records() == records, types


def test_an_event_has_one_id_however_often_it_is_sent_and_says_no_error_message() -> None:
    published = Published()
    published.scene.schedule()
    published.scene.live(2 * 60)
    published.events()
    position = published.scene.services.records.listed(OWNER, "~position")
    for record in list(position):
        published.scene.services.records.remove(record)
    published.events()
    first, again = [event for event in published.sink.taken if event.type == FAILING]
    assert first.encode() == again.encode()
    assert not {"error", "text"} & set(first.data)


def test_an_undertaker_that_dies_at_its_transaction_leaves_one_event() -> None:
    for before in (True, False):
        published = Published()
        scene = published.scene
        scene.schedule(**UNTOLD)
        scene.tick()
        scene.wait(60)
        scene.work()
        dying = Faults().at("note", **{"before" if before else "after": crash})
        scene.services = scene.process(dying)
        with pytest.raises(Crash):
            scene.bury()
        scene.services = scene.process()
        assert len(published.events()) == (0 if before else 1)
        scene.live(3 * 60)
        events = published.events()
        assert [kind for kind, _ in events] == [FAILING]


def test_the_harness_publishes_events_if_it_is_told_to() -> None:
    for wanted in (True, False):
        jobs, state = Registry(), {"broken": True}

        @jobs.job("flaky", retry=Retry(max_attempts=1))
        def flaky(ctx: Context, payload: object, state: dict[str, bool] = state) -> None:
            if state["broken"]:
                raise ValueError("s3cret")

        harness = Harness(jobs, at=datetime(2026, 5, 4, 8, 30, tzinfo=UTC), events=wanted)
        harness.scheduler.create_schedule("s", "flaky", "0 * * * *")
        harness.advance(hours=1)
        state["broken"] = False
        harness.advance(hours=1)
        types = [event["type"] for event in harness.events]
        assert sorted(types) == (sorted(["run.dead", FAILING, "run.succeeded", RECOVERED]) if wanted else [])
        assert len({event["id"] for event in harness.events}) == len(types)
        assert "s3cret" not in str(harness.events)


@pytest.mark.parametrize(
    ("settings", "types"),
    [
        ((None, None), frozenset()),
        ((None, FAILING), frozenset()),
        (("eventbridge:acme", None), ALL),
        (("eventbridge:acme", "run.dead, schedule.failing"), {FAILING}),
        (("eventbridge:acme", "run.dead"), frozenset()),
    ],
)
def test_settings_say_which_incidents_are_published(
    settings: tuple[str | None, str | None], types: frozenset[str]
) -> None:
    assert schedule_events(*settings) == types
