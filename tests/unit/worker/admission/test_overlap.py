"""Overlap policies, told as stories: what happens when a run is due while another still goes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from quarterjack import Context, Rule, RunState
from quarterjack.domain.names import RunRef
from quarterjack.domain.options import OverlapWord
from quarterjack.domain.run import TERMINAL, EntryKind
from quarterjack.domain.times import DAY, MINUTE, SECOND
from quarterjack.fires.claim import message_of
from quarterjack.ports.queues import OutgoingMessage
from quarterjack.state.lease import renew, succeed
from quarterjack.state.overlap import TURNS, Turns
from quarterjack.testing import Crash, Detail
from quarterjack.testing.process import Hand, work_off
from quarterjack.worker.admission.turns import read_turns
from quarterjack.worker.delivery.receive import receive
from quarterjack.worker.delivery.visibility import HIDDEN

from tests.support.scenes.overlapping_runs import OverlappingRuns
from tests.support.scenes.world import NOON, OWNER, Faults, World, crash, fails

SUCCEEDED, SKIPPED, CANCELLED, QUEUED = "SUCCEEDED", "SKIPPED", "CANCELLED", "QUEUED"


def states(crowd: OverlappingRuns, upto: int) -> list[str]:
    return [state for second, state in crowd.states().items() if second <= upto]


def turns_of(world: World) -> Turns:
    record = world.services.records.read(OWNER, TURNS)
    return Turns() if record is None else Turns.of(record.body)


# The policies. Runs take 25 s and are due every 10 s.


def test_runs_may_overlap_unless_their_owner_says_otherwise() -> None:
    crowd = OverlappingRuns().until(40)
    assert crowd.most > 1
    assert turns_of(crowd.world) == Turns()


def test_skip() -> None:
    crowd = OverlappingRuns(overlap="skip").until(61)
    assert crowd.began() == {10: 10, 40: 40}
    assert states(crowd, 60) == [SUCCEEDED, SKIPPED, SKIPPED, SUCCEEDED, SKIPPED, SKIPPED]
    assert crowd.reason(20) == "overlap: the run of 2026-05-04T12:00:10Z still goes"


def test_buffer_one() -> None:
    crowd = OverlappingRuns(overlap="buffer_one").until(60)
    assert crowd.began() == {10: 10, 20: 35}
    assert states(crowd, 50) == [SUCCEEDED, SUCCEEDED, SKIPPED, QUEUED, SKIPPED]
    assert crowd.reason(40) == "waits for the run of 2026-05-04T12:00:20Z to end"
    assert "and the run of 2026-05-04T12:00:20Z waits already" in crowd.reason(30)


def test_buffer_all_in_the_order_of_time() -> None:
    crowd = OverlappingRuns(overlap="buffer_all").until(100)
    assert crowd.began() == {10: 10, 20: 35, 30: 60, 40: 85}
    assert set(states(crowd, 100)) == {SUCCEEDED, QUEUED}
    assert crowd.most == 1


def test_a_line_has_an_end() -> None:
    crowd = OverlappingRuns(overlap="buffer_all", buffer=2).until(59)
    assert crowd.began() == {10: 10, 20: 35}
    assert states(crowd, 50) == [SUCCEEDED, SUCCEEDED, QUEUED, QUEUED, SKIPPED]
    assert crowd.reason(50) == "overlap: the run of 2026-05-04T12:00:20Z still goes, and 2 runs wait already"


def test_cancel_other() -> None:
    """It sees its cancellation at its heartbeat, and the latest of those that came meanwhile goes."""
    crowd = OverlappingRuns(45, overlap="cancel_other", expression="rate(15 seconds)").until(46)
    assert crowd.began() == {15: 15, 30: 41}
    assert states(crowd, 30) == [CANCELLED, CANCELLED]
    assert crowd.most == 1


def test_a_waiting_run_gives_its_place_to_a_newer_one() -> None:
    crowd = OverlappingRuns(18, overlap="cancel_other", expression="rate(5 seconds)").until(18)
    assert states(crowd, 10)[1] == CANCELLED
    assert crowd.reason(10) == "overlap: the run of 2026-05-04T12:00:15Z, a later one, is in its place"


def test_terminate_other() -> None:
    crowd = OverlappingRuns(overlap="terminate_other").until(40)
    assert crowd.began() == {10: 10, 20: 20, 30: 30}
    assert states(crowd, 30) == [CANCELLED, CANCELLED, SUCCEEDED]
    assert crowd.reason(10) == "overlap: the run of 2026-05-04T12:00:20Z, a later one, is in its place"


def test_max_running_with_ten_due_at_once() -> None:
    world, going = ten_due(max_running=3), list[int]()
    world.during = lambda _: going.append(running(world))
    world.live(300)
    assert max(going) <= 3
    assert world.began() == [10 * n for n in range(1, 11)]


def ten_due(**options: Any) -> World:
    """Nobody worked while ten fires became due."""
    world = World()
    world.scheduler.create_schedule("s", "note", every_ten_seconds(10), **options)
    world.tick()
    world.wait(100)
    return world


def every_ten_seconds(times: int) -> Rule:
    return Rule(expression="rate(10 seconds)", max_fires=times)


def running(world: World) -> int:
    return sum(run.state is RunState.RUNNING for run in world.memory.runs(OWNER))


def test_ten_due_at_once_and_all_stay() -> None:
    """Three go, and die with their workers; the others never find room until leases have run out."""
    world = ten_due(max_running=3)
    world.during = _dies
    for _ in range(10):
        one_message(world, name=f"w{_}")
    assert running(world) == 3
    assert [len(turns_of(world).holders), len(turns_of(world).waiting)] == [3, 7]
    world.during = lambda ctx: None
    world.live(300)
    assert {run.state for run in world.memory.runs(OWNER)} == {RunState.SUCCEEDED}


def _dies(ctx: Context) -> None:
    raise Crash


def one_message(world: World, hook: Faults | None = None, name: str = "w") -> None:
    """A worker takes one message; it may die of it."""
    try:
        Hand(worker=world.worker(hook, name=name)).work(most=1)
    except Crash:
        return


# A line, and who looks after it.


def test_who_waits_has_no_message_and_one_entry_in_the_agenda() -> None:
    world = ten_due(overlap="buffer_all")
    world.during = _dies
    for _ in range(10):
        one_message(world)
    assert len(world.memory.work) == 1  # of the run whose worker died
    assert len(world.entries(EntryKind.TURN)) == 9
    for _ in range(3):
        world.wait(60)
        world.tick()
    assert len(world.entries(EntryKind.TURN)) == 1


def test_whoever_is_done_sends_for_the_next_at_once() -> None:
    world = ten_due(overlap="buffer_all")
    world.work()
    assert world.began() == [10 * n for n in range(1, 11)]
    assert world.clock() - NOON < 101 * SECOND


def test_nothing_is_left_in_the_agenda_when_nobody_waits() -> None:
    world = ten_due(overlap="buffer_all")
    world.live(400)
    assert not world.entries(EntryKind.TURN)


def test_a_run_that_ended_elsewhere_is_found_by_the_ticker() -> None:
    """Its owner cancelled it while it waited for its next attempt: no worker was there to send for the next."""
    world = World()
    world.scheduler.create_schedule("s", "bad", every_ten_seconds(2), overlap="buffer_all")
    world.wait(20)
    world.work()
    assert [run.state for run in world.memory.runs(OWNER)] == [RunState.RETRYING, RunState.QUEUED]
    world.scheduler.cancel_run(str(world.run(10).ref))
    world.live(180)
    assert world.run(20).started_at is not None
    assert world.run(20).started_at < NOON + 20 * SECOND + 2 * MINUTE + 20 * SECOND  # type: ignore[operator]


def test_a_queue_of_cancelled_runs_is_passed() -> None:
    world = ten_due(overlap="buffer_all")
    world.during = _dies
    for _ in range(10):
        one_message(world)
    for second in range(20, 91, 10):
        world.scheduler.cancel_run(str(world.run(second).ref))
    world.during = lambda ctx: None
    world.live(300)
    assert world.began()[-2:] == [10, 100]


def test_a_duplicate_of_a_waiting_run_changes_nothing() -> None:
    world = ten_due(overlap="buffer_all")
    world.during = _dies
    for _ in range(10):
        one_message(world)
    before = turns_of(world)
    again = message_of(world.run(50), world.services)
    assert again is not None
    world.services.work.send([OutgoingMessage(again, 0)] * 3)
    one_message(world)
    one_message(world)
    one_message(world)
    assert turns_of(world) == before
    assert len(world.memory.work) == 1


@pytest.mark.parametrize("beats", [0, 5])
def test_a_run_that_was_put_in_line_survives_a_worker_that_leases_it_by_a_message_that_is_gone(beats: int) -> None:
    """The worker stalls for longer than its message is hidden; meanwhile another one puts the run in line and deletes the message."""
    world = two_due("buffer_all")
    world.during = _dies
    one_message(world)
    first = world.run(10).ref
    stalled = world.worker(name="stalled")
    received = receive(stalled, stalled.services.work.receive(most=1, wait=0, visibility=HIDDEN))
    for _ in range(2):
        world.wait(40)
        assert world.services.ledger.move(first, renew(fence=1, now=world.clock())).applied
    for _ in range(2):
        one_message(world, name="other")
    assert [len(turns_of(world).waiting), len(world.memory.work)] == [1, 1], "a message of the first alone"
    now = world.clock()
    assert world.services.ledger.move(first, succeed(fence=1, now=now, expires=now + DAY)).applied
    with pytest.raises(Crash):
        work_off(stalled, received)
    assert world.run(20).state is RunState.RUNNING
    world.during = lambda ctx: None
    for _ in range(beats):  # it lives for a while, and the ticker looks at the line meanwhile
        world.live(40)
        assert world.services.ledger.move(world.run(20).ref, renew(fence=1, now=world.clock())).applied
    world.live(400)
    assert world.run(20).state is RunState.SUCCEEDED
    assert not world.entries(EntryKind.TURN)


def test_a_run_whose_payload_left_the_bucket_is_dead_and_holds_up_nobody() -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", every_ten_seconds(2), overlap="skip")
    gone = world.scheduler.trigger("s", payload="a" * 70_000)
    key = world.services.ledger.read(RunRef(*gone.id.split("#"))).payload_ref  # type: ignore[union-attr]
    world.services.payloads.remove([str(key)])
    world.live(120)
    found = world.scheduler.get_run(gone.id)
    assert (found.state, found.reason, found.payload) == (RunState.DEAD, "payload missing", None)
    assert found.error is not None
    assert "the bucket has no such object" in found.error
    assert set(world.began()) == {10, 20}


def test_the_deadline_of_a_waiting_run_ends_its_wait() -> None:
    """Without anybody making room for it."""
    world = ten_due(overlap="buffer_all", deadline=150.0)
    world.during = lambda ctx: _hold(world, ctx)
    world.live(20)
    assert {run.state for run in world.memory.runs(OWNER)} == {RunState.SUCCEEDED, RunState.EXPIRED}
    assert world.began() == [10]


def test_a_run_waits_for_its_turn_until_its_deadline_counted_from_when_it_was_due() -> None:
    world = ten_due(overlap="buffer_all", deadline=150.0)
    world.during = _dies
    for number in range(3):
        one_message(world, name=f"w{number}")
    waiting = read_turns(OWNER, world.services).turns.waiting
    assert waiting
    assert all(each.until == int(each.holder.key) + 150 * SECOND for each in waiting)


def _hold(world: World, ctx: Context) -> None:
    """Six minutes of work with heartbeats; the ticker ticks."""
    for _ in range(6):
        for _ in range(3):
            world.wait(20)
            world.services.ledger.move(world.run(10).ref, renew(fence=1, now=world.clock()))
        world.tick()
        Hand(worker=world.worker()).work()


# Owners change their minds.


def test_pause_takes_back_what_waits() -> None:
    world = ten_due(overlap="buffer_all")
    world.during = _dies
    for _ in range(10):
        one_message(world)
    world.scheduler.pause_schedule("s")
    world.during = lambda ctx: None
    world.live(300)
    assert [state for _, state in world.states()] == [RunState.SUCCEEDED, *[RunState.CANCELLED] * 9]
    assert not world.entries(EntryKind.TURN)


def test_runs_of_the_schedule_go_again_after_a_resume() -> None:
    crowd = OverlappingRuns(overlap="buffer_all").until(30)
    crowd.world.scheduler.pause_schedule("s")
    crowd.world.scheduler.resume_schedule("s")
    crowd.until(120)
    assert crowd.most == 1
    assert len([second for second in crowd.began() if second > 40]) >= 2


def test_a_new_policy_counts_what_the_old_one_let_go() -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "rate(10 seconds)")
    world.wait(20)
    world.during = _dies
    one_message(world)
    one_message(world)
    assert running(world) == 2
    world.during = lambda ctx: None
    world.scheduler.update_schedule("s", overlap="skip")
    world.wait(10)
    one_message(world)  # of the old revision: refused
    one_message(world)
    assert world.run(30).state is RunState.SKIPPED
    assert "and 1 more still goes" in (world.run(30).reason or "")
    world.live(120)
    assert world.run(10).state is world.run(20).state is RunState.SUCCEEDED
    assert world.run(150).state is RunState.SUCCEEDED


def test_who_waits_goes_on_by_the_policy_under_which_it_came() -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "rate(10 seconds)", overlap="buffer_all")
    world.wait(100)
    world.during = _dies
    for _ in range(10):
        one_message(world)
    world.scheduler.update_schedule("s", overlap="allow")
    world.during = lambda ctx: None
    world.live(200)
    assert [second for second in world.began() if second <= 100] == [10, *range(10, 101, 10)]


def test_more_room_is_used_from_the_next_run_on() -> None:
    crowd = OverlappingRuns(45, overlap="buffer_all").until(25)
    crowd.world.scheduler.update_schedule("s", max_running=3)
    crowd.until(180)
    assert crowd.most == 3


@pytest.mark.parametrize("policy", ["buffer_all", "skip"])
def test_a_lost_record_is_made_anew(policy: str) -> None:
    """An operator's mistake: a run that is under way is still the only one, and one that waits is found by the auditor."""
    world = ten_due(overlap=policy)
    world.during = _dies
    for _ in range(10):
        one_message(world)
    record = world.services.records.read(OWNER, TURNS)
    assert record is not None
    world.services.records.remove(record)
    world.during = lambda ctx: None
    world.live(100)
    world.wait(3 * 3_600)
    world.audit(segments=1)
    world.live(100)
    assert not [run for run in world.memory.runs(OWNER) if run.state not in TERMINAL]


