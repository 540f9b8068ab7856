"""A message that cannot be decoded decides nothing: its run is sent anew, from its row, on every engine."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import replace

from quarterjack import Registry, RunState, Scheduler
from quarterjack.domain.message import Message, decode
from quarterjack.domain.names import parse_run_id
from quarterjack.ports.queues import OutgoingMessage, RawMessage
from quarterjack.testing.process import make_worker, work_off
from quarterjack.undertaker.bury import Burial, bury_one
from quarterjack.worker.delivery.receive import receive

from tests.support.builders import a_one_off
from tests.support.engines import Engine
from tests.support.lease_steps import lease_of

TOO_DEEP = "[" * 200 + "]" * 200


def a_scheduler(engine: Engine) -> tuple[Scheduler, Registry]:
    jobs = Registry()
    jobs.job("note")(lambda ctx, payload: payload)
    return Scheduler("acme", jobs=jobs, services=engine.services, clock=engine.clock), jobs


def received(engine: Engine) -> list[Message]:
    """What lies in the work queue, taken off it."""
    found = []
    for delivery in engine.receive():
        engine.services.work.delete(delivery.receipt)
        found.append(decode(delivery.body))
    return found


def sent_too_deep(engine: Engine, message: Message) -> None:
    """As an older release sent it, whose door let the payload in."""
    assert list(
        engine.services.work.send([OutgoingMessage(replace(message, later={"payload": json.loads(TOO_DEEP)}), 0)])
    ) == [True]


def worked_and_buried(engine: Engine, jobs: Registry) -> Sequence[Burial]:
    worker = make_worker(engine.services, jobs, engine.clock, wait=threading.Event().wait)
    outcomes = work_off(worker, receive(worker, engine.receive()))
    assert [outcome.action for outcome in outcomes] == ["unreadable"]
    letters = engine.services.dead.receive(most=10, wait=3.0)
    return [bury_one(letter, engine.services, engine.clock) for letter in letters]


def worked(engine: Engine, jobs: Registry) -> list[str]:
    worker = make_worker(engine.services, jobs, engine.clock, wait=threading.Event().wait)
    return [outcome.action for outcome in work_off(worker, receive(worker, engine.receive()))]


def test_a_run_whose_message_cannot_be_read_is_sent_anew_and_runs(engine: Engine) -> None:
    scheduler, jobs = a_scheduler(engine)
    run = scheduler.submit("note")
    (message,) = received(engine)
    assert str(message.run) == run.id
    sent_too_deep(engine, message)
    (burial,) = worked_and_buried(engine, jobs)
    assert (burial.action, burial.run) == ("unreadable", None)
    assert "nested more than" in burial.reason
    assert worked(engine, jobs) == ["settled"]
    assert scheduler.get_run(run.id).state is RunState.SUCCEEDED
    assert scheduler.list_dead().items == []


def test_what_sqs_moved_before_a_worker_read_it_is_sent_anew_too(engine: Engine) -> None:
    scheduler, jobs = a_scheduler(engine)
    run = scheduler.submit("note")
    (message,) = received(engine)
    cut = RawMessage(body=message.encode()[:-1], receipt="", receives=1)
    for _ in range(2):  # the letter comes twice
        assert bury_one(cut, engine.services, engine.clock).action == "unreadable"
    while actions := worked(engine, jobs):
        assert set(actions) <= {"settled", "refused"}
    assert scheduler.get_run(run.id).state is RunState.SUCCEEDED
    assert bury_one(cut, engine.services, engine.clock).action == "unreadable", "after its end"
    assert (engine.receive(), scheduler.list_dead().items) == ([], [])


def test_an_old_message_that_cannot_be_read_disturbs_no_attempt(engine: Engine) -> None:
    """Whoever has the run has its message."""
    scheduler, _ = a_scheduler(engine)
    run = scheduler.submit("note")
    (message,) = received(engine)
    ref = parse_run_id(run.id)
    leased = lease_of(engine.services, replace(a_one_off(), ref=ref, revision=0), now=engine.clock())
    assert leased.fence == 1
    old = RawMessage(body=message.encode()[:-1], receipt="", receives=1)
    assert bury_one(old, engine.services, engine.clock).action == "unreadable"
    assert engine.receive() == []
    assert scheduler.get_run(run.id).state is RunState.RUNNING


def test_what_names_no_run_or_an_unknown_one_is_logged_and_dropped(engine: Engine) -> None:
    for body in ("[" * 988, '{"v":1,"run":"acme/~nobody#once","job":'):
        unknown = RawMessage(body=body, receipt="", receives=1)
        assert bury_one(unknown, engine.services, engine.clock).action == "unreadable"
