"""The auditor: finds what a defect, an operator or a lost item broke, repairs it, and repeats nothing that is right."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest
from quarterjack import RunState, ScheduleState, Tenants
from quarterjack.auditor.repairs import GRACE
from quarterjack.domain.options import CatchUpWord
from quarterjack.domain.run import EntryKind
from quarterjack.domain.schedule import ClosedBy
from quarterjack.domain.times import HOUR, MINUTE, SECOND
from quarterjack.stores.tables import RUNS
from quarterjack.testing import Crash
from quarterjack.testing.process import bury_all

from tests.support.builders import an_entry
from tests.support.open_breakers import open_breaker
from tests.support.scenes.world import NOON, OWNER, Faults, World, crash, fails


def minutely(shards: int = 1) -> World:
    world = World(shards=shards)
    world.scheduler.create_schedule("s", "note", "* * * * *")
    return world


def lose_messages(world: World) -> None:
    """The queue forgets everything."""
    while found := world.services.work.receive(most=10, wait=0, visibility=30):
        world.services.work.erase([delivery.receipt for delivery in found])


def quiet(world: World) -> None:
    """An audit of this finds nothing to do."""
    report = vars(world.audit())
    assert {name: n for name, n in report.items() if n and name not in ("schedules", "quarantined")} == {}


# Nothing to find.


def test_what_is_right_is_left_alone() -> None:
    world = minutely()
    world.scheduler.create_schedule("daily", "note", "0 9 * * *")
    world.scheduler.create_schedule("paused", "note", "* * * * *")
    world.scheduler.pause_schedule("paused")
    world.scheduler.create_schedule("done", "note", "at(2026-05-04T12:01:00)")
    world.live(3_600)
    world.tick()
    quiet(world)
    assert world.audit().schedules == 2


def test_a_ticker_that_is_behind_is_not_overtaken() -> None:
    world = minutely()
    world.wait(1_500)
    world.work()
    quiet(world)
    assert max(world.fires()) == 60
    world.live(600)
    assert sorted(world.began())[:35] == list(range(60, 2_101, 60))


@pytest.mark.parametrize("policy", ["all", "latest", "none"])
@pytest.mark.parametrize("hours", [1, 5])
def test_what_was_passed_over_is_not_missing(policy: CatchUpWord, hours: int) -> None:
    """Also where the gap begins long before what the auditor recomputes."""
    world = World()
    world.scheduler.create_schedule("s", "note", "* * * * *", catch_up=policy)
    world.wait(hours * 3_600)
    world.work()
    world.live(1_200)
    world.tick()
    quiet(world)
    before = len(world.memory.runs(OWNER))
    world.wait(2_400)
    world.tick()
    world.live(600)
    quiet(world)
    assert sum(run.skipped or 0 for run in world.memory.runs(OWNER)) + len(world.began()) >= hours * 60
    assert len(world.memory.runs(OWNER)) > before


@pytest.mark.parametrize(("policy", "claimed", "skipped"), [("all", 1, 1), ("latest", 0, 2), ("none", 0, 2)])
def test_a_lost_run_is_made_good_as_its_policy_has_it(policy: CatchUpWord, claimed: int, skipped: int) -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "* * * * *", catch_up=policy)
    world.live(3_600)
    world.tick()
    lost = [world.run(second).ref for second in (600, 3_000)]
    for ref in lost:
        world.memory._tables[RUNS].delete(*ref)
    assert world.audit().unclaimed == 2
    assert sum(run.skipped or 0 for run in world.memory.runs(OWNER)) == skipped
    started = len(world.started)
    world.work()
    assert [start.run_id for start in world.started[started:]] == [str(ref) for ref in lost[2 - claimed :]]
    quiet(world)


def test_a_lost_chain_goes_on_behind_its_gap() -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "* * * * *", catch_up="none")
    world.wait(7_200)
    world.tick()
    world.scheduler.skip_next("s")
    world.services.agenda.remove(world.memory.entries())
    assert world.audit().rearmed == 1
    world.live(1_200)
    assert len([run for run in world.memory.runs(OWNER) if run.skipped]) == 1
    assert world.began()[-1] == 8_400


def test_the_chain_of_a_manual_schedule_is_there_at_the_end_of_time() -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "manual")
    quiet(world)
    world.services.agenda.remove(world.memory.entries())
    assert world.audit().rearmed == 1
    quiet(world)


def test_a_chain_on_its_way_is_not_a_missing_one() -> None:
    """The ticker has put the next entry and is about to delete this one, or the other way round for the auditor's eyes."""
    world = minutely()
    world.wait(60)
    world.tick(world.process(Faults().at("remove", before=lambda: quiet(world))))


