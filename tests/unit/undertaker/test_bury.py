"""The undertaker: what dies is on the list, once, whatever crashes, fails or comes twice."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from quarterjack import Run, RunState
from quarterjack.domain.message import UNREADABLE, DeadLetter, encode_letter
from quarterjack.domain.names import parse_run_id
from quarterjack.state.lease import succeed
from quarterjack.testing import Crash, Hook
from quarterjack.testing.process import bury_all
from quarterjack.undertaker.bury import bury_one

from tests.support.scenes.dead_runs import (
    a_world,
    bury_again,
    crash_everywhere,
    die_before_settling,
    die_of_failure,
    die_of_poison,
    die_settled,
    listed,
)
from tests.support.scenes.world import Faults, World, fails

Death = Callable[[World], Run]
ALL = (die_of_failure, die_before_settling, die_settled, die_of_poison)


@pytest.mark.parametrize("death", ALL)
def test_what_dies_is_on_the_list(death: Death) -> None:
    world = a_world()
    run = death(world)
    bury_all(world.services, world.clock)
    (dead,) = listed(world)
    now = world.scheduler.get_run(run.id)
    assert (dead.id, dead.job, dead.ended_at, dead.attempts) == (run.id, "hopeless", now.ended_at, 1)
    assert (dead.reason, dead.error_type, dead.error) == (now.reason, now.error_type, now.error)
    assert now.state is RunState.DEAD
    assert len(world.memory.dead) == 0


def test_what_sqs_moved_is_recorded_with_that_reason() -> None:
    world = a_world()
    die_of_poison(world)
    bury_all(world.services, world.clock)
    (dead,) = listed(world)
    assert (dead.reason, dead.error_type) == ("received too often by SQS and returned 3 times", None)


def test_what_sqs_moved_too_early_goes_back_three_times() -> None:
    """A run that nobody holds and that has attempts left was never tried: its workers may have been away, or too old for it."""
    world = a_world()
    run = world.scheduler.submit("hopeless")
    for returned in range(1, 4):
        (delivery,) = world.services.work.receive(most=1, wait=0, visibility=30)
        world.services.work.delete(delivery.receipt)
        world.memory.dead.put(delivery.body)
        bury_all(world.services, world.clock)
        assert [message.returned for message in world.memory.messages()] == [returned]
        world.wait(60)
    assert listed(world) == []
    world.work()
    bury_all(world.services, world.clock)
    assert [dead.id for dead in listed(world)] == [run.id]


def test_what_the_workers_release_could_not_read_and_ours_can_goes_back() -> None:
    """Its reason is no verdict on the run: a worker of our release may do it."""
    world = a_world()
    world.scheduler.submit("hopeless")
    (delivery,) = world.services.work.receive(most=1, wait=0, visibility=30)
    world.services.work.delete(delivery.receipt)
    world.services.dead.send(DeadLetter(body=delivery.body, reason="unreadable: by this release", state=UNREADABLE))
    bury_all(world.services, world.clock)
    assert [message.returned for message in world.memory.messages()] == [1]
    assert listed(world) == []


def test_a_letter_that_cannot_be_sent_back_stays() -> None:
    world = a_world()
    world.scheduler.submit("hopeless")
    (delivery,) = world.services.work.receive(most=1, wait=0, visibility=30)
    world.services.work.delete(delivery.receipt)
    world.memory.dead.put(delivery.body)
    bury_all(world.process(Faults().at("send", throttle={0}, times=None)), world.clock)
    assert (len(world.memory.dead), len(world.memory.work)) == (1, 0)
    bury_again(world)
    assert (len(world.memory.dead), len(world.memory.work)) == (0, 1)


def test_what_sqs_moved_of_a_run_that_ended_is_dropped() -> None:
    world = a_world()
    run = world.scheduler.submit("note")
    (message,) = world.memory.messages()
    world.work()
    world.memory.dead.put(message.encode())
    assert bury_all(world.services, world.clock) == 1
    assert listed(world) == []
    assert world.scheduler.get_run(run.id).state is RunState.SUCCEEDED


def test_an_undertaker_that_was_away_changes_no_time_of_death() -> None:
    world = a_world()
    die_of_failure(world)
    died = world.now()
    world.wait(3 * 86_400)
    bury_all(world.services, world.clock)
    assert listed(world) == []
    (dead,) = listed(world, since=died)
    assert dead.ended_at == died


@pytest.mark.parametrize("death", ALL)
def test_a_crash_at_any_call_loses_nothing_and_lists_nothing_twice(death: Death) -> None:
    def act(hook: Hook, survived: Callable[[], None]) -> None:
        world = a_world()
        run = death(world)
        undertaker = world.process(hook)
        try:
            bury_all(undertaker, world.clock)
            survived()
        except Crash:
            bury_again(world)
        assert [dead.id for dead in listed(world)] == [run.id]
        assert len(world.memory.dead) == 0

    assert crash_everywhere(act) == 2 * 5  # receive, read, bury, index, delete


@pytest.mark.parametrize("death", ALL)
@pytest.mark.parametrize("verb", ["read", "bury", "index", "delete"])
def test_an_undertaker_that_fails_leaves_the_letter(death: Death, verb: str) -> None:
    world = a_world()
    run = death(world)
    undertaker = world.process(Faults().at(verb, before=fails, times=None))
    for _ in range(3):
        bury_all(undertaker, world.clock)
        assert len(world.memory.dead) == 1
        assert len(listed(world)) == (verb == "delete")
        world.wait(360)
    bury_all(world.services, world.clock)
    assert [dead.id for dead in listed(world)] == [run.id]
    assert len(world.memory.dead) == 0


@pytest.mark.parametrize("verb", ["bury", "index"])
def test_a_lost_answer_is_no_second_death(verb: str) -> None:
    world = a_world()
    die_of_failure(world)
    undertaker = world.process(Faults().at(verb, after=fails))
    (letter,) = undertaker.dead.receive(most=10, wait=0)
    assert bury_one(letter, undertaker, world.clock).action == "recorded"
    assert len(listed(world)) == 1


def test_a_letter_that_comes_twice_is_reported_once() -> None:
    world = a_world()
    die_of_failure(world)
    (letter,) = world.services.dead.receive(most=10, wait=0)
    assert bury_one(letter, world.services, world.clock).action == "recorded"
    world.wait(1)
    assert bury_one(letter, world.services, world.clock).action == "dropped"
    assert len(listed(world)) == 1


def test_several_verdicts_on_one_attempt_are_one_death() -> None:
    """A worker that cannot settle sends its verdict, and so does the next one that finds no attempt left."""
    world = a_world()
    die_before_settling(world)
    (first,) = list(world.memory.dead)
    world.wait(7)
    world.memory.dead.put(first.body.replace('"failed"', '"worker vanished in the last attempt"'))
    bury_all(world.services, world.clock)
    assert [dead.reason for dead in listed(world)] == ["failed"]


def test_two_undertakers_with_one_letter_put_one_line() -> None:
    world = a_world()
    die_of_failure(world)
    (letter,) = world.services.dead.receive(most=10, wait=0)
    other: list[str] = []

    def meanwhile() -> None:
        other.append(bury_one(letter, world.services, world.clock).action)

    slow = world.process(Faults().at("index", before=meanwhile))
    mine = bury_one(letter, slow, world.clock).action
    assert (mine, other) == ("recorded", ["recorded"])  # each did a part of it
    assert len(listed(world)) == 1


def test_a_verdict_that_is_no_longer_needed_lists_nothing() -> None:
    world = a_world()
    run = die_before_settling(world)
    to = succeed(fence=1, now=world.clock(), expires=world.clock() + world.retention)
    world.services.ledger.move(parse_run_id(run.id), to)
    assert bury_all(world.services, world.clock) == 1
    assert listed(world, include_redriven=True) == []


def test_a_letter_about_no_run_at_all_is_dropped() -> None:
    world = a_world()
    run = die_before_settling(world)
    (letter,) = list(world.memory.dead)
    world.memory.dead.put(letter.body.replace(run.id, "acme/~other#once"))
    world.memory.dead.put(encode_letter(DeadLetter(body="{}", reason="?")))
    world.memory.dead.put("garbage")
    assert bury_all(world.services, world.clock) == 4
    assert [dead.id for dead in listed(world)] == [run.id]


def test_a_letter_that_comes_again_after_its_run_was_redriven_does_not_unmark_it() -> None:
    world = a_world()
    run = die_of_failure(world)
    undertaker = world.process(Faults().at("delete", before=fails, times=None))
    bury_all(undertaker, world.clock)
    world.scheduler.redrive(run.id)
    assert bury_again(world) == 1
    assert listed(world) == []
    assert len(listed(world, include_redriven=True)) == 1


WRITES = ("UpdateItem", "PutItem", "DeleteItem", "BatchWriteItem", "TransactWriteItems", "BatchExecuteStatement")


def test_only_the_dead_pay() -> None:
    """A dead run costs the undertaker two writes: the run's row and its line. What lives costs it nothing."""
    world, undertaker = a_world(), Faults()
    world.scheduler.submit("note")
    die_of_failure(world)
    bury_all(world.process(undertaker), world.clock)
    assert [detail.verb for operation, detail in undertaker.calls if operation in WRITES] == ["bury", "index"]


@pytest.mark.parametrize("death", ALL[:3])
def test_a_verdict_of_another_release_is_recorded(death: Death) -> None:
    """It could read the message that this one cannot."""
    world = a_world()
    run = death(world)
    (letter,) = list(world.memory.dead)
    (received,) = world.services.dead.receive(most=10, wait=0)
    world.services.dead.delete(received.receipt)
    world.memory.dead.put(letter.body.replace('{\\"v\\":2', '{\\"v\\":1'))
    bury_all(world.services, world.clock)
    assert [dead.id for dead in listed(world)] == [run.id]


def test_what_is_logged_of_an_unreadable_letter_tells_no_secret(caplog: pytest.LogCaptureFixture) -> None:
    world = a_world()
    world.memory.dead.put('{"v":1,"run":7,"payload":{"password":"hush-0123"}}')
    bury_all(world.services, world.clock)
    logged = caplog.text + repr([vars(record) for record in caplog.records])
    assert "letter.unreadable" in logged
    assert "hush" not in logged
