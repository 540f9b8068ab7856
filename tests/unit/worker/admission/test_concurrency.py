"""Concurrency caps: live leases never exceed them, whoever dies or stalls, and who waits comes in turn."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pytest
from quarterjack import Scheduler
from quarterjack.auditor.repairs import resend
from quarterjack.domain.message import decode
from quarterjack.domain.run import EntryKind, Failure, RunState
from quarterjack.domain.times import MINUTE, SECOND
from quarterjack.state.lease import LEASE, SKEW
from quarterjack.state.tenants.caps import EVERYBODY, ConcurrencyCap
from quarterjack.state.tenants.permits import HELD, SENT
from quarterjack.testing import Crash
from quarterjack.worker.delivery.receive import partition_batch, receive
from quarterjack.worker.delivery.visibility import HIDDEN
from quarterjack.worker.execution.settle import release_run
from quarterjack.worker.pipeline import run_batch
from quarterjack.worker.stages import Failed

from tests.support.scenes.capped import ACME, Capped
from tests.support.scenes.world import Faults, crash, fails

OF_NOTE = ConcurrencyCap(tenant="acme", job="note", most=None)


def test_no_more_runs_have_leases_than_the_cap_says_and_all_of_them_come_in_turn() -> None:
    world = Capped()
    hands = [world.hand(f"w{n}") for n in range(2)]
    ids = world.submit(20)
    for _ in range(40):
        world.take_all(*(worker for worker, _ in hands))
        assert world.live() == min(3, 20 - world.ended()["SUCCEEDED"])
        assert world.live() + world.waiting() + world.ended()["SUCCEEDED"] == 20, "nobody is lost"
        for _, jobs in hands:
            jobs.end()
    assert world.ended() == {"SUCCEEDED": 20}
    started = sorted(world.memory.runs(None), key=lambda run: run.started_at or 0)
    assert {str(run.ref) for run in started} == set(ids)
    assert (world.permits().held, world.permits().sent, world.waiting()) == ({}, {}, 0)


def test_a_run_of_the_queue_is_sent_once_and_its_turn_is_by_the_time_at_which_it_was_due() -> None:
    world = Capped(limits={"concurrent_runs": 1})
    worker, jobs = world.hand("w")
    for _ in range(5):
        world.scheduler.submit("note")
        world.wait(1)
    sent = Faults()
    worker, jobs = world.hand("w", sent)
    order = []
    for _ in range(5):
        world.take_all(worker)
        order += [each.run.due for each, _ in jobs.going]
        jobs.end()
    assert order == sorted(order)
    assert len(order) == 5
    assert sent.verbs().count("send") == 4, "one message for each that waited, and no more"


@pytest.mark.parametrize("cap", [1, 3])
def test_a_worker_that_dies_leaves_its_permits_to_others_when_its_leases_are_over(cap: int) -> None:
    world = Capped(limits={"concurrent_runs": cap})
    dead, _ = world.hand("dead")
    other, jobs = world.hand("other")
    world.submit(6)
    world.take(dead)
    assert world.live() == cap
    world.take_all(other)
    assert (len(jobs.going), world.waiting()) == (0, 6 - cap)
    leased = world.clock()
    while world.clock() < leased + HELD + SKEW + 3 * MINUTE:
        world.wait(5)
        if world.clock() % MINUTE == 0:
            world.tick()
        world.take_all(other)
        world.beat(other, seconds=0)
        assert world.live() <= cap
        if jobs.going:
            assert world.clock() >= leased + LEASE + SKEW
    assert len(jobs.going) == cap
    for _ in range(8):
        jobs.end(9)
        world.take_all(other)
    assert world.ended() == {"SUCCEEDED": 6}


def test_a_worker_that_stalls_and_comes_back_has_no_permits_that_others_have() -> None:
    world = Capped(limits={"concurrent_runs": 2})
    stalled, old = world.hand("stalled")
    other, jobs = world.hand("other")
    world.submit(4)
    world.take(stalled, most=2)
    world.wait((HELD + SKEW) // SECOND + 1)
    world.take_all(other)
    assert (world.live(), len(jobs.going)) == (2, 2)
    stalled.heartbeat.beat(world.clock())
    assert {name.partition("~")[0] for name in world.permits().held} == {"other"}, "what it had is another's"
    old.end(2)
    world.take_all(stalled)
    assert (world.live(), len(old.going)) == (2, 0), "it neither renews nor gives back what is another's"
    while jobs.going:
        jobs.end()
        world.take_all(other)
        assert world.live() <= 2
    assert world.ended() == {"SUCCEEDED": 4}


def test_no_lease_is_renewed_whose_permits_could_not_be() -> None:
    world, faults = Capped(limits={"concurrent_runs": 1}), Faults()
    worker, jobs = world.hand("w", faults)
    world.submit(1)
    world.take(worker)
    (until,) = {run.lease_until or 0 for run in world.memory.runs(None)}
    faults.at("write_record", before=fails, times=None)
    for _ in range(3):
        world.beat(worker)
        assert {run.lease_until for run in world.memory.runs(None)} == {until}
    faults.rules.clear()
    jobs.end()


def test_permits_are_renewed_before_the_leases_that_rest_on_them() -> None:
    world, faults = Capped(limits={"concurrent_runs": 1}), Faults()
    worker, jobs = world.hand("w", faults)
    world.submit(1)
    world.take(worker)
    for _ in range(20):
        faults.calls.clear()
        world.beat(worker)
        verbs = faults.verbs()
        assert verbs.index("write_record") < verbs.index("renew")
    world.take_all(worker)
    jobs.end()
    assert world.ended() == {"SUCCEEDED": 1}


def test_a_lease_is_not_taken_when_its_permit_will_be_over_before_it() -> None:
    """By a worker that stalled between the two; its message had come before, so that it asks alone."""
    world, faults = Capped(limits={"concurrent_runs": 1}), Faults()
    worker, jobs = world.hand("w", faults)
    world.submit(1)
    (came,) = world.services.work.receive(most=10, wait=0, visibility=HIDDEN)
    world.services.work.hide([came.receipt], 0)
    faults.at("write_record", after=lambda: world.wait((HELD - LEASE) // SECOND + 1))
    world.take(worker)
    assert (world.live(), jobs.going) == (0, [])
    world.wait(60)
    world.take(worker)
    assert world.live() == 1


def test_a_permit_is_given_back_only_when_the_end_of_its_run_was_recorded() -> None:
    world, faults = Capped(limits={"concurrent_runs": 1}), Faults()
    worker, jobs = world.hand("w", faults)
    other, others = world.hand("other")
    world.submit(2)
    world.take(worker, most=1)
    began = world.clock()
    faults.at("succeed", before=fails, times=None)
    jobs.end()
    assert world.permits().used() == 1, "its lease may be live"
    world.take_all(other)
    assert others.going == []
    while world.clock() < began + LEASE + SKEW:
        world.beat(worker, seconds=5)
        world.take_all(other)
        assert world.live() <= 1
    world.wait(MINUTE // SECOND * 3)
    world.tick()
    world.take_all(other)
    assert len(others.going) == 1


def test_a_lease_that_was_not_answered_keeps_its_permit_until_it_is_over() -> None:
    world, faults = Capped(limits={"concurrent_runs": 1}), Faults()
    worker, _ = world.hand("w", faults)
    other, others = world.hand("other")
    world.submit(2)
    faults.at("lease", after=fails, times=None)
    world.take(worker, most=1)
    assert (world.live(), world.permits().used()) == (1, 1)
    faults.rules.clear()
    world.take_all(other)
    assert others.going == []


def test_runs_of_a_batch_are_asked_for_together_and_given_back_together() -> None:
    """0.2 writes of permits for a run, with batches of ten, however many caps the tenant has."""
    world, faults = Capped(limits={"concurrent_runs": 50, "concurrent_runs:note": 50}), Faults()
    worker, jobs = world.hand("w", faults)
    world.submit(100)
    for _ in range(10):
        world.take(worker)
        jobs.end(10)
    assert world.ended() == {"SUCCEEDED": 100}
    assert faults.verbs().count("write_record") == 20, "of both caps together, taken and given back once for ten runs"


def test_a_tenant_without_caps_costs_no_request_more() -> None:
    calls = []
    for limits in ({"concurrent_runs": None}, {"concurrent_runs": 50}):
        world, faults = Capped(limits=limits), Faults()
        worker, jobs = world.hand("w", faults)
        world.submit(10)
        world.take(worker)
        jobs.end(10)
        calls.append(Counter(faults.verbs()))
    without, capped = calls
    assert not {verb for verb in without if "record" in verb}
    assert capped - without == {"record": 2, "write_record": 2}


def test_a_run_has_all_its_permits_or_none() -> None:
    world = Capped(limits={"concurrent_runs": 5, "concurrent_runs:note": 2})
    world.jobs.job("other")(world.note)
    worker, jobs = world.hand("w")
    world.submit(6)
    world.take_all(worker)
    assert (len(jobs.going), world.permits().used(), world.permits(OF_NOTE).used()) == (2, 2, 2), (
        "what is not used is given back"
    )
    world.submit(4, job="other")
    world.take_all(worker)
    assert Counter(each.job.name for each, _ in jobs.going) == {"note": 2, "other": 3}
    while jobs.going:
        jobs.end()
        world.take_all(worker)
        assert world.live() <= 5
        assert sum(each.job.name == "note" for each, _ in jobs.going) <= 2
    assert world.ended() == {"SUCCEEDED": 10}


def test_a_cap_of_the_installation_for_a_job_counts_all_tenants_together() -> None:
    world = Capped(limits={})
    world.tenants.set("~installation", limits={"concurrent_runs:note": 2})
    worker, jobs = world.hand("w")
    other = Scheduler("other", jobs=world.jobs, services=world.process(), clock=world.clock)
    for _ in range(3):
        other.submit("note")
    world.submit(3)
    for ended in range(6):
        world.take_all(worker)
        assert len(jobs.going) == min(2, 6 - ended)
        jobs.end()
    cap = ConcurrencyCap(tenant=EVERYBODY, job="note", most=None)
    assert world.permits(cap).used() == 0
    assert {run.ref.tenant for run in world.memory.runs(None) if run.state is RunState.SUCCEEDED} == {"acme", "other"}


@pytest.mark.parametrize(("strict", "live"), [(0, 3), (1, 0)])
@pytest.mark.parametrize("verb", ["record", "write_record"])
def test_where_permits_do_not_answer_runs_start_unless_the_cap_is_strict(strict: int, live: int, verb: str) -> None:
    world, faults = Capped(limits={"concurrent_runs": 1, "concurrency_strict": strict}), Faults()
    worker, jobs = world.hand("w", faults)
    world.submit(3)
    faults.at(verb, before=fails, times=None)
    world.take_all(worker)
    assert (world.live(), world.waiting()) == (live, 0)
    faults.rules.clear()
    jobs.end(9)
    world.wait(11)
    for _ in range(4):
        world.take_all(worker)
        jobs.end(9)
    assert world.ended() == {"SUCCEEDED": 3}


def test_a_permit_that_comes_free_while_a_run_joins_the_queue_is_not_overlooked() -> None:
    world, faults = Capped(limits={"concurrent_runs": 1}), Faults()
    first, jobs = world.hand("first")
    second, others = world.hand("second", faults)
    world.submit(2)
    world.take(first, most=1)
    faults.at("put", before=jobs.end, skip=1)  # when it has been refused, and before its entry is there
    world.take(second)
    assert world.ended()["SUCCEEDED"] == 1
    world.take_all(second)
    assert len(others.going) == 1, "without a tick"


@pytest.mark.parametrize("number", range(12))
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_worker_may_die_at_any_call_while_a_run_joins_the_queue(number: int, moment: Any) -> None:
    world, faults = Capped(limits={"concurrent_runs": 1}), Faults()
    first, jobs = world.hand("first")
    dying, _ = world.hand("dying", faults)
    world.submit(2)
    world.take(first, most=1)
    strikes = itertools.count()

    def strike() -> None:
        if next(strikes) == number:
            crash()

    for verb in ("record", "write_record", "put", "erase", "hide", "look", "due", "remove", "send"):
        faults.at(verb, times=None, **{moment: strike})
    try:
        world.take(dying)
    except Crash:
        dying.heartbeat.all()
    third, others = world.hand("third")
    jobs.end()
    for _ in range(8):
        world.wait(60)
        world.tick()
        world.take_all(third)
        assert world.live() <= 1
        others.end(9)
    assert world.ended() == {"SUCCEEDED": 2}
    assert (world.waiting(), world.permits().used()) == (0, 0)


@pytest.mark.parametrize("verb", ["write_record", "send", "remove"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_whoever_dies_while_it_sends_for_the_next_run_leaves_that_to_the_ticker(verb: str, moment: Any) -> None:
    world, faults = Capped(limits={"concurrent_runs": 1}), Faults()
    dying, jobs = world.hand("dying", faults)
    world.submit(3)
    world.take_all(dying)
    faults.at(verb, **{moment: crash})
    with pytest.raises(Crash):
        jobs.end()
    other, others = world.hand("other")
    for _ in range(8):
        world.wait(60)
        world.tick()
        world.take_all(other)
        assert world.live() <= 1
        others.end(9)
    assert world.ended() == {"SUCCEEDED": 3}
    world.wait(300)
    world.tick()
    assert (world.waiting(), world.timers(), world.permits().used()) == (0, 0, 0)


def test_whoever_stalls_while_it_sends_for_a_run_removes_no_later_entry_of_it() -> None:
    """The run comes, finds its permit taken after all, and is in the wait queue again, when the one who sent goes on."""
    world, faults = Capped(limits={"concurrent_runs": 1}), Faults()
    slow, jobs = world.hand("slow", faults)
    other, others = world.hand("other")
    world.submit(1)
    world.take_all(slow)
    waits = world.submit(1)[0]
    world.take_all(slow)

    def meanwhile() -> None:
        world.wait(SENT // SECOND + 1)
        world.scheduler.submit("note")
        hasty, _ = world.hand("hasty")
        queue = world.services.work
        came = queue.receive(most=10, wait=0, visibility=HIDDEN)
        mine = [each for each in came if str(decode(each.body).run) != waits]
        for batch in partition_batch(hasty, receive(hasty, mine)):
            run_batch(hasty, batch)
        queue.hide([each.receipt for each in came if each not in mine], 0)
        world.take_all(other)
        assert world.waiting() == 2, "the entry that is to be removed, and the new one"

    faults.at("remove", before=meanwhile)
    jobs.end()
    assert (world.waiting(), others.going) == (1, [])
    for _ in range(4):
        world.wait(60)
        world.tick()
        world.take_all(other)
        others.end(9)
    assert world.run_of(waits).state is RunState.SUCCEEDED


def test_runs_that_were_cancelled_in_the_queue_are_not_sent_for() -> None:
    world = Capped(limits={"concurrent_runs": 1})
    worker, jobs = world.hand("w")
    ids = world.submit(30)
    world.take_all(worker)
    first = str(jobs.going[0][0].run.ref)
    last = max(set(ids) - {first})
    for each in ids:
        if each not in (first, last):
            world.scheduler.cancel_run(each)
    sent, before = Faults(), world.waiting()
    assert before == 29
    object.__setattr__(worker, "services", world.process(sent))
    jobs.end()
    assert (world.waiting(), sent.verbs().count("send")) == (0, 1)
    world.take_all(worker)
    assert [str(each.run.ref) for each, _ in jobs.going] == [last]


def test_a_run_that_expired_in_the_queue_takes_no_permit_and_keeps_none() -> None:
    world = Capped(limits={"concurrent_runs": 1})
    worker, jobs = world.hand("w")
    world.submit(1)
    world.take_all(worker)
    world.scheduler.submit("note", deadline=30)
    world.wait(1)
    world.submit(1)
    world.take_all(worker)
    for _ in range(3):
        world.beat(worker)
    jobs.end()
    world.take_all(worker)
    world.take_all(worker)
    assert world.ended() == {"SUCCEEDED": 1, "EXPIRED": 1, "RUNNING": 1}, "the next one did not wait for a tick"


def test_a_retry_gives_its_permit_to_whoever_waits_and_takes_its_turn_when_it_is_due() -> None:
    world = Capped(limits={"concurrent_runs": 1})
    worker, jobs = world.hand("w")
    failing = world.submit(1)[0]
    world.take_all(worker)
    world.submit(2)
    world.take_all(worker)
    jobs.end(result=Failed(Failure(kind="E", message="m")))
    order = []
    for _ in range(4):
        world.take_all(worker)
        world.wait(60)
        world.take_all(worker)
        order += [str(each.run.ref) for each, _ in jobs.going]
        jobs.end()
    assert (len(order), order[-1]) == (3, failing)
    assert world.ended() == {"SUCCEEDED": 3}


def test_a_cap_that_is_taken_away_lets_its_queue_go() -> None:
    world = Capped(limits={"concurrent_runs": 1})
    worker, jobs = world.hand("w")
    world.submit(150)
    world.take_all(worker)
    world.tenants.set("acme", limits={"concurrent_runs": None})
    world.wait(180)
    worker, jobs = world.hand("w")
    for _ in range(4):
        world.wait(60)
        world.tick()
        world.take_all(worker)
        jobs.end(200)
    assert world.ended() == {"SUCCEEDED": 150}
    assert world.waiting() == 0


def test_a_process_that_stops_gives_back_what_it_releases() -> None:
    world = Capped(limits={"concurrent_runs": 2})
    worker, _ = world.hand("w")
    other, jobs = world.hand("other")
    world.submit(3)
    world.take_all(worker)
    assert world.waiting() == 1
    for each in worker.heartbeat.all():
        assert release_run(worker, each)
    world.take_all(other)
    assert (world.live(), len(jobs.going)) == (2, 2)


def test_the_auditor_sends_no_run_that_waits_in_the_queue() -> None:
    world = Capped(limits={"concurrent_runs": 1})
    worker, _ = world.hand("w")
    world.submit(3)
    world.take_all(worker)
    world.wait(600)
    waiting = [run for run in world.memory.runs(None) if run.state is RunState.QUEUED]
    assert len(waiting) == 2
    world.services.agenda.remove(world.entries(EntryKind.QUEUE))
    assert not any(resend(run, world.services, world.clock) for run in waiting)
    assert not [message for message in world.memory.messages() if not message.was_queued][1:]
    assert world.timers() == 1, "and it sees that the wait queue has a timer"


def test_an_exclusive_schedule_whose_run_waits_in_the_queue_is_sent_no_more_messages() -> None:
    world = Capped(limits={"concurrent_runs": 1})
    worker, _ = world.hand("w")
    world.submit(1)
    world.take_all(worker)
    world.scheduler.create_schedule("s", "note", "* * * * *", overlap="buffer_all", buffer=50)
    for _ in range(8):
        world.beat(worker)
        world.beat(worker)
        world.beat(worker)
        world.tick()
        world.take_all(worker)
    assert world.entries(EntryKind.TURN), "whose timer looks after them"
    assert world.waiting() == 1, "of those that wait for each other, one waits in the wait queue"


def test_the_queue_that_nobody_could_join_leaves_its_messages() -> None:
    world, faults = Capped(limits={"concurrent_runs": 1}), Faults()
    worker, jobs = world.hand("w", faults)
    world.submit(2)
    faults.at("put", before=fails, times=None)
    world.take_all(worker)
    assert (len(jobs.going), world.waiting(), len(world.memory.messages())) == (1, 0, 2)
    faults.rules.clear()
    jobs.end()
    world.wait(11)
    world.take_all(worker)
    assert len(jobs.going) == 1


def test_a_request_that_fails_says_so(caplog: pytest.LogCaptureFixture) -> None:
    world, faults = Capped(limits={"concurrent_runs": 1}), Faults()
    worker, _ = world.hand("w", faults)
    world.submit(1)
    faults.at("record", before=fails, times=None)
    world.take_all(worker)
    (line,) = [line for line in caplog.records if line.getMessage() == "permits.unread"]
    assert (line.cap, line.strict) == (ACME.id, False)  # type: ignore[attr-defined]