def test_a_change_during_the_audit_is_no_finding() -> None:
    world = minutely()
    owner = world.owner()
    auditor = world.process(Faults().at("due", before=lambda: owner.pause_schedule("s")))
    assert world.audit(auditor).rearmed == 0


# Chains.


@pytest.mark.parametrize("shards", [1, 4])
def test_a_schedule_without_its_chain_is_armed_again_where_it_stopped(
    shards: int, caplog: pytest.LogCaptureFixture
) -> None:
    world = minutely(shards)
    world.live(120)
    world.services.agenda.remove(world.memory.entries())
    world.live(1_800)
    last = max(world.fires())
    with caplog.at_level(logging.ERROR):
        assert world.audit().rearmed == 1
    assert "audit.rearmed" in caplog.messages
    world.live(60)
    assert sorted(world.fires())[: (1_920 - 60) // 60] == list(range(60, 1_920, 60))
    assert last < 1_000
    assert sorted(set(world.began())) == sorted(world.began()), "and nothing starts twice"
    assert len(world.entries(EntryKind.CHAIN)) == 1


def test_a_chain_is_armed_in_the_revisions_own_shard() -> None:
    world = minutely(shards=4)
    (entry,) = world.memory.entries()
    world.services.agenda.remove([entry])
    world.audit()
    (again,) = world.memory.entries()
    assert (again.shard, again.key) == (entry.shard, entry.key)


def test_a_schedule_that_ended_unnoticed_is_completed() -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "at(2026-05-04T12:10:00)")
    world.live(500)
    world.memory.put_head(replace(world.memory.heads()[0], state=ScheduleState.ACTIVE))
    assert world.audit().rearmed == 1
    assert world.memory.heads()[0].state is ScheduleState.COMPLETED


def test_an_entry_that_was_moved_aside_is_not_armed_again_but_counted() -> None:
    world = minutely()
    (entry,) = world.memory.entries()
    world.services.agenda.quarantine(entry, reason="test", now=NOON)
    report = world.audit()
    assert (report.rearmed, report.quarantined) == (0, 1)
    world.scheduler.pause_schedule("s")
    world.scheduler.resume_schedule("s")
    assert world.audit().quarantined == 0, "it is of a former revision, and nobody needs it"


def test_an_arming_that_is_not_accepted_is_a_failure_and_comes_with_the_next_audit() -> None:
    world = minutely()
    world.services.agenda.remove(world.memory.entries())
    report = world.audit(world.process(Faults().at("put", throttle=[0], times=None)))
    assert (report.rearmed, report.failed) == (0, 1)
    assert world.audit().rearmed == 1


def test_entries_that_nobody_needs_are_removed() -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "0 9 1 * *")
    world.scheduler.pause_schedule("s")
    assert len(world.memory.entries()) == 1
    assert world.audit().tidied == 1
    assert world.memory.entries() == []


def test_the_last_entry_of_a_revision_that_still_has_fires_to_claim_stays() -> None:
    world = minutely()
    world.wait(3_600)
    world.work()
    world.scheduler.update_schedule("s", expression="0 18 * * *")
    quiet(world)
    assert len(world.entries(EntryKind.CHAIN)) == 2
    assert world.memory.revisions(OWNER)[0].closed_by is ClosedBy.REPLACED


# Runs.