# Whoever vanishes.


def test_a_holder_whose_worker_died_holds_until_it_has_run() -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "rate(10 seconds)", overlap="skip")
    world.wait(10)
    world.during = _dies
    one_message(world)
    world.during = lambda ctx: None
    world.live(85)
    assert world.began() == [10, 10, 90]
    assert [state for second, state in world.states() if 10 < second < 90] == [RunState.SKIPPED] * 7


def test_a_lost_run_makes_room() -> None:
    """At most once: its worker vanished, and it is never run again."""
    world = World()
    world.scheduler.create_schedule("s", "once", every_ten_seconds(2), overlap="buffer_all")
    world.wait(20)
    world.during = _dies
    one_message(world)
    one_message(world)
    world.during = lambda ctx: None
    world.live(300)
    assert world.states() == [(10, RunState.LOST), (20, RunState.SUCCEEDED)]


def test_a_run_that_waits_for_its_next_attempt_still_goes() -> None:
    world = World()
    world.scheduler.create_schedule("s", "bad", "rate(4 seconds)", overlap="skip")
    world.live(8)
    assert [world.run(4).state, world.run(8).state] == [RunState.RETRYING, RunState.SKIPPED]


def test_a_terminated_worker_writes_nothing_more() -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "rate(10 seconds)", overlap="terminate_other")
    world.wait(10)

    def until_the_next(ctx: Context) -> None:
        if len(world.started) == 1:
            world.wait(10)
            world.work()

    world.during = until_the_next
    (outcome,) = Hand(worker=world.worker()).work(most=1)
    assert (outcome.action, outcome.why) == ("lost", "lease_lost")
    assert world.states()[:2] == [(10, RunState.CANCELLED), (20, RunState.SUCCEEDED)]


