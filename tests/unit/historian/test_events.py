"""Events: which changes are reported, with which id, and that a receiver which fails stops nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest
from quarterjack import errors
from quarterjack.domain.history.outgoing_event import EVENT_TYPES, OutgoingEvent, parse_target, states_of
from quarterjack.domain.run import Failure, RunRow, RunState
from quarterjack.domain.times import from_ms
from quarterjack.historian.archive import archive
from quarterjack.historian.deliver import StreamReader
from quarterjack.historian.events import MOST, SILENT, TAKING, events_of, publish_events
from quarterjack.historian.follow import StreamFollower
from quarterjack.historian.progress import changes_set_aside
from quarterjack.ports.receivers import FailedEvents
from quarterjack.ports.services import Services
from quarterjack.testing import ManualClock
from quarterjack.testing.memory.installation import Memory

from tests.support.builders import NOON, a_one_off, a_run
from tests.support.lease_steps import lease_of
from tests.support.transitions import context_of, heartbeat, life

ALL = EVENT_TYPES


@dataclass
class Sink:
    """Keeps what it was sent, unless it is told to fail, or fails on single events."""

    types: frozenset[str] = ALL
    sent: list[OutgoingEvent] = field(default_factory=list)
    failing: Exception | None = None
    refused: frozenset[str] = frozenset()  # ids of runs
    poisoned: Mapping[str, errors.EventFailed] = field(default_factory=dict)  # by tenant
    tried: int = 0  # events of poisoned tenants

    def publish(self, events: Sequence[OutgoingEvent]) -> FailedEvents:
        if self.failing is not None:
            raise self.failing
        failed: dict[str, errors.EventFailed | errors.EventRefused] = {}
        for event in events:
            if event.about in self.refused:
                failed[event.id] = errors.EventRefused("answered 400")
            elif (problem := self.poisoned.get(event.tenant)) is not None:
                self.tried += 1
                failed[event.id] = problem
            else:
                self.sent.append(event)
        return failed


@pytest.mark.parametrize("state", RunState)
def test_ends_are_reported_and_nothing_else(state: RunState) -> None:
    found = [event.type for event in events_of(life(state=state))]
    wanted = {"SUCCEEDED", "DEAD", "LOST", "EXPIRED", "CANCELLED"}
    assert found == ([f"run.{state.lower()}"] if state in wanted else [])


@pytest.mark.parametrize("state", ["SUCCEEDED", "DEAD", "EXPIRED", "CANCELLED"])
def test_the_end_of_a_pipelines_run_is_an_event_of_the_pipeline_as_well(state: str) -> None:
    changes = life(replace(a_run(), job="pipeline:nightly"), state=RunState(state))
    events, again = [*events_of(changes)], [*events_of(changes)]
    of_pipeline = [f"pipeline.{state.lower()}"] if state in ("SUCCEEDED", "DEAD") else []
    assert [event.type for event in events] == [f"run.{state.lower()}", *of_pipeline]
    assert [event.id for event in events] == [event.id for event in again]
    assert len({event.id for event in events}) == len(events)
    assert [event.data.get("pipeline") for event in events] == [None, "nightly"][: len(events)]


def test_a_heartbeat_and_a_burial_are_no_events() -> None:
    claimed, leased, ended = life(state=RunState.DEAD)
    assert ended.new is not None
    buried = replace(ended, old=ended.new, new=replace(ended.new, buried_at=NOON), sequence=9)
    gone = replace(ended, old=ended.new, new=None, expired=True, sequence=10)
    changes = [claimed, leased, heartbeat(leased, sequence=5), ended, buried, gone]
    assert [int(event.data["sequence"]) for event in events_of(changes)] == [ended.sequence]


def test_an_event_says_what_happened_and_has_the_same_id_each_time() -> None:
    end: dict[str, Any] = {"state": RunState.DEAD, "reason": "failed", "failure": Failure(kind="E", message="s3cret")}
    changes = life(a_run(backfill="b", payload='"s3cret"'), sequence=7, **end)
    (event,), (again,) = list(events_of(changes)), list(events_of(changes[2:]))
    assert event.encode() == again.encode()
    document = json.loads(event.encode())
    assert document["id"] == event.id == again.id
    assert document["type"] == "run.dead"
    assert document["timestamp"] == f"{from_ms(NOON + 5_000):%Y-%m-%dT%H:%M:%S.000Z}"
    data = document["data"]
    assert data["run"] == str(a_run().ref)
    assert (data["tenant"], data["schedule"], data["state"], data["reason"]) == ("acme", "report", "DEAD", "failed")
    assert (data["error_type"], data["attempt"], data["fence"], data["backfill"]) == ("E", 1, 1, "b")
    assert data["sequence"] == f"{9:040d}"
    assert "s3cret" not in event.encode()


def test_two_ends_of_a_run_are_two_events() -> None:
    """A run that a resume brings back ends again."""
    ids = {event.id for first in (1, 10) for event in events_of(life(sequence=first))}
    assert len(ids) == 2
    assert all(len(each) == len("evt_") + 32 and "." not in each for each in ids)


def test_a_one_off_has_no_schedule() -> None:
    (event,) = events_of(life(a_one_off()))
    assert "schedule" not in json.loads(event.encode())["data"]


def test_only_the_types_that_are_wanted_are_sent() -> None:
    memory, sink = Memory(ManualClock(from_ms(NOON))), Sink(types=frozenset({"run.dead"}))
    services = replace(memory.connect(), events=sink)
    publish_events([*life(), *life(a_run(NOON + 1), sequence=10, state=RunState.DEAD)], context_of(services))
    assert [event.type for event in sink.sent] == ["run.dead"]
    publish_events(life(state=RunState.DEAD), context_of(memory.connect()))
    assert len(sink.sent) == 1, "without a target nothing is sent"


# Beside the history.


def run_to_end(services: Services, run: RunRow) -> None:
    from quarterjack.state.lease import succeed

    services.ledger.claim([run])
    leased = lease_of(services, run)
    services.ledger.move(run.ref, succeed(fence=leased.fence, now=NOON, expires=NOON * 2, result="1"))


def test_a_receiver_that_does_not_answer_holds_up_no_history_and_gets_everything_later() -> None:
    clock = ManualClock(from_ms(NOON))
    memory, sink = Memory(clock), Sink(failing=errors.Unavailable("webhook: no answer"))
    services = replace(memory.connect(), events=sink)
    history, events = StreamFollower(services, clock), StreamFollower(services, clock, StreamReader.EVENTS)
    for number in range(3):
        run_to_end(services, a_run(NOON + number))
        with pytest.raises(errors.Unavailable):
            events.poll()
        assert history.poll().changes == 3
    assert len(memory.archived) == 3
    sink.failing = None
    assert events.poll().changes == 9
    assert [event.type for event in sink.sent] == ["run.succeeded"] * 3
    assert events.poll().changes == 0
    assert StreamFollower(services, clock, StreamReader.EVENTS).poll().changes == 0, "its position is remembered"
    assert StreamFollower(services, clock).poll().changes == 0


def test_an_event_that_the_receiver_refuses_is_set_aside_and_the_others_are_sent() -> None:
    clock = ManualClock(from_ms(NOON))
    runs = [a_run(NOON + number) for number in range(5)]
    memory, sink = Memory(clock), Sink(refused=frozenset({str(runs[2].ref)}))
    services = replace(memory.connect(), events=sink)
    for run in runs:
        run_to_end(services, run)
    report = StreamFollower(services, clock, StreamReader.EVENTS).poll()
    assert report.set_aside == 1
    assert {event.about for event in sink.sent} == {str(run.ref) for run in runs} - {str(runs[2].ref)}
    (aside,) = changes_set_aside(services)
    assert (aside["run"], aside["consumer"]) == (str(runs[2].ref), "events")


# Events that the receiver fails on, and outages.

BROKEN = errors.EventFailed("webhook: answered 500")
DOWN = errors.EventFailed("webhook: answered 503", is_outage=True)


@dataclass
class Stage:
    """Ends of runs of two tenants, the events of one of which fail."""

    problem: errors.EventFailed = BROKEN
    clock: ManualClock = field(default_factory=lambda: ManualClock(from_ms(NOON)))
    runs: int = 0

    def __post_init__(self) -> None:
        self.sink = Sink(poisoned={"evil": self.problem})
        self.services = replace(Memory(self.clock).connect(), events=self.sink, wait=lambda seconds: None)

    def end(self, tenant: str, count: int = 1) -> None:
        for _ in range(count):
            self.runs += 1
            run_to_end(self.services, a_run(NOON + self.runs, owner=f"{tenant}/report"))

    def poll(self) -> int | None:
        """How many were set aside; None if the batch waits."""
        try:
            return StreamFollower(self.services, self.clock, StreamReader.EVENTS).poll().set_aside
        except errors.Unavailable:
            return None

    @property
    def aside(self) -> list[str]:
        return [str(each["run"]).partition("/")[0] for each in changes_set_aside(self.services)]

    @property
    def tenants(self) -> list[str]:
        """Of the events sent, each event once."""
        return sorted({event.id: event.tenant for event in self.sink.sent}.values())


@pytest.mark.parametrize("problem", [BROKEN, DOWN])
def test_one_poisoned_event_delays_those_behind_it_for_a_quarter_of_an_hour_at_most(
    problem: errors.EventFailed, caplog: pytest.LogCaptureFixture
) -> None:
    stage = Stage(problem)
    for tenant in ("acme", "evil", "acme", "beta"):
        stage.end(tenant)
    assert stage.poll() is None
    assert stage.tenants == ["acme", "acme", "beta"], "the others of its batch are sent at once"
    assert stage.sink.tried == 3, "it is tried again alone"
    stage.clock.advance(timedelta(milliseconds=TAKING - 1))
    stage.end("acme")
    assert stage.poll() is None
    stage.clock.advance(timedelta(milliseconds=1))
    assert stage.poll() == 1
    assert stage.aside == ["evil"]
    (said,) = [record for record in caplog.records if record.message == "historian.set_aside"]
    assert said.run_id.startswith("evil/report#")  # type: ignore[attr-defined]
    assert stage.tenants == ["acme", "acme", "acme", "beta"]
    stage.end("acme")
    assert stage.poll() == 0
    assert stage.tenants.count("acme") == 4


def test_an_event_that_fails_for_some_minutes_only_is_sent() -> None:
    stage = Stage()
    for tenant in ("evil", "acme"):
        stage.end(tenant)
    assert stage.poll() is None
    stage.sink.poisoned = {}
    stage.clock.advance(timedelta(milliseconds=TAKING - 1))
    assert stage.poll() == 0
    assert stage.tenants == ["acme", "evil"]


def test_an_event_that_is_alone_is_tried_for_an_hour() -> None:
    stage = Stage()
    stage.end("evil", 2)
    assert stage.poll() is None
    stage.clock.advance(timedelta(milliseconds=SILENT - 1))
    assert stage.poll() is None
    stage.clock.advance(timedelta(milliseconds=1))
    assert stage.poll() == 2


@pytest.mark.parametrize(("problem", "count"), [(DOWN, 1), (DOWN, 40), (BROKEN, MOST + 1), (BROKEN, 40)])
def test_an_outage_of_the_receiver_is_waited_for_and_loses_nothing(problem: errors.EventFailed, count: int) -> None:
    stage = Stage(problem)
    stage.end("evil", count)
    for _ in range(3):
        assert stage.poll() is None
        stage.clock.advance(timedelta(milliseconds=5 * SILENT))
    stage.sink.poisoned = {}
    assert stage.poll() == 0
    assert stage.tenants == ["evil"] * count


def test_many_poisoned_events_stop_nothing_while_the_receiver_takes_others() -> None:
    stage = Stage()
    stage.end("evil", 3 * MOST)
    stage.end("acme")
    assert stage.poll() is None
    stage.clock.advance(timedelta(milliseconds=TAKING))
    assert stage.poll() == 3 * MOST
    assert stage.tenants == ["acme"]


def test_the_archive_of_a_batch_is_the_same_with_and_without_events() -> None:
    memory = Memory(ManualClock(from_ms(NOON)))
    archive(life(), context_of(replace(memory.connect(), events=Sink())))
    assert len(memory.archived) == 1


# The target.


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (("eventbridge:acme",), "eventbridge"),
        (("eventbridge:arn:aws:events:eu-west-1:123456789012:event-bus/acme",), "eventbridge"),
        (("sns:arn:aws:sns:eu-west-1:123456789012:runs.fifo",), "sns"),
        (("webhook:https://example.com/hook", None, "secret:acme/hook"), "webhook"),
    ],
)
def test_targets(given: tuple[Any, ...], kind: str) -> None:
    target = parse_target(*given)
    assert (target.kind, target.types) == (kind, ALL)


def test_types_may_be_chosen() -> None:
    target = parse_target("eventbridge:acme", "run.dead, run.lost")
    assert target.types == {"run.dead", "run.lost"}
    assert states_of(target.types) == [RunState.DEAD, RunState.LOST]
    assert states_of(frozenset({"pipeline.dead"})) == [RunState.DEAD]


@pytest.mark.parametrize(
    ("given", "field"),
    [
        (("kafka:topic",), "events"),
        (("",), "events"),
        ((7,), "events"),
        (("eventbridge:",), "events"),
        (("eventbridge:a b",), "events"),
        (("sns:runs",), "events"),
        (("webhook:example.com", None, "secret:x"), "events"),
        (("webhook:https://example.com",), "event_secret"),
        (("webhook:https://example.com", None, "whsec_abc"), "event_secret"),
        (("webhook:https://example.com", None, "file:x"), "event_secret"),
        (("eventbridge:acme", None, "secret:x"), "event_secret"),
        (("eventbridge:acme", ""), "event_types"),
        (("eventbridge:acme", "run.dead,run.exploded"), "event_types"),
    ],
)
def test_what_is_no_target_is_refused(given: tuple[Any, ...], field: str) -> None:
    with pytest.raises(errors.InvalidInput) as refused:
        parse_target(*given)
    assert refused.value.field == field
    assert refused.value.remedy
