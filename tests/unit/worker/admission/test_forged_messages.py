"""Whoever may send to the queue can make a worker look at a run, and nothing more: what runs, and whether, row and revision say."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from quarterjack import Context, Retry, RunState
from quarterjack.domain.message import UNREADABLE, DeadLetter, Message
from quarterjack.domain.names import RunRef, aside_ref, fire_ref, one_off_ref, parse_run_id
from quarterjack.domain.run import EntryKind
from quarterjack.domain.times import MINUTE, SECOND
from quarterjack.ports.queues import OutgoingMessage
from quarterjack.stores.tables import REVISIONS, RUNS
from quarterjack.testing.process import bury_all
from quarterjack.undertaker.bury import RETURNS, bury_one

from tests.support.builders import a_one_off
from tests.support.scenes.world import NOON, OWNER, Faults, World

BEFORE = {"job": "once", "payload": {"mine": 1}, "payload_ref": "payloads/other/abc", "due": 1, "tz": "Asia/Tokyo"}
BEFORE |= {
    "policies": {"retry": {"max_attempts": 99}, "deadline": 0, "start": "exact"},
    "queue": "other",
    "missed": True,
}
WORD = {"secret": "x" * 500}


def forge(world: World, message: Message, **fields: Any) -> None:
    """Put a message of somebody's own making into the queue."""
    world.memory.work.put(json.dumps(json.loads(message.encode()) | fields))


def only_forged(world: World, **fields: Any) -> None:
    """Take the one message in the queue and put a changed one in its place."""
    (message,) = world.memory.messages()
    for received in world.services.work.receive(most=10, wait=0, visibility=60):
        world.services.work.delete(received.receipt)
    forge(world, message, **fields)


def scheduled(**options: Any) -> World:
    """A schedule whose fire of 12:01 is claimed and due."""
    world = World()
    world.scheduler.create_schedule("s", "note", "1 * * * *", payload={"n": 1}, **options)
    world.wait(60)
    return world


# What a run executes.


def test_fields_that_older_messages_had_are_nothing_to_a_fire() -> None:
    world, seen = scheduled(timezone="Europe/Berlin"), list[Context]()
    world.during = seen.append
    for message in world.memory.messages():
        forge(world, message, **BEFORE)
    world.work()
    assert [(ctx.job, ctx.missed, str(ctx.scheduled_at)) for ctx in seen] == [
        ("note", False, "2026-05-04 14:01:00+02:00")
    ]
    assert [start.payload for start in world.started] == [{"n": 1}]
    (run,) = [run for run in world.memory.runs(OWNER) if run.state is RunState.SUCCEEDED]
    assert (run.job, run.max_attempts) == ("note", 3)


def test_nor_to_a_one_off() -> None:
    world = World()
    run = world.scheduler.submit("note", WORD)
    only_forged(world, **BEFORE)
    world.work()
    assert [(start.run_id, start.payload) for start in world.started] == [(run.id, WORD)]
    assert (world.memory.runs()[0].job, world.memory.runs()[0].max_attempts) == ("note", 3)


def test_nor_to_a_trigger_or_a_backfill_with_a_payload_of_its_own() -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "0 * * * *", payload={"n": 1})
    world.scheduler.trigger("s", payload=WORD)
    only_forged(world, **BEFORE)
    world.work()
    begin = world.now() - timedelta(hours=2)
    world.scheduler.backfill("s", begin, begin + timedelta(hours=1), dry_run=False, current=True)
    only_forged(world, **BEFORE)
    world.work()
    assert [start.payload for start in world.started] == [WORD, {"n": 1}]