def test_fires_of_the_recent_past_without_a_run_are_claimed() -> None:
    """As if rows had been lost, or a tool of somebody's had deleted them."""
    world = minutely()
    world.live(1_800)
    gone = [run for run in world.memory.runs(OWNER) if 600 <= (run.due - NOON) // SECOND < 900]
    for run in gone:
        world.memory._tables[RUNS].delete(*run.ref)
    assert world.audit().unclaimed == len(gone) == 5
    world.work()
    quiet(world)
    assert {state for second, state in world.states() if second < 1_800} == {RunState.SUCCEEDED}


def test_a_run_whose_message_was_lost_is_sent_again() -> None:
    world = minutely()
    lose_messages(world)
    world.wait((60 * SECOND + GRACE) // SECOND + 60)
    lose_messages(world)
    assert world.audit().resent >= 1
    world.work()
    assert 60 in world.began()


def test_a_run_that_waits_for_an_open_breaker_is_not_sent_again() -> None:
    world = minutely()
    tenants = Tenants(services=world.process(), clock=world.clock)
    tenants.set("acme", limits={"breaker_percent": 90})
    world.wait((60 * SECOND + GRACE) // SECOND + 60)
    open_breaker("acme", "note", world.services, world.clock())
    assert world.audit().resent == 0
    tenants.set("acme", limits={"breaker_percent": None})
    world.wait(6)  # what was believed
    assert world.audit().resent >= 1


def test_a_run_of_an_older_revision_whose_message_was_lost_is_sent_again() -> None:
    """Found by the simulator: a change of the schedule hid it from the auditor's recent past, and a week may pass until the next look."""
    world = minutely()
    world.tick()
    lose_messages(world)
    world.wait(70)
    world.scheduler.update_schedule("s", expression="0 0 1 1 *")
    world.wait(GRACE // SECOND)
    assert world.audit().resent == 1
    world.work()
    assert world.run(60).state is RunState.SUCCEEDED
    quiet(world)


def test_a_run_that_waits_for_less_than_the_grace_is_left_alone() -> None:
    world = minutely()
    world.wait(60 + GRACE // SECOND - 1)
    assert world.audit().resent == 0


def test_an_abandoned_run_without_a_message_starts_again() -> None:
    world = minutely()
    world.wait(60)
    with pytest.raises(Crash):
        world.work(world.worker(Faults().at("succeed", before=crash)))
    world.wait(120)
    while found := world.services.work.receive(most=10, wait=0, visibility=30):
        world.services.work.erase([delivery.receipt for delivery in found])
    world.wait(600)
    assert world.audit().resent >= 1
    world.work()
    assert world.run(60).state is RunState.SUCCEEDED


def test_a_one_off_whose_message_was_lost_is_found() -> None:
    world = World()
    world.scheduler.submit("note")
    lose_messages(world)
    world.wait(4 * 3_600)
    assert world.audit(segments=1).overdue == 1
    world.work()
    assert len(world.started) == 1
    assert world.audit(segments=1).overdue == 0


def test_every_part_of_the_ledger_has_its_hour() -> None:
    world = World()
    for number in range(20):
        world.scheduler.submit("note", number)
    lose_messages(world)
    world.wait(4 * 3_600)
    found = 0
    for _ in range(5):
        found += world.audit(segments=5).overdue
        world.work()
        world.wait(3_600)
    assert found == 20
    assert len(world.started) == 20


# Bounds and bad company.


@pytest.mark.parametrize("batch", [1, 5, 12, 100])
def test_batches_bound_memory_and_leave_nobody_out(batch: int) -> None:
    world = World(shards=4)
    for number in range(12):
        world.scheduler.create_schedule(f"s{number}", "note", "0 18 * * *")
    world.services.agenda.remove(world.memory.entries()[::2])
    report = world.audit(batch=batch)
    assert (report.schedules, report.rearmed) == (12, 6)
    assert len(world.memory.entries()) == 12


@pytest.mark.parametrize("problem", [ValueError("x"), KeyError("rule"), TypeError("x"), AttributeError("x")])
def test_one_bad_revision_stops_no_other_schedule(problem: Exception) -> None:
    world = World()
    for name in ("bad", "good"):
        world.scheduler.create_schedule(name, "note", "0 18 * * *")
    world.services.agenda.remove(world.memory.entries())
    world.memory.put_revision("acme/bad", 1, problem)
    report = world.audit()
    assert (report.rearmed, report.failed) == (1, 2)


def test_garbage_in_the_agenda_stops_nothing() -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "0 18 * * *")
    world.services.agenda.remove(world.memory.entries())
    world.services.agenda.put([an_entry(NOON, id="garbage"), an_entry(NOON, id="#")])
    world.memory.put_item(0, "000000000000001#dance#x", "something")
    report = world.audit()
    assert (report.rearmed, report.failed) == (1, 0)


def test_an_audit_that_is_not_answered_reports_and_repairs_the_next_time() -> None:
    world = minutely()
    world.live(600)
    lose_messages(world)
    world.wait(900)
    for verb in ("window", "revisions", "send"):
        report = world.audit(world.process(Faults().at(verb, before=fails, times=None)))
        assert report.resent == 0
    world.audit()
    world.live(120)
    bury_all(world.services, world.clock)
    assert sorted(set(world.began())) == sorted(world.began())
    assert set(range(60, 600, 60)) <= set(world.began())


def test_the_window_of_an_audit_is_twice_its_period() -> None:
    world = minutely()
    world.wait(5 * HOUR // SECOND)
    world.tick()
    for run in world.memory.runs(OWNER):
        world.memory._tables[RUNS].delete(*run.ref)
    lose_messages(world)
    assert world.audit().unclaimed == (2 * HOUR - GRACE) // MINUTE
