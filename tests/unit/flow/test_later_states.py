"""A run in a state of a later release: everybody leaves it alone and says so, and nothing else waits for it."""

from __future__ import annotations

import logging

import pytest
from quarterjack.domain.message import DeadLetter, Message
from quarterjack.domain.names import RunRef, parse_run_id
from quarterjack.domain.run import AgendaEntry, EntryKind
from quarterjack.errors import QuarterjackError
from quarterjack.historian.follow import StreamFollower
from quarterjack.testing.process import bury_all

from tests.support.scenes.parking import Parking
from tests.support.scenes.world import NOON, OWNER

LATER = "HIBERNATING"


def with_such_a_run(world: Parking, ref: RunRef | None = None) -> RunRef:
    """A run that a later release has put into a state of its own."""
    found = parse_run_id(world.scheduler.submit("note").id) if ref is None else ref
    row = world.memory.row(found)
    assert row is not None
    world.memory.put_row(found, row | {"state": LATER, "fence": 1, "attempt": 1})
    return found


def test_a_worker_leaves_it_and_does_what_comes_after(caplog: pytest.LogCaptureFixture) -> None:
    world = Parking()
    ref = with_such_a_run(world)
    other = world.scheduler.submit("note")
    world.work(together=True)
    world.live(300)
    assert world.state(other) == "SUCCEEDED"
    row = world.memory.row(ref)
    assert row is not None
    assert row["state"] == LATER
    assert str(ref) in {str(message.run) for message in world.memory.messages()}, "its message waits for a later worker"
    assert any(record.getMessage() in ("run.unreadable", "run.unread") for record in caplog.records)
    assert bury_all(world.services, world.clock) == 0


def test_a_fire_is_left_too() -> None:
    world = Parking()
    world.scheduler.create_schedule("s", "note", "rate(1 minute)")
    world.tick()
    with_such_a_run(world, world.run(60).ref)
    world.live(200)
    row = world.memory.row(RunRef(OWNER, f"{NOON + 60_000:015d}"))
    assert row is not None
    assert row["state"] == LATER
    assert [start.run_id for start in world.started] == [f"{OWNER}#{NOON + ms:015d}" for ms in (120_000, 180_000)]


def test_the_ticker_leaves_its_entry_and_handles_the_others(caplog: pytest.LogCaptureFixture) -> None:
    world = Parking()
    ref = with_such_a_run(world)
    entry = AgendaEntry(shard=0, due=world.clock(), kind=EntryKind.RUN, id=str(ref), created_at=world.clock())
    world.services.agenda.put([entry])
    nap = world.parked("nap")
    with caplog.at_level(logging.WARNING):
        world.live(3_700)
    assert world.state(nap) == "SUCCEEDED"
    row = world.memory.row(ref)
    assert row is not None
    assert row["state"] == LATER
    assert "run.unreadable" in caplog.text


def test_the_owner_is_told_and_lists_the_others() -> None:
    world = Parking()
    world.scheduler.create_schedule("s", "note", "rate(1 minute)")
    world.live(130)
    with_such_a_run(world, world.run(60).ref)
    run_id = str(RunRef(OWNER, f"{NOON + 60_000:015d}"))
    assert [run.due.minute for run in world.scheduler.list_runs("s", before=world.now()).items] == [2]
    for act in (
        world.scheduler.get_run,
        world.scheduler.cancel_run,
        world.scheduler.why_run,
        world.scheduler.replay_run,
    ):
        with pytest.raises(QuarterjackError):
            act(run_id)
    world.scheduler.pause_schedule("s")
    row = world.memory.row(parse_run_id(run_id))
    assert row is not None
    assert row["state"] == LATER


def test_the_undertaker_leaves_its_letter_and_buries_the_others() -> None:
    world = Parking()
    ref = with_such_a_run(world)
    order = Message(run=ref, revision=0, not_before=NOON)
    world.services.dead.send(DeadLetter(body=order.encode(), reason="by hand", fence=1, state="DEAD"))
    bad = world.scheduler.submit("bad")
    world.live(200)
    assert world.state(bad) == "DEAD"
    row = world.memory.row(ref)
    assert row is not None
    assert (row["state"], "buried_at" in row) == (LATER, False)


def test_the_history_passes_it_over(caplog: pytest.LogCaptureFixture) -> None:
    world = Parking()
    with_such_a_run(world)
    done = world.scheduler.submit("note")
    world.work()
    follower = StreamFollower(world.services, world.clock)
    with caplog.at_level(logging.WARNING):
        while follower.poll().has_more:
            pass
    found = world.scheduler.list_runs(job="note", since=world.at).items
    assert [run.id for run in found if run.ended_at] == [done.id]


def test_the_auditor_passes_it_over() -> None:
    world = Parking()
    world.scheduler.create_schedule("s", "note", "rate(1 minute)")
    world.live(130)
    with_such_a_run(world, world.run(60).ref)
    world.wait(3 * 86_400)
    assert world.audit(segments=1).failed == 0