@pytest.mark.parametrize("ref", ["payloads/other/abc", "payloads/acme/../other/abc", "payloads/acmeother/abc", "abc"])
def test_a_payload_outside_the_tenants_folder_is_never_read(ref: str) -> None:
    """Not even where the row names it."""
    world, faults = World(), Faults()
    run = replace(a_one_off(), job="note", payload=None, payload_ref=ref, due=NOON, not_before=NOON, created_at=NOON)
    world.services.ledger.submit(run)
    world.services.work.send([OutgoingMessage(Message(run=run.ref, revision=0, not_before=NOON), 0)])
    world.work(world.worker(faults))
    world.live(60)
    there = world.services.ledger.read(run.ref)
    assert there is not None
    assert (there.state, there.reason, world.started) == (RunState.DEAD, "payload missing", [])
    assert faults.count("GetObject") == 0
    assert [dead.id for dead in world.scheduler.list_dead().items] == [str(run.ref)]


def test_a_run_whose_payload_is_gone_is_dead() -> None:
    world = World()
    run = world.scheduler.submit("note", WORD)
    world.memory._tables[RUNS].delete(parse_run_id(run.id).owner, "#once#payload")
    world.live(60)
    assert (world.scheduler.get_run(run.id).state, world.started) == (RunState.DEAD, [])


# Which run it is.

NOBODYS = [
    Message(run=one_off_ref("acme", "nobody"), revision=0, not_before=NOON),
    Message(run=one_off_ref("nobody", "nothing"), revision=0, not_before=NOON),
    Message(run=fire_ref("nobody/s", NOON), revision=1, not_before=NOON),
    Message(run=fire_ref(OWNER, NOON + 30 * SECOND), revision=1, not_before=NOON),  # of no chain
    Message(run=aside_ref(OWNER, NOON, "trigger-mine"), revision=1, not_before=NOON),
    Message(run=fire_ref(OWNER, NOON), revision=1, not_before=NOON, backfill="mine"),
    Message(run=RunRef(OWNER, "mine"), revision=1, not_before=NOON),
    Message(run=fire_ref(OWNER, NOON + MINUTE), revision=7, not_before=NOON),
    Message(run=fire_ref(OWNER, NOON + MINUTE), revision=0, not_before=NOON),
    Message(run=fire_ref(OWNER, 10**14), revision=1, not_before=10**14),  # of the year 5138
]


@pytest.mark.parametrize("message", NOBODYS, ids=lambda message: f"{message.run}-{message.revision}")
def test_a_message_without_row_or_revision_is_rejected_and_seen(
    message: Message, caplog: pytest.LogCaptureFixture
) -> None:
    world = scheduled()
    entries = len(world.memory.entries())
    forge(world, message)
    outcomes = world.work()
    assert sorted(outcome.action for outcome in outcomes) == ["rejected", "settled"]
    assert "message.rejected" in caplog.text
    assert [start.run_id for start in world.started] == [str(fire_ref(OWNER, NOON + MINUTE))]
    (letter,) = world.services.dead.receive(most=10, wait=0)
    assert bury_one(letter, world.services, world.clock).action == "rejected"
    (shown,) = [record for record in caplog.records if record.msg == "letter.rejected"]
    assert str(message.run) in shown.__dict__["body"]
    assert (len(world.memory.work), len(world.memory.entries())) == (0, entries)
    assert world.scheduler.list_dead().items == []


def test_an_older_message_is_refused_visibly(caplog: pytest.LogCaptureFixture) -> None:
    """The text of schema 1 says job and payload: none of it is believed, and its run is what its row says."""
    world = World()
    run = world.scheduler.submit("note", {"mine": 0})
    only_forged(world, v=1, job="once", due=NOON, start="prompt", payload={"forged": 1})
    assert [outcome.action for outcome in world.work()] == ["unreadable"]
    assert (world.scheduler.get_run(run.id).state, world.started) == (RunState.QUEUED, [])
    world.live(60)
    assert world.scheduler.get_run(run.id).state is RunState.SUCCEEDED
    assert [(start.run_id, start.payload) for start in world.started] == [(run.id, {"mine": 0})]
    (shown,) = [record for record in caplog.records if record.msg == "letter.unreadable"]
    assert shown.__dict__["run_id"] == run.id
    assert "reads only 2" in shown.__dict__["error"]
    assert "forged" in shown.__dict__["body"]