# Races.


def two_due(policy: OverlapWord) -> World:
    world = World()
    world.scheduler.create_schedule("s", "note", every_ten_seconds(2), overlap=policy)
    world.wait(20)
    return world


class Between(Faults):
    """Something happens before call number ``number``; all along no two runs hold a lease."""

    def __init__(self, world: World, number: int, action: Callable[[], object]) -> None:
        super().__init__()
        self.world, self.number, self.action = world, number, action
        self.happened = False

    def before_call(self, operation: str, detail: Detail) -> Any:
        self.number -= 1
        if self.number < 0 and not self.happened:
            self.happened = True
            self.action()
        return super().before_call(operation, detail)

    def after_call(self, operation: str, detail: Detail) -> None:
        assert running(self.world) <= 1, f"two at {detail.verb}"
        super().after_call(operation, detail)


POLICIES = ["skip", "buffer_one", "buffer_all", "cancel_other", "terminate_other"]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("dies", [False, True])
def test_two_workers_race_for_the_turn(policy: OverlapWord, dies: bool) -> None:
    """B comes before each call of A in turn, and is done, or dies in its job, before A goes on."""
    for number in range(40):
        world = two_due(policy)
        hook = Between(world, number, lambda world=world: _b(world, dies))  # type: ignore[misc]
        one_message(world, hook, name="A")
        world.during = lambda ctx: None
        world.live(300)
        assert {run.state for run in world.memory.runs(OWNER)} <= {
            RunState.SUCCEEDED,
            RunState.SKIPPED,
            RunState.CANCELLED,
        }
        assert len(world.began()) >= 1
        if policy == "buffer_all":
            assert set(world.began()) == {10, 20}
        if not hook.happened:
            return
    raise AssertionError("A never comes to its end")


