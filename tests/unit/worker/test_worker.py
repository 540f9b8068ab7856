"""What a worker does with a message: admit, lease, perform, settle; each message for itself, whatever happens to the others."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from quarterjack import Context, Registry, Retry, RunState
from quarterjack.domain.message import LONGEST_BODY, decode_letter
from quarterjack.domain.run import EntryKind
from quarterjack.domain.times import MINUTE, SECOND
from quarterjack.errors import Misconfigured, Unavailable
from quarterjack.ports.queues import OutgoingMessage
from quarterjack.state.lease import HEARTBEAT, LEASE, SKEW
from quarterjack.state.refusal import deaths
from quarterjack.testing import Crash
from quarterjack.testing.process import bury_all, work_off
from quarterjack.worker.admission.admit import PATIENCE
from quarterjack.worker.context import WorkerContext
from quarterjack.worker.delivery.receive import receive
from quarterjack.worker.delivery.visibility import HIDDEN
from quarterjack.worker.execution.settle import release_run

from tests.support.builders import a_message, a_one_off
from tests.support.scenes.world import NOON, START, Faults, World, at, crash, fails

RECOVERY = (LEASE + SKEW) // SECOND + 5  # seconds within which an abandoned run starts again


def submitted(job: str = "note", **options: Any) -> World:
    world = World()
    world.scheduler.submit(job, **options)
    return world


def the_run(world: World) -> Any:
    (run,) = world.memory.runs()
    return run


def dies(world: World, verb: str = "succeed", **moment: Any) -> None:
    """A worker takes the run and dies in the middle of it."""
    with pytest.raises(Crash):
        world.work(world.worker(Faults().at(verb, **(moment or {"before": crash})), name="dead"))


# The straight line.


def test_a_run_takes_one_lease_one_settlement_and_one_deletion() -> None:
    world, faults = submitted(), Faults()
    (outcome,) = world.work(world.worker(faults))
    assert [verb for verb in faults.verbs() if verb != "receive"] == ["look", "revisions", "lease", "succeed", "erase"]
    assert (outcome.gone, outcome.action, outcome.state, outcome.attempt) == (True, "settled", RunState.SUCCEEDED, 1)
    assert outcome.start_lag == 0
    assert len(world.memory.work) == 0


def test_a_run_of_a_schedule_reads_its_revision_besides() -> None:
    world, faults = World(), Faults()
    world.scheduler.create_schedule("s", "note", "* * * * *")
    world.tick()
    world.wait(180)
    assert len(world.work(world.worker(faults))) == 3
    assert faults.verbs().count("revisions") == 1, "once for all messages at hand"


def test_a_job_is_told_what_it_runs_for() -> None:
    world, seen = World(), list[Context]()
    world.during = seen.append
    world.scheduler.create_schedule("s", "note", "* * * * *", timezone="Europe/Berlin")
    world.wait(61)
    world.work()
    (ctx,) = seen
    assert isinstance(ctx, Context)
    assert (ctx.tenant, ctx.job, ctx.schedule, ctx.attempt) == ("acme", "note", "s", 1)
    assert ctx.scheduled_at.isoformat() == "2026-05-04T14:01:00+02:00"
    assert ctx.run_id == ctx.idempotency_key == str(world.run(60).ref)
    assert ctx.remaining() is None


def test_every_line_of_a_job_says_whose_it_is(caplog: pytest.LogCaptureFixture) -> None:
    world = submitted()
    world.during = lambda ctx: ctx.logger.info("hello", extra={"n": 1})
    with caplog.at_level(logging.INFO):
        world.work()
    (line,) = [record for record in caplog.records if record.getMessage() == "hello"]
    assert (line.n, line.job, line.tenant, line.run_id) == (1, "note", "acme", str(the_run(world).ref))  # type: ignore[attr-defined]
    assert {"run.started", "run.ended"} <= set(caplog.messages)


# Before its time.


def test_an_exact_run_is_held_for_its_instant() -> None:
    world = submitted(start="exact", run_at=at(30.5))
    world.wait(29)
    world.work()
    assert [start.at for start in world.started] == [NOON + 30_500]


@pytest.mark.parametrize(
    ("start", "early", "held"), [("prompt", 1.0, True), ("prompt", 1.1, False), ("exact", 2.0, True)]
)
def test_a_message_is_held_for_so_long_and_else_goes_back_for_the_rest(start: str, early: float, held: bool) -> None:
    world = submitted(start=start, run_at=at(100))
    world.services.work.send([OutgoingMessage(world.memory.messages()[0], 0)])
    world.reach(NOON + 100_000 - int(early * 1_000))
    outcomes = [(o.action, o.why) for o in world.work()]
    assert (("postponed", "not_due") not in outcomes) == held
    world.live(10)
    (begun,) = world.started
    assert begun.at == NOON + 100_000


def test_a_message_that_is_far_too_early_goes_back() -> None:
    world = submitted(delay=100)
    world.services.work.send([OutgoingMessage(world.memory.messages()[0], 0)])
    (outcome,) = world.work()
    assert (outcome.action, outcome.why) == ("postponed", "not_due")
    world.live(120)
    assert [start.at for start in world.started] == [NOON + 100_000]


def test_a_message_beyond_the_queues_reach_goes_back_over_the_agenda() -> None:
    world = submitted(delay=3_600)
    (run,) = world.memory.runs()
    world.services.work.send([OutgoingMessage(a_message(run), 0)])
    world.work()
    assert len(world.entries(EntryKind.RUN)) == 1
    world.live(3_700)
    assert [start.at for start in world.started] == [NOON + 3_600_000]


# Duplicates.


def test_a_second_message_of_a_run_that_ended_is_dropped() -> None:
    world = submitted()
    message = world.memory.messages()[0]
    world.work()
    world.services.work.send([OutgoingMessage(message, 0)])
    (outcome,) = world.work()
    assert (outcome.action, outcome.why, outcome.gone) == ("refused", "ended", True)
    assert len(world.started) == 1


def test_a_second_message_of_a_run_that_goes_on_waits_for_its_end() -> None:
    world = submitted()
    message, outcomes = world.memory.messages()[0], []

    def meanwhile(ctx: Context) -> None:
        world.services.work.send([OutgoingMessage(message, 0)])
        outcomes.extend(world.work(world.worker(name="other")))

    world.during = meanwhile
    world.work()
    assert [(o.action, o.why) for o in outcomes] == [("waiting", "live_lease")]
    world.live(100)
    assert len(world.started) == 1
    assert len(world.memory.work) == 0


def test_a_message_about_no_run_is_rejected() -> None:
    world = World()
    world.services.work.send([OutgoingMessage(a_message(a_one_off()), 0)])
    (outcome,) = world.work()
    assert (outcome.action, outcome.why) == ("rejected", "unknown_run")
    assert (len(world.memory.work), len(world.memory.dead)) == (0, 1)


@pytest.mark.parametrize(
    "body", ["", "{", "[]", "null", "[" * 99_999, '{"v":1}', '{"v":"x","run":"a#b"}', "\x00", '{"v":1,"run":1}']
)
def test_what_is_no_message_goes_to_the_dead_letters_with_the_reason(body: str) -> None:
    world = submitted()
    world.memory.work.put(body)
    world.work()
    assert len(world.started) == 1
    (stored,) = world.memory.dead
    letter = decode_letter(stored.body)
    assert letter is not None
    assert letter.body == body[:LONGEST_BODY]
    assert letter.reason.startswith("unreadable:")
    assert bury_all(world.services, world.clock) == 1
    assert len(world.memory.dead) == 0


def test_a_message_of_a_later_release_waits_for_its_worker() -> None:
    world = World()
    world.memory.work.put('{"v":99,"run":"acme/s#1"}')
    (outcome,) = world.work()
    assert (outcome.action, outcome.why) == ("kept", "too_new")
    assert (len(world.memory.work), len(world.memory.dead)) == (1, 0)


# Unknown jobs.


def test_a_job_that_nobody_knows_is_dead_after_a_quarter_of_an_hour_without_an_attempt() -> None:
    world = submitted()
    stranger = world.worker(jobs=Registry())
    world.live(PATIENCE // SECOND - 1, worker=stranger)
    assert the_run(world).state is RunState.QUEUED
    world.live(40, worker=stranger)
    run = the_run(world)
    assert (run.state, run.reason, run.attempt, run.fence) == (RunState.DEAD, "unknown job", 0, 0)
    assert run.failure.kind == "UnknownJob"
    assert (len(world.memory.work), len(world.memory.dead)) == (0, 0)


def test_a_worker_that_learns_of_the_job_in_time_runs_it() -> None:
    world = submitted()
    world.live(600, worker=world.worker(jobs=Registry()))
    world.live(60)
    assert [start.attempt for start in world.started] == [1]
    assert the_run(world).state is RunState.SUCCEEDED


def test_a_worker_that_does_not_know_a_job_does_not_bury_it_under_one_who_runs_it() -> None:
    """Two messages of one run: one goes round among strangers, the other is being worked on when the patience ends."""
    world = submitted()
    message = world.memory.messages()[0]
    stranger = world.worker(jobs=Registry(), name="stranger")
    world.live(890, worker=stranger)
    world.services.work.send([OutgoingMessage(message, 0)])

    def meanwhile(ctx: Context) -> None:
        for _ in range(8):
            world.wait(10)
            knowing.heartbeat.beat(world.clock())
            world.work(stranger)
            bury_all(world.services, world.clock)

    world.during = meanwhile
    knowing = world.worker()
    received = receive(knowing, world.services.work.receive(most=10, wait=0, visibility=HIDDEN))
    assert work_off(knowing, received[:1])[0].state is RunState.SUCCEEDED
    world.live(200, worker=stranger)
    assert the_run(world).state is RunState.SUCCEEDED


def test_a_stranger_does_not_touch_what_ended() -> None:
    world = submitted()
    message = world.memory.messages()[0]
    world.work()
    world.services.work.send([OutgoingMessage(message, 0)])
    world.live(1_000, worker=world.worker(jobs=Registry()))
    assert the_run(world).state is RunState.SUCCEEDED
    assert len(world.memory.work) == 0


# Failures.


def test_a_job_that_raises_is_tried_again_and_is_dead_in_the_end() -> None:
    world = submitted("bad")
    world.live(60)
    assert [start.attempt for start in world.started] == [1, 2, 3]
    gaps = [b.at - a.at for a, b in zip(world.started, world.started[1:], strict=False)]
    assert 5 * SECOND <= gaps[0] <= 11 * SECOND
    assert 10 * SECOND <= gaps[1] <= 21 * SECOND
    run = the_run(world)
    assert (run.state, run.reason, run.failure.kind, run.failure.message) == (
        RunState.DEAD,
        "failed 3 times",
        "ValueError",
        "boom",
    )
    attempts = world.services.siblings.attempts(run.ref)
    assert [(a.number, a.failure.kind, a.next_attempt_at is None) for a in attempts] == [
        (1, "ValueError", False),
        (2, "ValueError", False),
        (3, "ValueError", True),
    ]
    assert "boom" in attempts[0].failure.traceback


def test_a_short_wait_goes_by_message_and_a_long_one_by_agenda() -> None:
    for base, entries in ((600.0, 0), (4_000.0, 1)):
        world = submitted("bad", retry=Retry(max_attempts=2, base=base, cap=10_000.0, jitter=0.0))
        world.work()
        assert len(world.entries(EntryKind.RUN)) == entries
        assert len(world.memory.work) == 1 - entries
        world.live(base + 70)
        assert [start.attempt for start in world.started] == [1, 2]
        assert world.started[1].at == NOON + int(base) * SECOND


@pytest.mark.parametrize("verb", ["retry", "record", "send", "erase"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_dying_while_a_retry_is_recorded_loses_none(verb: str, moment: str) -> None:
    world = submitted("bad", retry=Retry(max_attempts=2, base=10.0))
    with pytest.raises(Crash):
        world.work(world.worker(Faults().at(verb, **{moment: crash})))
    world.live(300)
    assert the_run(world).state is RunState.DEAD
    assert len(world.started) == 2


@pytest.mark.parametrize("verb", ["send", "die", "erase"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_dying_while_a_death_is_recorded_ends_in_death(verb: str, moment: str) -> None:
    world = submitted("bad", retry=Retry(max_attempts=1))
    with pytest.raises(Crash):
        world.work(world.worker(Faults().at(verb, **{moment: crash})))
    world.live(300)
    assert the_run(world).state is RunState.DEAD
    assert len(world.started) == 1
    assert (len(world.memory.work), len(world.memory.dead)) == (0, 0)


def test_a_text_that_no_database_takes_is_settled_all_the_same() -> None:
    world = World()

    def job(ctx: Context, payload: object) -> None:
        raise ValueError("a name of bytes: \udcff")

    world.jobs.job("odd", retry=Retry(max_attempts=1))(job)
    world.scheduler.submit("odd")
    world.live(10)
    run = the_run(world)
    assert run.state is RunState.DEAD
    run.failure.message.encode()
    (attempt,) = world.services.siblings.attempts(run.ref)
    attempt.failure.traceback.encode()


# Unavailable services.


@pytest.mark.parametrize("verb", ["lease", "succeed", "erase", "revisions", "hide"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_service_that_fails_once_costs_nothing(verb: str, moment: str) -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "at(2026-05-04T12:01:00)")
    world.wait(60)
    world.work(world.worker(Faults().at(verb, **{moment: fails})))
    world.live(200)
    assert len(world.started) == 1
    assert world.states() == [(60, RunState.SUCCEEDED)]
    assert len(world.memory.work) == 0


def test_a_lease_that_cannot_be_had_comes_back() -> None:
    world = submitted()
    (outcome,) = world.work(world.worker(Faults().at("lease", before=fails, times=None)))
    assert (outcome.action, outcome.why, outcome.gone) == ("kept", "unavailable", False)
    world.live(20)
    assert len(world.started) == 1


def test_an_outcome_is_recorded_patiently() -> None:
    """The job's effect has happened: half a lease is spent on telling so."""
    world = submitted()
    (outcome,) = world.work(world.worker(Faults().at("succeed", before=fails, times=12)))
    assert outcome.state is RunState.SUCCEEDED
    assert 10 <= (world.clock() - NOON) // SECOND <= 31