# A text that cannot be decoded, and names a run: it neither starts nor ends that run.

UNREAD: tuple[dict[str, Any], ...] = (
    {"v": 1},
    {"v": "x"},
    {"fence": "0"},
    {"not_before": None},
    {"returned": []},
    {"v": 1, "returned": 9},
)


@pytest.mark.parametrize("fields", UNREAD, ids=str)
def test_an_unreadable_message_beside_its_runs_own_kills_nothing(fields: dict[str, Any]) -> None:
    world = scheduled()
    (genuine,) = world.memory.messages()
    for _ in range(5):
        forge(world, genuine, **fields)
    world.live(120)
    assert [start.payload for start in world.started] == [{"n": 1}], "once"
    assert [run.state for run in world.memory.runs(OWNER)] == [RunState.SUCCEEDED]
    assert (len(world.memory.work), len(world.memory.dead), world.scheduler.list_dead().items) == (0, 0, [])


@pytest.mark.parametrize("fields", UNREAD, ids=str)
@pytest.mark.parametrize("seconds", [0, 300, 86_400])
def test_a_runs_own_message_that_was_damaged_is_replaced_once(fields: dict[str, Any], seconds: int) -> None:
    world = World()
    run = world.scheduler.submit("note", {"n": 1}, delay=seconds)
    world.scheduler.submit("note", WORD)  # a template for what names the first
    forge(world, replace(world.memory.messages()[-1], run=parse_run_id(run.id)), **fields)
    before = len(world.memory.work)
    world.live(1)
    assert len(world.memory.work) <= before
    world.live(seconds + 60)
    assert world.scheduler.get_run(run.id).state is RunState.SUCCEEDED
    assert [start.at for start in world.started if start.run_id == run.id] == [NOON + seconds * SECOND]


def test_a_run_whose_row_gives_no_readable_message_is_dead_with_the_reason() -> None:
    world = World()
    run = world.scheduler.submit("note")
    ref = parse_run_id(run.id)
    only_forged(world, v=1)
    world.work()
    row = world.memory.row(ref)
    assert row is not None
    world.memory.put_row(ref, {**row, "overrides": '{"start":"whenever"}'})
    (letter,) = world.services.dead.receive(most=10, wait=0)
    assert bury_one(letter, world.services, world.clock).action == "recorded"
    dead = world.scheduler.get_run(run.id)
    assert (dead.state, world.started) == (RunState.DEAD, [])
    assert "reads only 2" in str(dead.reason)
    assert "whenever" in str(dead.reason)
    assert [line.id for line in world.scheduler.list_dead().items] == [run.id]
    assert bury_one(letter, world.services, world.clock).action == "dropped", "it comes twice"


def test_a_letter_stays_until_the_runs_own_message_was_accepted() -> None:
    world = World()
    run = world.scheduler.submit("note")
    only_forged(world, v=1)
    world.work()
    bury_all(world.process(Faults().at("send", throttle={0}, times=None)), world.clock)
    assert (len(world.memory.dead), len(world.memory.work)) == (1, 0)
    world.live(600)
    assert world.scheduler.get_run(run.id).state is RunState.SUCCEEDED


def test_a_message_that_only_its_worker_cannot_read_goes_back_a_few_times() -> None:
    """As when the releases of worker and undertaker differ. In the end a person has to see it."""
    world = World()
    run = world.scheduler.submit("note")
    for returned in range(RETURNS + 1):
        (message,) = world.memory.messages()
        assert message.returned == returned
        world.wait(60)
        (received,) = world.services.work.receive(most=10, wait=0, visibility=60)
        world.services.work.delete(received.receipt)
        world.services.dead.send(DeadLetter(body=received.body, reason="unreadable: by this release", state=UNREADABLE))
        bury_all(world.services, world.clock)
    dead = world.scheduler.get_run(run.id)
    assert (dead.state, dead.reason) == (RunState.DEAD, "unreadable: by this release and returned 3 times")


