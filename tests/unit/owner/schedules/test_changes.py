"""Update, pause, resume, delete: what was due before stays, what is due later follows the owner, and nothing starts afterwards."""

from __future__ import annotations

import pytest
from quarterjack import RunState, ScheduleState
from quarterjack.domain.run import EntryKind
from quarterjack.domain.schedule import ClosedBy
from quarterjack.errors import ExpressionError, NotFound, Unavailable
from quarterjack.testing import Crash

from tests.support.scenes.world import NOON, OWNER, Faults, World, crash, fails


def minutely(job: str = "note") -> World:
    """A schedule of every minute, created at NOON; its first fires are claimed and sent."""
    world = World()
    world.scheduler.create_schedule("s", job, "* * * * *")
    world.tick()
    return world


# Update.


def test_an_update_keeps_what_was_due_before_and_replaces_the_rest() -> None:
    world = minutely()
    world.live(90)
    world.scheduler.update_schedule("s", expression="rate(30 seconds)")
    world.live(90)
    assert world.began() == [60, 120, 150, 180]
    first, second = world.memory.revisions(OWNER)
    assert (first.active_until, first.closed_by) == (second.active_from, ClosedBy.REPLACED)


def test_fires_that_both_revisions_have_are_taken_over_and_start_once() -> None:
    world = minutely()
    world.live(30)
    world.scheduler.update_schedule("s", job="once")
    world.live(300)
    assert world.began() == [60, 120, 180, 240, 300]
    assert {(run.revision, run.job) for run in world.memory.runs(OWNER) if run.started_at} == {(2, "once")}


def test_an_update_does_not_wait_for_the_next_tick() -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "0 18 * * *")
    world.scheduler.update_schedule("s", expression="at(2026-05-04T12:00:05)")
    world.wait(5)
    world.work()
    assert world.began() == [5]


def test_an_update_in_the_middle_of_a_tick_loses_nothing() -> None:
    """Between the ticker's claims and its messages the schedule becomes another one."""
    world = World()
    world.scheduler.create_schedule("s", "note", "*/4 * * * *")
    world.live(59)
    world.wait(1)
    owner = world.owner()
    meanwhile = Faults().at("claim", after=lambda: owner.update_schedule("s", expression="*/3 * * * *"))
    world.tick(world.process(meanwhile))
    world.live(24 * 60)
    assert world.began() == list(range(180, 25 * 60, 180))


def test_an_update_before_the_claims_of_a_tick_that_read_the_old_revision() -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "*/4 * * * *")
    world.live(59)
    world.wait(1)
    owner = world.owner()
    meanwhile = Faults().at("claim", before=lambda: owner.update_schedule("s", expression="*/3 * * * *"))
    world.tick(world.process(meanwhile))
    world.live(24 * 60)
    assert world.began() == list(range(180, 25 * 60, 180))


def test_an_update_while_a_worker_has_the_old_message_at_hand() -> None:
    """It has read the old revision as open; the lease decides."""
    world = minutely()
    world.wait(60)
    owner = world.owner()
    worker = world.worker(Faults().at("lease", before=lambda: owner.update_schedule("s", expression="* * * * *")))
    world.work(worker)
    world.live(180)
    assert world.began() == [60, 120, 180, 240]


def test_what_an_update_took_back_may_come_back_with_the_next_one() -> None:
    world = minutely()
    world.live(30)
    world.scheduler.update_schedule("s", expression="0 18 * * *")
    assert {state for _, state in world.states()} == {RunState.SUPERSEDED}
    world.scheduler.update_schedule("s", expression="* * * * *")
    world.live(120)
    assert world.began() == [60, 120]


def test_an_update_that_dies_after_its_transaction_is_finished_by_ticks_and_workers() -> None:
    world = minutely()
    world.live(30)
    with pytest.raises(Crash):
        world.owner(Faults().at("arm", after=crash)).update_schedule("s", expression="30 12 * * *")
    world.live(30 * 60)
    assert world.began() == [1_800]
    assert {state for second, state in world.states() if second < 1_800} == {RunState.SUPERSEDED}