def _b(world: World, dies: bool) -> None:
    if dies:
        world.during = _dies
    one_message(world, name="B")
    world.during = lambda ctx: None


def test_who_finds_the_turn_written_by_others_again_and_again_comes_back() -> None:
    world = two_due("buffer_all")

    def somebody_writes() -> None:
        record = world.services.records.read(OWNER, TURNS)
        assert record is not None
        world.services.records.write(replace(record, version=record.version + 1))

    one_message(world)
    world.during = _dies
    hook = Faults().at("write_record", before=somebody_writes, times=None)
    one_message(world, hook)
    assert world.states()[1] == (20, RunState.QUEUED)
    assert [message.run.key for message in world.memory.messages()] == [world.run(20).ref.key]
    world.during = lambda ctx: None
    world.live(10)
    assert set(world.began()) == {10, 20}


@pytest.mark.parametrize("verb", ["record", "write_record", "look", "wait_for_turn", "put", "erase", "pass_over"])
@pytest.mark.parametrize("policy", POLICIES)
def test_a_service_that_is_away_loses_nobody(policy: OverlapWord, verb: str) -> None:
    world = two_due(policy)
    world.during = _dies
    one_message(world, name="first")
    world.during = lambda ctx: None
    one_message(world, Faults().at(verb, before=fails, times=None), name="second")
    one_message(world, Faults().at(verb, after=crash), name="third")
    world.live(400)
    assert all(run.state in TERMINAL for run in world.memory.runs(OWNER))