def test_an_outcome_that_cannot_be_recorded_at_all_is_another_attempt() -> None:
    world = submitted()
    (outcome,) = world.work(world.worker(Faults().at("succeed", before=fails, times=None)))
    assert (outcome.action, outcome.why) == ("kept", "unavailable")
    world.live(150)
    assert [start.attempt for start in world.started] == [1, 2]
    assert the_run(world).state is RunState.SUCCEEDED


def test_a_revision_that_cannot_be_read_leaves_the_message() -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "at(2026-05-04T12:01:00)")
    world.wait(60)
    (outcome,) = world.work(world.worker(Faults().at("revisions", before=fails, times=None)))
    assert (outcome.action, outcome.why) == ("kept", "tenant_unread")
    world.live(20)
    assert world.began() == [60]


def test_a_permission_that_is_missing_leaves_the_message_where_it_can_be_seen() -> None:
    """It is not kept hidden by the heartbeat of a worker that has forgotten it."""
    world = World()
    world.scheduler.create_schedule("s", "note", "at(2026-05-04T12:01:00)")
    world.wait(60)

    def denied() -> None:
        raise Misconfigured("AccessDenied")

    worker = world.worker(Faults().at("revisions", before=denied))
    (outcome,) = world.work(worker)
    assert (outcome.action, outcome.why) == ("kept", "tenant_unread")
    assert worker.heartbeat.all() == []
    world.live(20)
    assert world.began() == [60]


