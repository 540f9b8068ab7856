"""Tick: whatever is due is claimed, sent and followed by the chain's next entry, however often and by whomever."""

from __future__ import annotations

import logging
from collections import Counter
from contextlib import suppress

import pytest
from quarterjack import RunState, ScheduleState
from quarterjack.domain.run import EntryKind
from quarterjack.domain.times import HOUR, MINUTE, SECOND
from quarterjack.errors import Misconfigured
from quarterjack.fires.context import LOOKAHEAD, REACH, FireContext
from quarterjack.fires.plan import LARGEST
from quarterjack.testing import Crash, Hook
from quarterjack.ticker.tick import LOCK, MAX_FAILURES, dispatch

from tests.support.builders import an_entry
from tests.support.scenes.far import far
from tests.support.scenes.world import NOON, OWNER, Faults, World, crash, fails

DAY = 86_400.0  # seconds
STEP = list(
    range(60, 301, 60)
)  # a first step at noon: the windows of acme/s end at 12:05:05 and every ten minutes from then on
NEXT = list(range(360, 901, 60))  # and what the second step takes


# Steps.


def test_a_tick_claims_sends_and_moves_the_chain_on() -> None:
    world = World()
    far(world)
    report = world.tick()
    assert world.fires() == world.sent() == STEP, "to the end of its window, beyond the look-ahead"
    assert world.chain() == [360]
    assert (
        report.handled.fires.claimed,
        report.handled.messages.sent,
        report.handled.agenda.done,
        report.handled.agenda.left,
    ) == (5, 5, 1, 0)
    assert report.behind == -60 * SECOND or report.behind == 0
    world.wait(180)
    assert world.tick().handled.fires.claimed == 10, "ten fires share a step"
    assert world.fires() == world.sent() == STEP + NEXT
    assert world.chain() == [960]


def test_a_step_takes_ten_fires_or_goes_to_the_end_of_its_ten_minutes() -> None:
    world = World()
    far(world, expression="*/2 * * * *")
    world.tick()
    assert world.fires() == [120, 240]
    world.live(240)
    assert world.fires() == list(range(120, 901, 120)), "all chains of a revision end a step there, and so meet again"