# What it costs.


def calls_of(world: World) -> list[str]:
    faults = Faults()
    one_message(world, faults)
    return [verb for verb in faults.verbs() if verb not in ("receive", "revisions", "erase", "layout")]


def test_a_schedule_whose_runs_may_overlap_pays_nothing() -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "rate(10 seconds)")
    world.wait(10)
    assert calls_of(world) == ["lease", "succeed"]


@pytest.mark.parametrize("policy", POLICIES)
def test_an_exclusive_run_that_meets_nobody_pays_three_reads_and_a_write(policy: OverlapWord) -> None:
    world = two_due(policy)
    assert calls_of(world) == [
        "record",
        "latest",
        "write_record",
        "lease",
        "succeed",
        "record",
    ]  # the first of its revision
    assert calls_of(world) == ["record", "look", "write_record", "lease", "succeed", "record"]


def test_a_run_that_is_skipped_pays_two_reads_and_a_write() -> None:
    world = two_due("skip")
    world.during = _dies
    one_message(world)
    assert calls_of(world) == ["record", "look", "pass_over"]


def test_a_run_that_waits_pays_three_writes_and_whoever_sends_for_it_one() -> None:
    world = two_due("buffer_all")
    waited = list[str]()

    def meanwhile(ctx: Context) -> None:
        if len(world.started) == 1:
            waited.extend(calls_of(world))

    world.during = meanwhile
    assert calls_of(world)[-6:] == ["succeed", "record", "look", "write_record", "look", "send"]
    assert waited == ["record", "look", "write_record", "wait_for_turn", "put"]
    assert calls_of(world) == ["record", "lease", "succeed", "record"]