def test_a_defect_of_ours_is_one_messages_own(caplog: pytest.LogCaptureFixture) -> None:
    world = submitted("once")
    world.scheduler.submit("once")

    def defect() -> None:
        raise KeyError("ours")

    outcomes = world.work(world.worker(Faults().at("lease", before=defect)))
    assert sorted(outcome.action for outcome in outcomes) == ["kept", "settled"]
    assert "work.defect" in caplog.messages
    world.live(100)
    assert len(world.started) == 2


# Vanished workers.


def test_a_run_whose_worker_died_starts_again_after_its_lease() -> None:
    world = submitted()
    dies(world)
    world.live(RECOVERY)
    assert [start.attempt for start in world.started] == [1, 2]
    run = the_run(world)
    assert (run.state, run.fence, run.attempt) == (RunState.SUCCEEDED, 2, 2)
    assert world.started[1].at - NOON >= LEASE + SKEW, "and not before"
    (vanished,) = world.services.siblings.attempts(run.ref)
    assert (vanished.number, vanished.fence, vanished.worker, vanished.failure.kind) == (1, 1, "dead", "WorkerVanished")
    assert (vanished.started_at, vanished.ended_at) == (NOON, NOON)
    assert vanished.next_attempt_at == world.started[1].at


def test_two_that_find_an_abandoned_run_do_not_both_take_it() -> None:
    """Each looks before it takes: in between, the other one may have it already, and be at it."""
    world = submitted()
    dies(world)
    (message,) = world.memory.messages()
    world.wait(RECOVERY)

    def overtake() -> None:
        world.services.work.send([OutgoingMessage(message, 0)])
        with pytest.raises(Crash):
            world.work(world.worker(Faults().at("succeed", before=crash), name="faster"))

    (first, *_) = world.work(world.worker(Faults().at("lease", before=overtake, skip=1), name="slower"))
    assert (first.action, first.why) == ("waiting", "live_lease")
    assert [start.attempt for start in world.started] == [1, 2]
    (vanished,) = world.services.siblings.attempts(the_run(world).ref)
    assert (vanished.fence, vanished.worker) == (1, "dead")
    world.live(RECOVERY)
    assert [attempt.worker for attempt in world.services.siblings.attempts(the_run(world).ref)] == ["dead", "faster"]