def test_chains_of_different_owners_take_their_steps_at_different_times() -> None:
    world = World(shards=4)
    for number in range(40):
        far(world, f"s{number}")
    world.live(1200)
    steps = Counter((entry.due - NOON) // MINUTE % 10 for entry in world.entries(EntryKind.CHAIN))
    assert len(steps) >= 8, "of ten minutes in which a step may begin"
    assert max(steps.values()) < 12


def test_a_step_writes_its_two_entries_once_for_ten_fires() -> None:
    world, faults = World(), Faults()
    far(world)
    world.tick()
    world.wait(180)
    assert world.tick(world.process(faults)).handled.fires.claimed == 10
    assert faults.verbs().count("put") == faults.verbs().count("remove") == 1
    assert faults.count("BatchExecuteStatement") == 1
    assert faults.count("SendMessageBatch") == 1


def test_a_schedule_of_every_second_steps_no_further_than_it_must() -> None:
    world = World()
    far(world, expression="rate(1 second)")
    world.tick()
    assert world.fires() == list(range(1, 181))
    assert world.chain() == [181]


def test_nothing_is_claimed_before_the_look_ahead() -> None:
    world = World()
    far(world, expression="4 12 * * *")
    assert world.tick().handled.agenda.entries == 0
    world.wait(59)
    assert world.tick().handled.agenda.entries == 0
    world.wait(1)
    world.tick()
    assert world.fires() == [240]


def test_an_idle_tick_makes_one_query_a_shard() -> None:
    world, faults = World(shards=4), Faults()
    far(world, expression="0 18 * * *")
    services, asked = world.process(faults), list[list[str]]()
    for _ in range(11):
        report = world.tick(services)
        assert (report.shards, report.behind, report.handled.agenda.entries) == (4, 0, 0)
        asked.append(faults.verbs())
        faults.calls.clear()
        world.wait(60)
    idle = ["layout", *["due"] * 4]
    breakers = [*idle, "records"]  # once in ten minutes it looks for circuit breakers that nobody asks any more
    assert asked == [breakers, *[idle] * 9, breakers]


def test_a_backlog_is_worked_off_within_the_tick_piece_by_piece() -> None:
    world = World()
    far(world, window=DAY)
    world.wait(6 * 3600)
    report = world.tick()
    assert world.fires() == list(range(60, 6 * 3600 + 181, 60))
    assert len(world.fires()) > 3 * LARGEST
    assert (report.handled.schedules.cut, report.behind) == (3, 6 * HOUR - MINUTE)
    assert len(world.memory.entries()) == 1


def test_a_backlog_older_than_the_retention_is_not_claimed_again() -> None:
    world = World(retention=2 * HOUR)
    far(world, expression="0 * * * *", window=DAY)
    world.wait(5 * 3600)
    world.tick()
    assert world.fires()[0] == 4 * 3600, "rows of what is older may have expired; claiming it would run it twice"


def test_many_chains_fill_batches_together() -> None:
    world, faults = World(), Faults()
    for number in range(60):
        far(world, f"s{number}", "3 12 * * *")
    world.tick(world.process(faults))
    assert world.fires(None) == [180] * 60
    assert faults.count("BatchExecuteStatement") == 3
    assert faults.count("SendMessageBatch") == 6
    assert faults.count("BatchGetItem") == 1
    assert [v for v in faults.verbs() if v in ("put", "remove")] == ["put"] * 3 + ["remove"] * 3


# Again and again.


def test_ticking_twice_claims_nothing_twice() -> None:
    world = World()
    far(world)
    world.tick()
    world.tick()
    assert world.fires() == world.sent() == STEP


def test_two_tickers_at_once_share_the_work_or_repeat_it_harmlessly() -> None:
    world = World()
    far(world)
    slow = world.process(Faults().at("claim", before=lambda: world.tick(holder="other")))
    (entry,) = world.memory.entries()
    dispatch([entry], FireContext(services=slow, clock=world.clock))
    world.live(300)
    assert world.began() == [60, 120, 180, 240, 300]
    assert world.chain() != []


def test_tickers_with_other_look_aheads_merge_their_chains() -> None:
    world = World()
    far(world)
    (entry,) = world.memory.entries()
    dispatch([entry], FireContext(services=world.services, clock=world.clock, reach=0))
    dispatch([entry], FireContext(services=world.services, clock=world.clock, reach=REACH))
    assert world.chain() == [240, 360], "the chain has two ends for a while"
    world.live(900)
    assert world.began() == list(range(60, 901, 60)), "each fire started once"
    assert len(world.entries(EntryKind.CHAIN)) == 1, "and merged where they met"


def test_a_crash_between_claim_and_send_is_made_good_by_the_next_tick() -> None:
    world = World()
    far(world)
    with pytest.raises(Crash):
        world.tick(world.process(Faults().at("send", before=crash)))
    assert (world.fires(), world.sent()) == (STEP, [])
    report = world.tick(holder="another")
    assert report.locked == 1, "the dead ticker's lock lasts a while"
    world.wait(LOCK // SECOND + 1)
    report = world.tick(holder="another")
    assert (report.handled.fires.claimed, report.handled.fires.resent) == (0, 5)
    world.live(120)
    assert world.began()[:2] == [60, 120]


@pytest.mark.parametrize("verb", ["lock", "due", "revisions", "claim", "send", "put", "remove", "unlock"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_dying_at_any_call_loses_and_repeats_nothing(verb: str, moment: str) -> None:
    world = World()
    far(world)
    with pytest.raises(Crash):
        world.tick(world.process(Faults().at(verb, **{moment: crash})))
    world.live(360)
    assert world.began() == [60, 120, 180, 240, 300, 360]


@pytest.mark.parametrize("verb", ["lock", "revisions", "claim", "send", "put", "remove", "unlock"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_service_that_fails_for_a_while_makes_fires_late_and_loses_none(verb: str, moment: str) -> None:
    world = World()
    far(world)
    faults = Faults().at(verb, **{moment: fails}, times=None)
    world.tick(world.process(faults), holder="unlucky")
    world.wait(LOCK // SECOND + 1)
    world.live(309)
    assert world.began() == [60, 120, 180, 240, 300, 360]


def test_throttled_items_are_late_and_not_lost() -> None:
    world = World()
    far(world)
    some = Faults().at("claim", throttle=range(0, 5, 3), times=None).at("send", throttle=range(2), times=None)
    report = world.tick(world.process(some, rounds=1))
    assert (report.handled.agenda.left, report.handled.agenda.done) == (1, 0)
    assert len(world.fires()) == 3
    assert len(world.sent()) == 1
    world.tick()
    assert world.fires() == STEP
    assert set(world.sent()) == set(STEP)
    world.live(600)
    assert world.began() == list(range(60, 601, 60))


def test_an_entry_stays_while_its_next_one_was_not_accepted() -> None:
    world = World()
    far(world)
    report = world.tick(world.process(Faults().at("put", throttle=[0], times=None)))
    assert (report.handled.agenda.left, world.chain()) == (1, [60])


# Locks and time.


def test_a_locked_shard_is_left_to_its_ticker() -> None:
    world = World()
    far(world)
    world.services.agenda.lock(0, holder="other", now=world.clock(), until=world.clock() + LOCK)
    report = world.tick()
    assert (report.locked, world.fires()) == (1, [])


def test_a_lock_is_given_back() -> None:
    world = World()
    far(world)
    world.tick(holder="one")
    world.wait(60)
    assert world.tick(holder="two").locked == 0


def test_a_tick_stops_in_time_and_what_is_left_is_still_there() -> None:
    world = World(shards=4)
    for number in range(8):
        far(world, f"s{number}", "3 12 * * *")

    class Slow(Hook):
        def before_call(self, operation: str, detail: object) -> tuple[int, ...]:
            world.wait(20)
            return ()

    report = world.tick(world.process(Slow()))
    assert report.stopped
    assert report.shards < 4
    world.live(360)
    assert sorted(world.began()) == [180] * 8


def test_every_shard_comes_first_at_times() -> None:
    world, firsts = World(shards=4), set()
    for _ in range(4):
        faults = Faults()
        world.tick(world.process(faults), budget=0)
        assert faults.verbs() == ["layout"] or faults.verbs()[:2] == ["layout", "raise_shards"]
        order = Faults()
        far_world = world.process(order)
        seen: list[int] = []
        due = far_world.agenda.due

        def noting(shard: int, **options: object) -> object:
            seen.append(shard)  # noqa: B023 (used within the iteration)
            return due(shard, **options)  # type: ignore[arg-type]  # noqa: B023

        object.__setattr__(far_world.agenda, "due", noting)
        world.tick(far_world)
        firsts.add(seen[0])
        assert sorted(seen) == [0, 1, 2, 3]
        world.wait(60)
    assert firsts == {0, 1, 2, 3}


def test_a_shard_that_cannot_be_read_stops_no_other() -> None:
    world = World(shards=4)
    for number in range(12):
        far(world, f"s{number}", "3 12 * * *")
    report = world.tick(world.process(Faults().at("due", before=fails, times=2)))
    assert (report.unavailable, report.shards) == (1, 3)
    assert 0 < len(world.fires(None)) < 12
    world.tick()
    assert len(world.fires(None)) == 12


# Bad company.


def test_an_item_that_is_no_entry_is_passed_over() -> None:
    world = World()
    for number in range(3):
        world.memory.put_item(0, f"00000000000000{number}#dance#x", "garbage")
    far(world, expression="3 12 * * *")
    world.tick()
    assert world.fires() == [180]


def test_a_page_full_of_garbage_hides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quarterjack.ticker.tick.PAGE", 3)
    world = World()
    for number in range(7):
        world.memory.put_item(0, f"00000000000000{number}#dance#x", "garbage")
    far(world, expression="3 12 * * *")
    world.tick()
    assert world.fires() == [180]


@pytest.mark.parametrize(
    "identity", ["acme/s", "acme/s#", "acme/s#one", "", "#", "#5", "acme/s#1" + "0" * 40, "a#b#c#1"]
)
def test_an_entry_with_an_odd_id_stops_no_other(identity: str) -> None:
    world = World()
    far(world, expression="3 12 * * *")
    odd = an_entry(NOON, id=identity)
    world.services.agenda.put([odd])
    world.tick()
    assert world.fires() == [180]


@pytest.mark.parametrize("kind", [EntryKind.RUN, EntryKind.WATCH])
@pytest.mark.parametrize("identity", ["", "acme", "a#b", "acme/x"])
def test_a_run_or_watch_with_an_odd_id_stops_no_other(kind: EntryKind, identity: str) -> None:
    world = World()
    far(world, expression="3 12 * * *")
    world.services.agenda.put([an_entry(NOON, id=identity, kind=kind)])
    world.tick()
    assert world.fires() == [180]


def test_a_revision_that_cannot_be_read_stops_no_other_and_ends_in_quarantine(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    far(world, "bad")
    far(world, "good", "3 12 * * *")
    world.memory.put_revision("acme/bad", 1, ValueError("of a later release"))
    for count in range(1, MAX_FAILURES):
        report = world.tick()
        assert report.handled.agenda.failed == 1
        assert world.memory.entries()[0].failures == count
        assert not report.behind, "what fails by itself says nothing about the ticker's pace"
        world.wait(60)
    assert world.fires("acme/good") == [180]
    with caplog.at_level(logging.ERROR):
        report = world.tick()
    assert report.handled.agenda.quarantined == 1
    assert "entry.quarantined" in caplog.messages
    assert world.tick().handled.agenda.entries == 0
    assert list(world.services.agenda.quarantined(0)) == [an_entry(NOON + MINUTE, owner="acme/bad").key]


def test_a_bad_entry_costs_each_tick_one_try() -> None:
    """Even while the tick pages through its shard again and again for a backlog."""
    world = World()
    far(world, "bad")
    far(world, "backlog", window=DAY)
    world.memory.put_revision("acme/bad", 1, ValueError("of a later release"))
    world.wait(6 * 3600)
    assert world.tick().handled.schedules.cut == 3
    assert world.memory.entries()[0].failures == 1


def test_an_unavailable_service_is_never_the_entrys_fault() -> None:
    world = World()
    far(world)
    for _ in range(3 * MAX_FAILURES):
        for verb in ("revisions", "claim", "send"):
            world.tick(world.process(Faults().at(verb, before=fails, times=None)))
    (entry,) = world.memory.entries()
    assert entry.failures == 0
    world.live(60)
    assert world.began() == [60]


def test_a_right_or_key_that_was_taken_away_is_never_the_entrys_fault() -> None:
    """A run that waits for its time is not moved aside because the queue's key was disabled for ten ticks."""

    def refuses() -> None:
        raise Misconfigured("injected")

    world = World()
    for _ in range(2):  # sent together
        world.scheduler.submit("note", delay=3_600)
    world.wait(3_600)
    for _ in range(2 * MAX_FAILURES):
        for verb in ("send", "look"):
            with suppress(Misconfigured):
                world.tick(world.process(Faults().at(verb, before=refuses, times=None)))
    assert [entry.failures for entry in world.memory.entries()] == [0, 0]
    world.live(60)
    assert world.began() == [3_600, 3_600]


def test_an_entry_whose_revision_is_gone_goes() -> None:
    world = World()
    world.services.agenda.put([an_entry(NOON, owner="acme/nobody")])
    assert world.tick().handled.agenda.done == 1
    assert world.memory.entries() == []


def test_a_row_of_another_release_stops_no_other() -> None:
    """A run of a state that this release does not know: its own chain waits, the others go on."""
    world = World()
    far(world, "odd", "1 12 * * *")
    far(world, "good", "1 12 * * *")
    world.owner().pause_schedule("odd")
    world.owner().resume_schedule("odd")
    row = world.memory.row(world.run(60, "acme/odd").ref)
    assert row is not None
    world.memory.put_row(world.run(60, "acme/odd").ref, row | {"state": "DREAMING"})
    world.services.agenda.put([an_entry(NOON + 60_000, owner="acme/odd", number=2, after=NOON)])
    world.tick()
    assert world.sent().count(60) >= 1
    assert any(message.run.owner == "acme/good" for message in world.memory.messages())


# Ends.


def test_a_completed_schedule_leaves_no_entry() -> None:
    world = World()
    far(world, expression="at(2026-05-04T12:02:00)")
    report = world.tick()
    assert report.handled.schedules.completed == 1
    assert world.memory.heads()[0].state is ScheduleState.COMPLETED
    assert world.memory.entries() == []


def test_completion_waits_for_an_answer() -> None:
    world = World()
    far(world, expression="at(2026-05-04T12:02:00)")
    report = world.tick(world.process(Faults().at("complete", before=fails, times=None)))
    assert (report.handled.schedules.completed, report.handled.agenda.left, len(world.memory.entries())) == (0, 1, 1)
    assert world.tick().handled.schedules.completed == 1


def test_a_completed_schedule_that_was_changed_meanwhile_stays_as_it_was_changed() -> None:
    world = World()
    far(world, expression="at(2026-05-04T12:02:00)")
    owner = world.owner()
    world.tick(
        world.process(Faults().at("complete", before=lambda: owner.update_schedule("s", expression="0 18 * * *")))
    )
    assert world.memory.heads()[0].state is ScheduleState.ACTIVE
    world.live(180)
    assert world.states() == [(120, RunState.SUPERSEDED)] or world.states() == [(120, RunState.SUCCEEDED)]


def test_a_finished_rule_without_a_next_fire_of_a_closed_revision_does_not_complete_the_head() -> None:
    world = World()
    far(world, expression="at(2026-05-04T12:02:00)")
    world.owner().pause_schedule("s")
    world.tick()
    assert world.memory.heads()[0].state is ScheduleState.PAUSED
    assert world.memory.entries() == []


def test_the_numbers_of_a_tick_say_what_happened() -> None:
    world = World()
    far(world)
    world.wait(90)
    report = world.tick()
    assert report.behind == 30 * SECOND
    assert (report.handled.agenda.entries, report.handled.fires.claimed, report.handled.fires.resent) == (1, 5, 0)
    assert world.memory.runs()[0].ref.owner == OWNER


@pytest.mark.parametrize("schedules", [0, 1, 3_000])
def test_what_is_not_due_costs_a_tick_nothing(schedules: int) -> None:
    """A query a shard, and the number of shards: no lock, no page more, whatever lies in the agenda for later."""
    world, faults = World(shards=3), Faults()
    world.tick()  # the first one writes how many shards there are
    services = world.process(faults)
    later = NOON + LOOKAHEAD + MINUTE + 1
    for start in range(0, schedules, 500):
        numbers = range(start, min(start + 500, schedules))
        world.services.agenda.put([an_entry(later + n, shard=n % 3, owner=f"acme/idle-{n}") for n in numbers])
    assert world.clock() // MINUTE % 10 == 0
    world.tick(services)
    looks = 1  # one minute in ten: whether a breaker is open for which nothing waits any more
    assert Counter(operation for operation, _ in faults.calls) == {"GetItem": 1, "Query": 3 + looks}
    faults.calls.clear()
    world.wait(60)
    world.tick(services)
    assert Counter(operation for operation, _ in faults.calls) == {"GetItem": 1, "Query": 3}