def test_an_update_whose_sweep_is_not_answered_says_so_and_can_be_repeated() -> None:
    world = minutely()
    owner = world.owner(Faults().at("refuse", before=fails, times=40))
    with pytest.raises(Unavailable, match="is made, but 5 of its queued runs"):
        owner.update_schedule("s", expression="0 18 * * *")
    world.live(300)
    assert world.began() == []


def test_an_expression_that_never_fires_is_refused_and_the_old_one_stays() -> None:
    world = minutely()
    with pytest.raises(ExpressionError):
        world.scheduler.update_schedule("s", expression="at(2020-01-01T00:00:00)")
    world.live(60)
    assert world.began() == [60]
    assert len(world.memory.revisions(OWNER)) == 1


def test_two_updates_at_the_same_instant_keep_their_order() -> None:
    world = minutely()
    world.scheduler.update_schedule("s", expression="*/2 * * * *")
    world.scheduler.update_schedule("s", expression="*/3 * * * *")
    world.live(360)
    assert world.began() == [180, 360]


def test_a_completed_schedule_may_be_given_a_new_expression() -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "at(2026-05-04T12:01:00)")
    world.live(60)
    assert world.memory.heads()[0].state is ScheduleState.COMPLETED
    world.scheduler.update_schedule("s", expression="at(2026-05-04T12:03:00)")
    world.live(120)
    assert world.began() == [60, 180]


# Pause.


def test_once_pause_has_returned_nothing_starts() -> None:
    world = minutely()
    world.live(60)
    paused = world.scheduler.pause_schedule("s", reason="holidays")
    assert (paused.state, paused.reason) == (ScheduleState.PAUSED, "holidays")
    world.live(600)
    assert world.began() == [60]
    assert {state for second, state in world.states() if second > 60} == {RunState.CANCELLED}


def test_pausing_takes_back_even_what_is_due() -> None:
    world = minutely()
    world.wait(90)
    world.scheduler.pause_schedule("s")
    world.work()
    assert world.began() == []


def test_a_pause_between_claim_and_send_holds() -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "*/4 * * * *")
    world.live(59)
    world.wait(1)
    owner = world.owner()
    world.tick(world.process(Faults().at("send", before=lambda: owner.pause_schedule("s"))))
    world.live(600)
    assert world.began() == []


def test_a_pause_before_the_claims_of_a_tick_that_read_the_open_revision() -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "*/4 * * * *")
    world.live(59)
    world.wait(1)
    owner = world.owner()
    world.tick(world.process(Faults().at("claim", before=lambda: owner.pause_schedule("s"))))
    assert world.sent(), "the late ticker's messages are there"
    world.live(600)
    assert world.began() == []


def test_a_pause_while_a_worker_has_the_message_at_hand() -> None:
    world = minutely()
    world.wait(60)
    owner = world.owner()
    world.work(world.worker(Faults().at("lease", before=lambda: owner.pause_schedule("s"))))
    assert world.began() == []


def test_a_run_that_has_started_goes_on_over_a_pause() -> None:
    world = minutely("bad")
    world.live(60)
    world.scheduler.pause_schedule("s")
    world.live(120)
    assert world.began() == [60, 60, 60]
    assert world.run(60).state is RunState.DEAD


def test_resume_revives_what_the_pause_took_back_and_is_still_to_come() -> None:
    world = minutely()
    world.live(60)
    world.scheduler.pause_schedule("s")
    world.wait(90)
    world.scheduler.resume_schedule("s")
    world.live(150)
    assert world.began() == [60, 180, 240, 300]
    assert world.run(120).state is RunState.CANCELLED


def test_resuming_what_runs_changes_nothing() -> None:
    world = minutely()
    assert world.scheduler.resume_schedule("s").revision == 1