def test_a_payload_that_cannot_be_read_is_a_failure_of_its_run() -> None:
    """It is in the row, and not in the message: accepted, tried, and dead with the reason."""
    world = World()
    run = world.scheduler.submit("note", {"n": 1}, retry=Retry(max_attempts=1))
    ref = parse_run_id(run.id)
    row = world.memory.row(ref)
    assert row is not None
    world.memory.put_row(ref, {**row, "payload": '{"n":'})
    world.live(60)
    (dead,) = world.scheduler.list_dead().items
    assert (dead.id, dead.error_type, world.started) == (run.id, "JSONDecodeError", [])


def test_an_accepted_run_without_its_revision_is_dead_and_does_not_go_round() -> None:
    world = scheduled()
    world.memory._tables[REVISIONS].delete(OWNER, 1)
    outcomes = world.work()
    assert [(outcome.why, outcome.state) for outcome in outcomes] == [("revision missing", RunState.DEAD)]
    world.live(1)
    assert world.services.ledger.read(fire_ref(OWNER, NOON + MINUTE)).state is RunState.DEAD  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("odd", "event"), [({"v": 2}, "revision.too_new"), ({"rule": "["}, "revision.unreadable")], ids=["newer", "garbage"]
)
def test_a_revision_that_cannot_be_read_is_there_and_its_run_waits(
    odd: dict[str, Any], event: str, caplog: pytest.LogCaptureFixture
) -> None:
    world = scheduled()
    row = world.memory._tables[REVISIONS].get(OWNER, 1)
    assert row is not None
    world.memory._tables[REVISIONS].put(OWNER, 1, row | odd)
    assert [outcome.why for outcome in world.work()] == ["revision_unread"]
    told = [
        record
        for record in caplog.records
        if record.name.startswith("quarterjack") and record.levelno >= logging.WARNING
    ]
    assert [(record.message, record.levelname) for record in told] == [
        (event, "WARNING" if event == "revision.too_new" else "ERROR")
    ]


def test_a_message_of_another_revision_is_refused_and_the_runs_own_is_not() -> None:
    world = scheduled()
    world.scheduler.update_schedule("s", payload={"n": 2})
    (message,) = world.memory.messages()
    assert message.revision == 1
    only_forged(world, rev=2)
    assert [outcome.why for outcome in world.work()] == ["other_revision"]
    forge(world, message)
    world.work()
    assert [start.payload for start in world.started] == [{"n": 1}]


def test_a_rejected_message_says_nothing_of_the_run_that_it_names() -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "1 * * * *", payload={"n": 1})
    world.tick()
    forge(world, Message(run=fire_ref(OWNER, NOON + MINUTE), revision=7, not_before=NOON))
    assert [outcome.action for outcome in world.work()] == ["rejected"]
    world.live(120)
    assert [start.payload for start in world.started] == [{"n": 1}]


@pytest.mark.parametrize("revision", [0, 1])
def test_the_message_of_a_run_that_has_ended_starts_nothing(revision: int) -> None:
    world = scheduled() if revision else World()
    if not revision:
        world.scheduler.submit("note")
    messages = world.memory.messages()
    world.work()
    before = len(world.started)
    forge(world, messages[0], fence=0, **BEFORE)
    assert [outcome.why for outcome in world.work()] == ["ended"]
    assert len(world.started) == before


# A backfill's run has policies and perhaps a payload that its schedule's current revision does not have.


@pytest.mark.parametrize("options", [{}, {"deadline": 60}, {"shadow": True}], ids=str)
@pytest.mark.parametrize("backfill", [None, "another"])
def test_a_backfills_run_is_not_started_or_ended_without_its_backfill(
    options: dict[str, Any], backfill: str | None
) -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "0 * * * *", **options)
    begin = world.now() - timedelta(hours=2)
    world.scheduler.backfill("s", begin, begin + timedelta(hours=1), dry_run=False, current=True)
    (genuine,) = world.memory.messages()
    only_forged(world, backfill=backfill)
    assert {outcome.why for outcome in world.work()} == {"other_claim"}
    assert [run.state for run in world.memory.runs(OWNER)] == [RunState.QUEUED]
    forge(world, genuine)
    world.work()
    assert [run.state for run in world.memory.runs(OWNER)] != [RunState.QUEUED]