def test_an_attempt_that_vanished_after_heartbeats_lasted_until_the_last_of_them() -> None:
    world = submitted()
    worker = world.worker(Faults().at("succeed", before=crash), name="dead")

    def long(ctx: Context) -> None:
        world.wait(HEARTBEAT // SECOND)
        worker.heartbeat.beat(world.clock())
        world.wait(5)

    world.during = long
    with pytest.raises(Crash):
        world.work(worker)
    world.during = lambda ctx: None
    world.live(RECOVERY + HEARTBEAT // SECOND)
    (vanished,) = world.services.siblings.attempts(the_run(world).ref)
    assert (vanished.started_at - NOON, vanished.ended_at - NOON) == (0, HEARTBEAT)
    assert vanished.failure.message == "worker dead was not heard of for 71 s: it died, stalled or was cut off"


@pytest.mark.parametrize("moment", ["before", "after"])
def test_dying_while_it_records_who_vanished_loses_no_attempt(moment: str) -> None:
    """The second worker has its lease by then: a third one takes over from it, and tells of it in turn."""
    world = submitted()
    dies(world)
    world.wait(RECOVERY)
    dies(world, "record", **{moment: crash})
    world.live(RECOVERY)
    run = the_run(world)
    assert (run.state, run.attempt) == (RunState.SUCCEEDED, 3)
    recorded = [attempt.fence for attempt in world.services.siblings.attempts(run.ref)]
    assert recorded == ([2] if moment == "before" else [1, 2])


def test_a_worker_that_dies_before_its_lease_has_spent_nothing() -> None:
    world = submitted()
    dies(world, "lease")
    world.live(RECOVERY)
    assert [start.attempt for start in world.started] == [1]


def test_a_worker_that_dies_after_it_settled_leaves_a_message_that_is_dropped() -> None:
    world = submitted()
    dies(world, "erase", before=crash)
    assert (the_run(world).state, len(world.memory.work)) == (RunState.SUCCEEDED, 1)
    world.live(RECOVERY)
    assert (len(world.started), len(world.memory.work)) == (1, 0)


@pytest.mark.parametrize("problem", [Unavailable("injected"), Misconfigured("injected")])
def test_a_failure_whose_letter_could_not_be_sent_is_told_once_it_can_be(problem: Exception) -> None:
    """Its worker did not vanish: its owner reads the error of the job."""

    def refuses() -> None:
        raise problem

    world = submitted("bad")
    for _ in range(2):
        world.work()
        world.wait(60)
    world.work(world.worker(Faults().at("send", before=refuses, times=None)))
    assert len(world.memory.dead) == 0
    world.wait(RECOVERY)
    world.work()
    assert bury_all(world.services, world.clock) == 1
    run, (*_, last) = the_run(world), world.services.siblings.attempts(the_run(world).ref)
    assert (run.state, run.reason, run.failure.kind) == (RunState.DEAD, "failed 3 times", "ValueError")
    assert (last.number, last.failure.kind, last.next_attempt_at) == (3, "ValueError", None)
    assert len(world.started) == 3


def test_a_job_that_kills_its_process_is_dead_after_its_attempts() -> None:
    world = submitted()
    for _ in range(3):
        dies(world)
        world.wait(RECOVERY)
    world.work()
    assert [start.attempt for start in world.started] == [1, 2, 3]
    bury_all(world.services, world.clock)
    run = the_run(world)
    assert (run.state, run.reason) == (RunState.DEAD, "worker vanished in the last attempt")
    assert run.failure.kind == "WorkerVanished"
    attempts = world.services.siblings.attempts(run.ref)
    assert [(attempt.number, attempt.failure.kind) for attempt in attempts] == [
        (n, "WorkerVanished") for n in (1, 2, 3)
    ]
    assert [attempt.next_attempt_at is None for attempt in attempts] == [False, False, True]
    (dead,) = world.scheduler.list_dead(since=START, error_type="WorkerVanished").items
    assert dead.id == str(run.ref)


def test_a_run_whose_job_allows_fewer_attempts_since_is_dead_for_that_and_no_worker_is_blamed() -> None:
    world, fewer = submitted("bad"), Registry()
    fewer.job("bad", retry=Retry(max_attempts=1))(world.note)
    world.work()
    world.wait(60)
    world.work(world.worker(jobs=fewer))
    bury_all(world.services, world.clock)
    run = the_run(world)
    assert (run.state, run.attempt, run.reason) == (RunState.DEAD, 1, "no attempt is left")
    assert run.failure.kind == "ValueError"


def test_a_job_that_kills_its_process_costs_its_neighbours_one_attempt_at_the_most() -> None:
    """Ten messages in one process, every job begun; one kills it. From then on they take turns, so that it dies alone."""
    world = World()

    def kill(ctx: Context, payload: object) -> None:
        world.note(ctx, payload)
        raise Crash

    world.jobs.job("killer")(kill)
    for number in range(10):
        world.scheduler.submit("killer" if number == 4 else "note", number)
    for received in receive(world.worker(), world.services.work.receive(most=10, wait=0, visibility=HIDDEN)):
        side_by_side = world.worker(Faults().at("succeed", before=crash))
        with pytest.raises(Crash):
            work_off(side_by_side, [received])
    for _ in range(4):
        world.wait(RECOVERY)
        with contextlib.suppress(Crash):
            world.work()
    world.live(400)
    notes = [run for run in world.memory.runs() if run.job == "note"]
    assert {run.state for run in notes} == {RunState.SUCCEEDED}
    assert max(run.attempt for run in notes) <= 2


@contextlib.contextmanager
def another_suspect(worker: WorkerContext) -> Iterator[None]:
    """Another suspect of this process executes."""
    suspect = object()
    assert worker.quarantine.enter(suspect, 2)
    try:
        yield
    finally:
        worker.quarantine.leave(suspect)


def test_suspects_take_turns_in_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quarterjack.worker.context.PATIENCE", 0.01)
    world = submitted()
    dies(world)
    world.wait(RECOVERY)
    worker = world.worker()
    received = receive(worker, world.services.work.receive(most=1, wait=0, visibility=HIDDEN))
    with another_suspect(worker):
        (outcome,) = work_off(worker, received)
    assert (outcome.action, outcome.why) == ("kept", "other_suspect_runs")
    assert the_run(world).attempt == 1, "no attempt is spent on waiting"


def test_a_message_that_merely_came_back_waits_for_no_suspect(monkeypatch: pytest.MonkeyPatch) -> None:
    """Received five times while the tables did not answer: nobody can have died of a run that never began."""
    monkeypatch.setattr("quarterjack.worker.context.PATIENCE", 0.01)
    world = submitted()
    for _ in range(4):
        world.services.work.receive(most=1, wait=0, visibility=0)
    worker = world.worker()
    received = receive(worker, world.services.work.receive(most=1, wait=0, visibility=HIDDEN))
    assert received[0].delivery.receives == 5
    with another_suspect(worker):
        work_off(worker, received)
    assert the_run(world).state is RunState.SUCCEEDED


def test_waiting_makes_nobody_more_suspect() -> None:
    world = submitted()
    dies(world)
    row = the_run(world)
    alive, abandoned = row.lease_until or 0, (row.lease_until or 0) + SKEW + 1
    assert deaths(row, alive) == 0, "its worker may be at it"
    assert deaths(row, abandoned) == 1
    assert deaths(replace(row, attempt=2), abandoned) == 2
    assert deaths(replace(row, state=RunState.RETRYING), abandoned) == deaths(None, abandoned) == 0


# Heartbeats.


def test_a_heartbeat_keeps_the_lease_and_the_message() -> None:
    world = submitted()
    worker = world.worker()

    def long(ctx: Context) -> None:
        for _ in range(30):
            world.wait(HEARTBEAT // SECOND)
            worker.heartbeat.beat(world.clock())
            assert world.work(world.worker(name="other")) == []

    world.during = long
    world.work(worker)
    assert the_run(world).state is RunState.SUCCEEDED
    assert len(world.started) == 1


def test_a_worker_that_lost_its_lease_writes_nothing_and_deletes_nothing() -> None:
    world = submitted("bad")
    worker = world.worker()

    def stall(ctx: Context) -> None:
        if ctx.attempt == 1:
            world.wait(RECOVERY)
            world.work(world.worker(name="other"))

    world.during = stall
    outcomes = world.work(worker)
    assert [(o.action, o.why) for o in outcomes] == [("lost", "lease_lost")]
    run = the_run(world)
    assert (run.state, run.fence) == (RunState.RETRYING, 2)
    assert [attempt.fence for attempt in world.services.siblings.attempts(run.ref)] == [1, 2]
    world.live(100)
    assert the_run(world).attempt == 3


def test_a_heartbeat_notices_the_loss() -> None:
    world = submitted()
    worker, noticed = world.worker(), []

    def stall(ctx: Context) -> None:
        if ctx.attempt == 1:
            world.wait(RECOVERY)
            world.work(world.worker(name="other"))
            worker.heartbeat.beat(world.clock())
            noticed.append(all(ticket.lost for ticket in worker.heartbeat.leased()))

    world.during = stall
    world.work(worker)
    assert noticed == [True]


def test_a_heartbeat_without_an_answer_is_no_loss() -> None:
    world = submitted()
    faults = Faults().at("renew", before=fails, times=2).at("hide", before=fails, times=2)
    worker = world.worker(faults)

    def beat(ctx: Context) -> None:
        for _ in range(2):
            world.wait(HEARTBEAT // SECOND)
            worker.heartbeat.beat(world.clock())

    world.during = beat
    (outcome,) = world.work(worker)
    assert outcome.state is RunState.SUCCEEDED


def test_leases_are_renewed_even_where_messages_cannot_be_hidden() -> None:
    world = submitted()
    worker = world.worker(Faults().at("hide", before=fails, times=None))

    def long(ctx: Context) -> None:
        for _ in range(6):
            world.wait(HEARTBEAT // SECOND)
            worker.heartbeat.beat(world.clock())
            world.work(world.worker(name="other"))

    world.during = long
    world.work(worker)
    assert (len(world.started), the_run(world).state) == (1, RunState.SUCCEEDED)


# At most once.


def test_an_at_most_once_run_whose_worker_vanished_is_lost_and_never_starts_again() -> None:
    world = submitted("once")
    dies(world)
    assert len(world.memory.work) == 0, "its message went before its code"
    world.live(300)
    assert (the_run(world).state, len(world.started)) == (RunState.LOST, 1)
    assert world.memory.entries() == []
    (vanished,) = world.services.siblings.attempts(the_run(world).ref)
    assert (vanished.worker, vanished.failure.kind, vanished.next_attempt_at) == ("dead", "WorkerVanished", None)


@pytest.mark.parametrize("verb", ["put", "lease", "delete", "succeed", "erase"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_dying_at_any_call_never_starts_an_at_most_once_run_twice(verb: str, moment: str) -> None:
    world = submitted("once")
    dies(world, verb, **{moment: crash})
    world.live(400)
    run = the_run(world)
    assert len(world.started) <= 1
    assert run.state in (RunState.SUCCEEDED, RunState.LOST)
    assert (run.state is RunState.LOST) <= (run.fence == 1)
    assert (len(world.memory.entries()), len(world.memory.work)) == (0, 0)


def test_a_second_message_of_a_vanished_at_most_once_run_declares_it_lost() -> None:
    world = submitted("once")
    message = world.memory.messages()[0]
    dies(world)
    world.services.agenda.remove(world.memory.entries())
    world.wait(RECOVERY)
    world.services.work.send([OutgoingMessage(message, 0)])
    (outcome,) = world.work()
    assert (outcome.state, len(world.started)) == (RunState.LOST, 1)


def test_an_at_most_once_run_that_fails_is_dead_at_once() -> None:
    world = submitted("bad", delivery="at_most_once")
    world.live(60)
    assert (the_run(world).state, len(world.started)) == (RunState.DEAD, 1)


def test_a_long_at_most_once_run_is_watched_as_long_as_it_lives() -> None:
    world = submitted("once")
    worker = world.worker()

    def long(ctx: Context) -> None:
        for second in range(0, 600, 20):
            world.wait(20)
            worker.heartbeat.beat(world.clock())
            if second % 60 == 0:
                world.tick()
        assert len(world.entries(EntryKind.WATCH)) == 1

    world.during = long
    world.work(worker)
    assert the_run(world).state is RunState.SUCCEEDED
    world.live(200)
    assert world.memory.entries() == []


def test_without_its_watch_an_at_most_once_run_does_not_start() -> None:
    world = submitted("once")
    (outcome,) = world.work(world.worker(Faults().at("put", before=fails, times=None)))
    assert (outcome.action, the_run(world).state) == ("kept", RunState.QUEUED)
    world.live(20)
    assert len(world.started) == 1


def test_a_worker_that_stalled_before_its_lease_is_watched_all_the_same() -> None:
    """The ticker has dropped the watch by then; without another one a crash would leave the run RUNNING for ever."""
    world = submitted("once")

    def stall() -> None:
        for _ in range(5):
            world.wait(60)
            world.tick()
        assert world.memory.entries() == []

    faults = Faults().at("lease", before=stall).at("succeed", before=crash)
    with pytest.raises(Crash):
        world.work(world.worker(faults))
    world.live(400)
    assert the_run(world).state is RunState.LOST


# Stopping.


def test_a_stopping_worker_gives_back_what_it_runs_and_another_starts_it_at_once() -> None:
    world = submitted()
    worker = world.worker()

    def stop(ctx: Context) -> None:
        if ctx.attempt == 1 and len(world.started) == 1:
            for ticket in worker.heartbeat.all():
                assert release_run(worker, ticket)
            world.work(world.worker(name="next"))

    world.during = stop
    outcomes = world.work(worker)
    assert [o.action for o in outcomes] == ["lost"]
    assert [(start.attempt, start.at) for start in world.started] == [(1, NOON), (1, NOON)], "no attempt is spent"
    assert the_run(world).state is RunState.SUCCEEDED


def test_a_stopping_worker_never_gives_an_at_most_once_run_back() -> None:
    world = submitted("once")
    worker = world.worker()

    def stop(ctx: Context) -> None:
        assert [release_run(worker, ticket) for ticket in worker.heartbeat.all()] == [False]
        world.live(30)
        raise Crash

    world.during = stop
    with pytest.raises(Crash):
        world.work(worker)
    world.live(400)
    assert (the_run(world).state, len(world.started)) == (RunState.LOST, 1)


@pytest.mark.parametrize("job", ["note", "once"])
def test_what_was_given_back_before_its_lease_is_not_started(job: str) -> None:
    """It waits for its instant, or its turn, when the process is told to stop."""
    world = submitted(job, start="exact", delay=30)
    worker = world.worker()
    world.wait(29)

    def told_to_stop(seconds: float) -> None:
        for ticket in worker.heartbeat.all():
            release_run(worker, ticket)
        world.wait(seconds)

    worker = replace(worker, wait=told_to_stop)
    (outcome,) = work_off(worker, receive(worker, world.services.work.receive(most=10, wait=0, visibility=HIDDEN)))
    assert (outcome.action, outcome.why) == ("released", "stopping")
    assert world.started == []
    world.work(world.worker(name="next"))
    assert [start.at for start in world.started] == [NOON + 30 * SECOND]
    world.live(120)
    assert (the_run(world).state, len(world.started)) == (RunState.SUCCEEDED, 1)


def test_a_release_that_comes_too_late_changes_nothing() -> None:
    world = submitted()
    worker = world.worker()
    tickets: list[Any] = []
    world.during = lambda ctx: tickets.extend(worker.heartbeat.all())
    world.work(worker)
    tickets[0].settled = False
    assert not release_run(worker, tickets[0])
    assert the_run(world).state is RunState.SUCCEEDED


# Large payloads.


def test_a_large_payload_comes_from_the_bucket() -> None:
    world, seen = World(), []
    world.jobs.job("big")(lambda ctx, payload: seen.append(len(payload)))
    world.scheduler.create_schedule("s", "big", "at(2026-05-04T12:01:00)", payload="x" * 100_000)
    world.scheduler.submit("big", "y" * 200_000)
    assert all(len(m.encode()) < 1_000 for m in world.memory.messages())
    world.wait(60)
    world.work()
    assert sorted(seen) == [100_000, 200_000]


def test_a_bucket_that_does_not_answer_leaves_the_message() -> None:
    world = World()
    world.scheduler.submit("note", "y" * 200_000)
    (outcome,) = world.work(world.worker(Faults().at("get", before=fails, times=None)))
    assert (outcome.action, the_run(world).attempt) == ("kept", 0)
    world.wait(int(MINUTE / SECOND))
    world.work()
    assert len(world.started) == 1