def test_a_paused_schedule_may_be_updated_and_stays_paused() -> None:
    world = minutely()
    world.scheduler.pause_schedule("s", reason="why")
    changed = world.scheduler.update_schedule("s", expression="rate(10 seconds)")
    assert (changed.state, changed.reason, changed.revision) == (ScheduleState.PAUSED, "why", 2)
    world.live(120)
    assert world.began() == []
    world.scheduler.resume_schedule("s")
    world.live(20)
    assert world.began() == [130, 140]


def test_a_pause_that_dies_after_its_transaction_holds_all_the_same() -> None:
    world = minutely()
    with pytest.raises(Crash):
        world.owner(Faults().at("close", after=crash)).pause_schedule("s")
    world.live(300)
    assert world.began() == []


def test_a_pause_whose_sweep_failed_is_finished_by_calling_again() -> None:
    world = minutely()
    with pytest.raises(Unavailable, match="call again to finish"):
        world.owner(Faults().at("refuse", before=fails, times=None)).pause_schedule("s")
    assert RunState.QUEUED in dict(world.states()).values()
    again = world.scheduler.pause_schedule("s")
    assert (again.version, again.state) == (2, ScheduleState.PAUSED)
    assert {state for _, state in world.states()} == {RunState.CANCELLED}


def test_a_sweep_goes_past_what_it_skips_and_over_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quarterjack.testing.memory.tables.PAGE", 7)
    world = World()
    world.scheduler.create_schedule("s", "note", "rate(1 second)")
    world.live(100)
    world.scheduler.pause_schedule("s")
    states = [state for _, state in world.states()]
    assert states.count(RunState.SUCCEEDED) == 100
    assert RunState.QUEUED not in states


# Drain.


def test_a_drain_lets_go_what_is_due_and_nothing_later() -> None:
    world = minutely()
    world.wait(130)
    world.scheduler.pause_schedule("s", drain=True)
    world.live(300)
    assert sorted(world.began()) == [60, 120]
    assert world.run(180).state is RunState.CANCELLED


def test_a_drain_covers_what_is_due_and_not_yet_claimed() -> None:
    world = minutely()
    world.wait(900)
    world.scheduler.pause_schedule("s", drain=True)
    world.live(600)
    assert sorted(world.began()) == list(range(60, 901, 60))


def test_a_drain_may_become_a_pause() -> None:
    world = minutely()
    world.wait(130)
    world.scheduler.pause_schedule("s", drain=True)
    world.scheduler.pause_schedule("s")
    world.live(300)
    assert world.began() == []
    assert world.memory.revisions(OWNER)[0].closed_by is ClosedBy.PAUSED


def test_a_pause_does_not_become_a_drain() -> None:
    world = minutely()
    world.wait(130)
    world.scheduler.pause_schedule("s")
    world.scheduler.pause_schedule("s", drain=True)
    world.live(300)
    assert world.began() == []


def test_a_drain_goes_on_while_the_schedule_is_changed() -> None:
    world = minutely()
    world.wait(130)
    world.scheduler.pause_schedule("s", drain=True)
    world.scheduler.update_schedule("s", payload="other")
    world.live(300)
    assert sorted(world.began()) == [60, 120]


def test_a_drain_that_was_changed_may_still_become_a_pause() -> None:
    world = minutely()
    world.wait(130)
    world.scheduler.pause_schedule("s", drain=True)
    world.scheduler.update_schedule("s", payload="other")
    world.scheduler.pause_schedule("s")
    world.live(300)
    assert world.began() == []


# Delete.


def test_a_deleted_schedule_is_gone_for_its_owner_and_starts_nothing() -> None:
    world = minutely()
    world.live(60)
    world.scheduler.delete_schedule("s")
    world.live(600)
    assert world.began() == [60]
    with pytest.raises(NotFound):
        world.scheduler.get_schedule("s")
    assert world.scheduler.list_schedules().items == []
    assert world.memory.runs(OWNER)[0].due == NOON + 60_000, "its runs stay"
    assert world.chain() == []