def test_a_fire_is_no_backfills() -> None:
    world = scheduled()
    (genuine,) = world.memory.messages()
    only_forged(world, backfill="mine")
    assert [outcome.why for outcome in world.work()] == ["other_claim"]
    forge(world, genuine)
    world.work()
    assert len(world.started) == 1


# Hints cannot harm.


def test_a_run_is_not_given_up_before_it_has_waited_for_its_job() -> None:
    world = World()
    world.jobs.job("later")(world.note)
    run = world.scheduler.submit("later")
    known = world.jobs
    world.jobs = World().jobs
    only_forged(world, unknown_since=1)
    world.wait(1)
    assert [outcome.why for outcome in world.work()] == ["unknown_job"]
    assert world.scheduler.get_run(run.id).state is RunState.QUEUED
    world.jobs = known
    world.live(60)
    assert world.scheduler.get_run(run.id).state is RunState.SUCCEEDED


def test_a_message_for_a_time_far_off_leads_to_the_time_that_the_row_says() -> None:
    world = World()
    run = world.scheduler.submit("note")
    only_forged(world, not_before=10**14)
    world.live(2)
    assert [entry for entry in world.memory.entries() if entry.kind is EntryKind.RUN] == []
    assert world.scheduler.get_run(run.id).state is RunState.SUCCEEDED


def test_a_message_of_no_run_ends_no_other() -> None:
    world = scheduled(overlap="terminate_other")
    forged = Message(run=fire_ref(OWNER, NOON + 61 * SECOND), revision=1, not_before=NOON)

    def during(ctx: Context) -> None:
        world.during = lambda _: None
        forge(world, forged)
        world.work(world.worker(name="other"))

    world.during = during
    world.work()
    assert world.services.ledger.read(fire_ref(OWNER, NOON + MINUTE)).state is RunState.SUCCEEDED  # type: ignore[union-attr]


# What it costs.


def test_fires_cost_no_read_more() -> None:
    world, faults = scheduled(), Faults()
    world.work(world.worker(faults))
    assert [verb for verb in faults.verbs() if verb != "receive"] == ["revisions", "lease", "succeed", "erase"]


def test_payloads_beside_rows_are_one_read_a_batch() -> None:
    world, faults = World(), Faults()
    runs = [world.scheduler.submit("note", {"n": n, **WORD}) for n in range(5)]
    world.work(world.worker(faults), together=True)
    assert [faults.verbs().count(verb) for verb in ("look", "look_payloads", "revisions")] == [1, 1, 1]
    assert "read" not in faults.verbs()
    assert sorted(start.payload["n"] for start in world.started) == [0, 1, 2, 3, 4]  # type: ignore[index]
    assert {parse_run_id(run.id).tenant for run in runs} == {"acme"}


def test_rows_that_were_not_read_are_read_again() -> None:
    world = World()
    run = world.scheduler.submit("note", WORD)
    outcomes = world.work(world.worker(Faults().at("look", throttle=[0], times=None)))
    assert [(outcome.action, outcome.why) for outcome in outcomes] == [("kept", "run_unread")]
    world.live(30)
    assert world.scheduler.get_run(run.id).state is RunState.SUCCEEDED


def test_a_row_whose_policies_cannot_be_read_stops_no_other_of_its_batch() -> None:
    world = World()
    broken, good = world.scheduler.submit("note"), world.scheduler.submit("note")
    ref = parse_run_id(broken.id)
    row = world.memory.row(ref)
    assert row is not None
    world.memory.put_row(ref, {**row, "overrides": "garbage"})
    outcomes = world.work(together=True)
    assert sorted(outcome.why for outcome in outcomes) == ["", "run_unread"]
    assert [start.run_id for start in world.started] == [good.id]