def test_deleting_again_finishes_what_was_left() -> None:
    world = minutely()
    with pytest.raises(Unavailable):
        world.owner(Faults().at("refuse", before=fails, times=None)).delete_schedule("s")
    world.scheduler.delete_schedule("s")
    assert {state for _, state in world.states()} == {RunState.CANCELLED}


def test_deleting_with_drain_lets_go_what_is_due() -> None:
    world = minutely()
    world.wait(60)
    world.scheduler.delete_schedule("s", drain=True)
    world.live(300)
    assert world.began() == [60]


def test_a_name_may_be_used_again_and_its_numbering_goes_on() -> None:
    world = minutely()
    world.scheduler.update_schedule("s", tags={"a": "b"}, description="old")
    world.scheduler.delete_schedule("s")
    again = world.scheduler.create_schedule("s", "note", "* * * * *")
    assert (again.revision, again.tags, again.description) == (2, {}, "")
    assert again.version == 4
    world.live(120)
    assert world.began() == [60, 120], "fires that were cancelled with the old one belong to the new one"


def test_a_deleted_and_paused_schedule_is_deleted() -> None:
    world = minutely()
    world.scheduler.pause_schedule("s")
    world.scheduler.delete_schedule("s")
    with pytest.raises(NotFound):
        world.scheduler.pause_schedule("s")
    assert world.memory.heads()[0].state is ScheduleState.DELETED


# Late tickers.


@pytest.mark.parametrize("stop", ["pause", "delete"])
def test_nothing_of_an_older_revision_starts_after_a_stop_either(stop: str) -> None:
    """The ticker was down for a while: fires of the first revision are claimed only after it was replaced and all was stopped."""
    world = minutely()
    world.live(30)
    world.wait(900)
    world.scheduler.update_schedule("s", expression="* * * * *", payload="second")
    if stop == "pause":
        world.scheduler.pause_schedule("s")
    else:
        world.scheduler.delete_schedule("s")
    before = world.began()
    world.live(600)
    assert world.began() == before


def test_nothing_of_an_older_revision_starts_after_a_pause_that_was_ended_again() -> None:
    world = minutely()
    world.live(30)
    world.wait(900)
    world.scheduler.update_schedule("s", expression="* * * * *", payload="second")
    world.scheduler.pause_schedule("s")
    world.scheduler.resume_schedule("s")
    world.live(130)
    assert [second for second in world.began() if second <= 930] == []
    assert world.began() == [960, 1020]


def test_a_stop_many_updates_later_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    world = minutely()
    world.live(30)
    world.wait(900)
    for number in range(23):
        world.scheduler.update_schedule("s", payload=number)
    world.scheduler.pause_schedule("s")
    world.live(600)
    assert world.began() == []


@pytest.mark.parametrize("updates", [1, 23])
def test_what_was_due_before_many_updates_starts(updates: int) -> None:
    world = minutely()
    world.live(30)
    world.wait(900)
    for number in range(updates):
        world.scheduler.update_schedule("s", payload=number)
    world.live(130)
    assert sorted(world.began()) == list(range(60, 1060, 60))


def test_an_outage_and_an_update_lose_nothing() -> None:
    world = minutely()
    world.live(30)
    world.wait(900)
    world.scheduler.update_schedule("s", expression="* * * * *", payload="second")
    world.live(130)
    assert sorted(world.began()) == list(range(60, 1060, 60))
    assert len(world.entries(EntryKind.CHAIN)) == 1


def test_a_backlog_of_more_than_a_step_outlives_the_update_that_ends_its_revision() -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "rate(5 seconds)")
    world.live(30)
    world.wait(900)
    world.scheduler.update_schedule("s", expression="rate(7 seconds)")
    world.live(130)
    began = sorted(world.began())
    assert began[:186] == list(range(5, 931, 5))
    assert began[186:204] == list(range(937, 1_060, 7))
