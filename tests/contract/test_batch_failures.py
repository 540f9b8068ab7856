"""Batches are read item by item: what was throttled is asked for again, and what stays unanswered is reported so, never as done."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from quarterjack import Context, Registry, RunState
from quarterjack.aws import TRANSIENT, BatchBackoff
from quarterjack.aws.errors import ConnectFailed
from quarterjack.aws.transport import RetryQuota
from quarterjack.domain.message import decode
from quarterjack.domain.times import MINUTE
from quarterjack.errors import Unavailable
from quarterjack.fires.plan import first_entry
from quarterjack.local.cloud import LocalCloud
from quarterjack.ports.queues import OutgoingMessage
from quarterjack.ports.services import Services
from quarterjack.services import connect, system_clock
from quarterjack.settings import DEFAULT_REQUESTS
from quarterjack.state.before_start import refuse
from quarterjack.testing.cloud import fresh_settings
from quarterjack.testing.process import Hand, make_worker
from quarterjack.ticker.tick import tick

from tests.support.builders import NOON, a_definition, a_head, a_message, a_one_off, a_revision, a_run, an_entry
from tests.support.engines import Engine, _wired
from tests.support.lease_steps import HOUR, first_lease, lease_of
from tests.support.throttle import Throttle, answer_lost, throttled

PER_STATEMENT = (
    "ThrottlingError",
    "ProvisionedThroughputExceeded",
    "RequestLimitExceeded",
    "TransactionConflict",
    "InternalServerError",
)


@pytest.fixture
def cloud(local_cloud: LocalCloud, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """The local cloud; the waits between attempts are left out, and no test has used up the retries of another."""
    engine = _wired("ministack", fresh_settings(local_cloud), monkeypatch)
    for client in engine.wired.values():
        monkeypatch.setattr(client.transport, "_wait", lambda seconds: None)
        monkeypatch.setattr(client.transport, "quota", RetryQuota())
    return engine


def every_third(number: int, items: Sequence[Any]) -> set[int]:
    """In the first two rounds."""
    return set(range(0, len(items), 3)) if number < 4 else set()


def always_the_first(number: int, items: Sequence[Any]) -> set[int]:
    return {0} if len(items) > 1 else set()


def for_ever(wanted: str) -> Any:
    """The item that says so is throttled, whatever else is asked."""
    return lambda number, items: {place for place, item in enumerate(items) if wanted in str(item)}


def runs(count: int) -> list[Any]:
    return [a_run(NOON + i * MINUTE) for i in range(count)]


# Claims and take-overs.


@pytest.mark.parametrize("code", PER_STATEMENT)
def test_throttled_claims_are_made_in_a_later_round(cloud: Engine, code: str) -> None:
    some = runs(30)
    with throttled(cloud.wired, Throttle("BatchExecuteStatement", every_third, code)) as throttle:
        claimed = cloud.services.ledger.claim(some)
    assert claimed.created == {run.ref for run in some}
    assert len(throttle.calls) > 2
    assert code in TRANSIENT


def test_a_claim_that_is_never_answered_is_neither_made_nor_there(cloud: Engine) -> None:
    some = runs(30)
    cloud.services.ledger.claim(some[:2])
    with throttled(cloud.wired, Throttle("BatchExecuteStatement", for_ever(some[7].ref.key))):
        claimed = cloud.services.ledger.claim(some)
    assert claimed.created == {run.ref for run in some[2:]} - {some[7].ref}
    assert set(claimed.existing) == {run.ref for run in some[:2]}
    assert cloud.services.ledger.read(some[7].ref) is None


def test_a_statement_of_its_own_fault_is_unanswered_and_stops_no_other(
    cloud: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    some = runs(3)
    with throttled(cloud.wired, Throttle("BatchExecuteStatement", for_ever(some[0].ref.key), "AccessDenied")):
        claimed = cloud.services.ledger.claim(some)
    assert claimed.created == {run.ref for run in some[1:]}
    assert "statement.failed" in caplog.messages


def test_throttled_moves_are_made_later_or_not_answered(cloud: Engine) -> None:
    some = runs(10)
    cloud.services.ledger.claim(some)
    to = refuse(to=RunState.CANCELLED, revision=1, now=NOON, expires=NOON + HOUR, reason="paused")
    with throttled(cloud.wired, Throttle("BatchExecuteStatement", for_ever(some[3].ref.key))):
        answers = cloud.services.ledger.move_all([(run.ref, to) for run in some])
    assert answers == {run.ref: True for run in some if run is not some[3]}
    left = cloud.services.ledger.read(some[3].ref)
    assert left is not None
    assert left.state is RunState.QUEUED


def test_throttled_leases_are_taken_later_or_not_answered(cloud: Engine) -> None:
    some = runs(12)
    cloud.services.ledger.claim(some)
    leases = [(run.ref, first_lease(NOON + HOUR)) for run in some]
    with throttled(cloud.wired, Throttle("BatchExecuteStatement", every_third)):
        answers = cloud.services.ledger.lease_all(leases[:6])
    assert [moved.applied for moved in answers.values()] == [True] * 6
    with throttled(cloud.wired, Throttle("BatchExecuteStatement", for_ever(some[7].ref.key))):
        answers = cloud.services.ledger.lease_all(leases[6:])
    assert set(answers) == {run.ref for run in some[6:]} - {some[7].ref}
    left = cloud.services.ledger.read(some[7].ref)
    assert left is not None
    assert (left.state, left.fence) == (RunState.QUEUED, 0)


def test_waits_between_rounds_grow_and_differ() -> None:
    waits: list[float] = []
    backoff = BatchBackoff(rounds=8, base=0.1, cap=2.0, wait=waits.append, random=random.Random(3))
    assert list(backoff.rounds_with_waits()) == list(range(8))
    assert len(waits) == len(set(waits)) == 7
    assert all(0 <= wait <= min(2.0, 0.1 * 2.0**number) for number, wait in enumerate(waits, 1))
    assert max(waits[3:]) > max(waits[:2])


def test_the_waits_are_taken_between_rounds(cloud: Engine) -> None:
    waits: list[float] = []
    assert cloud.settings is not None
    services = connect(cloud.settings, backoff=BatchBackoff(wait=waits.append))
    with throttled(cloud.wired, Throttle("BatchExecuteStatement", for_ever(""))):
        services.ledger.claim(runs(3))
    halved = 4  # times until less than one request is under way: from then on each is preceded by a pause
    assert 2 ** (halved - 1) == DEFAULT_REQUESTS
    assert len(waits) == (BatchBackoff().rounds - 1) + (BatchBackoff().rounds - halved)


# Revisions.


def armed(services: Services, count: int) -> list[tuple[str, int]]:
    for number in range(count):
        name = f"s{number:03d}"
        revision = a_revision(name=name)
        services.schedules.arm(a_head(name=name), expected=0, previous=None, revision=revision, entry=None)
    return [(f"acme/s{number:03d}", 1) for number in range(count)]


def test_unprocessed_keys_are_read_in_a_later_round(cloud: Engine) -> None:
    keys = armed(cloud.services, 12)
    throttle = Throttle("BatchGetItem", every_third)
    with throttled(cloud.wired, throttle):
        answer = cloud.services.schedules.revisions(keys)
    assert set(answer.found) == set(keys)
    assert not answer.unanswered


def test_keys_that_stay_unprocessed_are_unanswered_and_not_missing(cloud: Engine) -> None:
    keys = armed(cloud.services, 6)
    throttle = Throttle("BatchGetItem", for_ever("acme/s003"))
    with throttled(cloud.wired, throttle):
        answer = cloud.services.schedules.revisions(keys)
    assert answer.unanswered == {("acme/s003", 1)}
    assert set(answer.found) == set(keys) - answer.unanswered


def test_a_profile_that_stays_unprocessed_is_not_taken_for_none(cloud: Engine) -> None:
    """Nor does it take the revisions of its batch with it, or the profiles of other tenants."""
    keys, services = armed(cloud.services, 3), cloud.services
    with throttled(cloud.wired, Throttle("BatchGetItem", for_ever("'beta'"))):
        answer = services.schedules.revisions_freezes_profiles(keys, {"acme", "beta"}, NOON)
        assert set(answer.found) == set(keys)
        assert not answer.unanswered
        assert set(answer.governance) == {"acme"}
        with pytest.raises(Unavailable, match="beta"):
            services.tenants.governance("beta", NOON)
    assert services.tenants.governance("beta", NOON).own is None


# Entries.


@pytest.mark.parametrize("verb", ["put", "remove"])
def test_unprocessed_entries_are_written_in_a_later_round(cloud: Engine, verb: str) -> None:
    entries = [an_entry(NOON + i, owner=f"acme/s{i}") for i in range(40)]
    agenda = cloud.services.agenda
    if verb == "remove":
        agenda.put(entries)
    with throttled(cloud.wired, Throttle("BatchWriteItem", every_third)):
        accepted = getattr(agenda, verb)(entries)
    assert accepted == {entry.key for entry in entries}
    present = agenda.due(0, upto=NOON * 2, after=None, limit=500).entries
    assert len(present) == (40 if verb == "put" else 0)


@pytest.mark.parametrize("verb", ["put", "remove"])
def test_entries_that_stay_unprocessed_are_not_accepted(cloud: Engine, verb: str) -> None:
    entries = [an_entry(NOON + i, owner=f"acme/s{i}") for i in range(10)]
    agenda = cloud.services.agenda
    if verb == "remove":
        agenda.put(entries)
    throttle = Throttle("BatchWriteItem", for_ever(entries[4].key))
    with throttled(cloud.wired, throttle):
        accepted = getattr(agenda, verb)(entries)
    assert accepted == {entry.key for entry in entries} - {entries[4].key}
    present = {entry.key for entry in agenda.due(0, upto=NOON * 2, after=None, limit=500).entries}
    assert (entries[4].key in present) == (verb == "remove")


# Messages.


def parcels(count: int) -> list[OutgoingMessage]:
    return [OutgoingMessage(a_message(run), 0) for run in runs(count)]


def fires(engine: Engine) -> list[int]:
    dues = []
    while found := engine.receive(wait=0):
        dues += [decode(delivery.body).not_before for delivery in found]
        engine.services.work.erase([delivery.receipt for delivery in found])
    return sorted(dues)


def test_failed_messages_are_sent_in_a_later_round_and_the_others_once(cloud: Engine) -> None:
    with throttled(cloud.wired, Throttle("SendMessageBatch", every_third, "InternalError")):
        assert list(cloud.services.work.send(parcels(23))) == [True] * 23
    assert fires(cloud) == [NOON + i * MINUTE for i in range(23)]


def test_a_message_that_is_never_accepted_is_reported_so(cloud: Engine) -> None:
    some = parcels(12)
    with throttled(cloud.wired, Throttle("SendMessageBatch", for_ever(str(some[5].message.run)), "InternalError")):
        accepted = list(cloud.services.work.send(some))
    assert accepted == [place != 5 for place in range(12)]
    assert len(fires(cloud)) == 11


@pytest.mark.parametrize(
    ("operation", "verb"), [("ChangeMessageVisibilityBatch", "hide"), ("DeleteMessageBatch", "erase")]
)
@pytest.mark.parametrize(
    ("code", "passed_over"),
    [
        ("ReceiptHandleIsInvalid", True),
        ("AWS.SimpleQueueService.MessageNotInflight", True),
        ("InvalidParameterValue", True),
        ("InternalError", False),
        ("RequestThrottled", False),
    ],
)
def test_a_message_that_is_gone_is_passed_over_and_a_failure_is_one(
    cloud: Engine, operation: str, verb: str, code: str, passed_over: bool
) -> None:
    cloud.services.work.send(parcels(3))
    receipts = [delivery.receipt for delivery in cloud.receive()]

    def act() -> None:
        if verb == "hide":
            cloud.services.work.hide(receipts, 30)
        else:
            cloud.services.work.erase(receipts)

    with throttled(cloud.wired, Throttle(operation, always_the_first, code)):
        if passed_over:
            act()
        else:
            with pytest.raises(Unavailable, match=code):
                act()


def test_a_batch_that_fails_keeps_no_other_from_being_sent(cloud: Engine) -> None:
    """Of each of two batches all goes but the first message, which is throttled."""
    cloud.services.work.send(parcels(12))
    receipts = [delivery.receipt for delivery in [*cloud.receive(), *cloud.receive()]]
    throttle = Throttle("DeleteMessageBatch", always_the_first, "InternalError")
    with throttled(cloud.wired, throttle), pytest.raises(Unavailable, match="InternalError"):
        cloud.services.work.erase(receipts)
    assert throttle.calls == [10, 2]
    cloud.services.work.hide(receipts, 0)
    assert len(cloud.receive()) == 2


# Answers that get lost.


def lost(engine: Engine, operation: str) -> Any:
    service = "sqs" if "Message" in operation else "dynamodb"
    return answer_lost(engine.wired[service], operation)


def test_claims_whose_answer_was_lost_are_there_and_ours_to_send(cloud: Engine) -> None:
    some = runs(3)
    with lost(cloud, "BatchExecuteStatement") as sent:
        claimed = cloud.services.ledger.claim(some)
    assert len(sent) == 1
    assert claimed.created == frozenset()
    assert {ref: (run.state, run.revision) for ref, run in claimed.existing.items()} == {
        run.ref: (RunState.QUEUED, 1) for run in some
    }


def test_a_lease_whose_answer_was_lost_is_held(cloud: Engine) -> None:
    run = a_run()
    cloud.services.ledger.claim([run])
    with lost(cloud, "UpdateItem") as sent:
        leased = lease_of(cloud.services, run)
    assert len(sent) == 1
    assert (leased.fence, leased.attempt) == (1, 1), "once"


def test_a_batch_of_leases_whose_answer_was_lost_is_held(cloud: Engine) -> None:
    some = runs(3)
    cloud.services.ledger.claim(some)
    with lost(cloud, "BatchExecuteStatement") as sent:
        answers = cloud.services.ledger.lease_all([(run.ref, first_lease(NOON + HOUR)) for run in some])
    assert len(sent) == 1
    assert [(m.applied, m.run.fence, m.run.attempt) for m in answers.values() if m.run] == [(True, 1, 1)] * 3, "once"


def test_moves_whose_answer_was_lost_count_as_applied(cloud: Engine) -> None:
    some = runs(3)
    cloud.services.ledger.claim(some)
    to = refuse(to=RunState.CANCELLED, revision=1, now=NOON, expires=NOON + HOUR, reason="paused")
    with lost(cloud, "BatchExecuteStatement"):
        assert cloud.services.ledger.move_all([(run.ref, to) for run in some]) == {run.ref: True for run in some}


@pytest.mark.parametrize("size", [1, 1_000])
def test_a_submission_whose_answer_was_lost_is_there_once(cloud: Engine, size: int) -> None:
    run = a_one_off(payload='"' + "x" * size + '"')
    with lost(cloud, "PutItem" if size == 1 else "TransactWriteItems"):
        there = cloud.services.ledger.submit(run)
    kept = replace(run, payload_beside=size > 1)
    assert there in (None, kept)
    assert cloud.services.ledger.read(run.ref) == kept


def test_messages_whose_answer_was_lost_come_twice_at_the_most(cloud: Engine) -> None:
    with lost(cloud, "SendMessageBatch"):
        assert list(cloud.services.work.send(parcels(3))) == [True] * 3
    assert set(fires(cloud)) == {NOON, NOON + MINUTE, NOON + 2 * MINUTE}


def test_entries_whose_answer_was_lost_are_accepted(cloud: Engine) -> None:
    entries = [an_entry(NOON + i) for i in range(3)]
    with lost(cloud, "BatchWriteItem"):
        assert len(cloud.services.agenda.put(entries)) == 3
    with lost(cloud, "BatchWriteItem"):
        assert len(cloud.services.agenda.remove(entries)) == 3
    assert cloud.services.agenda.due(0, upto=NOON * 2, after=None, limit=9).entries == []


def test_a_deletion_whose_answer_was_lost_is_made(cloud: Engine) -> None:
    cloud.services.work.send(parcels(2))
    first, second = cloud.receive()
    with lost(cloud, "DeleteMessage"):
        cloud.services.work.delete(first.receipt)
    with lost(cloud, "DeleteMessageBatch"):
        cloud.services.work.erase([second.receipt])
    cloud.services.work.hide([first.receipt, second.receipt], 0)
    assert fires(cloud) == []


def test_a_failure_is_counted_at_least_once_where_its_answer_was_lost(cloud: Engine) -> None:
    entry = an_entry()
    cloud.services.agenda.put([entry])
    with lost(cloud, "UpdateItem"):
        assert cloud.services.agenda.fail(entry) in (1, 2)


# Services that are away.


@pytest.fixture
def away(cloud: Engine, monkeypatch: pytest.MonkeyPatch) -> Services:
    """Every request fails before it has any effect."""

    def refuse_connection(*_: object) -> None:
        raise ConnectFailed("injected: nobody is there")

    for client in cloud.wired.values():
        assert client.transport is not None
        monkeypatch.setattr(client.transport.connections, "post", refuse_connection)
    return cloud.services


def test_batches_are_unanswered_while_a_service_is_away(away: Services) -> None:
    claimed = away.ledger.claim(runs(30))
    assert (claimed.created, dict(claimed.existing)) == (frozenset(), {})
    assert away.schedules.revisions([("acme/s", 1)]).unanswered == {("acme/s", 1)}
    assert away.agenda.put([an_entry()]) == frozenset()
    assert list(away.work.send(parcels(12))) == [False] * 12


def test_single_calls_say_so_while_a_service_is_away(away: Services) -> None:
    for call in (
        lambda: away.ledger.read(a_run().ref),
        lambda: lease_of(away, a_run()),
        lambda: away.ledger.submit(a_one_off()),
        away.agenda.layout,
        lambda: away.agenda.due(0, upto=NOON, after=None, limit=1),
        lambda: away.agenda.fail(an_entry()),
        lambda: away.work.receive(most=1, wait=0, visibility=1),
    ):
        with pytest.raises(Unavailable):
            call()


# The whole of it.


@pytest.mark.parametrize("seed", range(3))
def test_a_throttled_table_makes_fires_late_and_loses_none(cloud: Engine, seed: int) -> None:
    """A tick over a cloud that throttles every third item of everything; then ticks over one that does not."""
    chance, started, jobs = random.Random(seed), list[str](), Registry()

    @jobs.job("note")
    def note(ctx: Context, payload: object) -> None:
        started.append(ctx.run_id)

    past = system_clock() - 10 * MINUTE
    for number in range(7):
        name = f"s{number}"
        revision = a_revision(name=name, active_from=past, definition=a_definition(job="note"))
        entry = first_entry(revision)
        assert cloud.services.schedules.arm(
            a_head(name=name), expected=0, previous=None, revision=revision, entry=entry
        )
    cloud.services.agenda.layout()

    def some(number: int, items: Sequence[Any]) -> set[int]:
        return {place for place in range(len(items)) if chance.random() < 0.6}

    assert cloud.settings is not None
    services = connect(cloud.settings, backoff=BatchBackoff(rounds=1))
    with (
        throttled(cloud.wired, Throttle("BatchExecuteStatement", some)),
        throttled(cloud.wired, Throttle("SendMessageBatch", some, "InternalError")),
        throttled(cloud.wired, Throttle("BatchGetItem", some)),
        throttled(cloud.wired, Throttle("BatchWriteItem", some)),
    ):
        for _ in range(2):
            report = tick(services, clock=system_clock, holder="unlucky")
    assert report.handled.agenda.left, "something stays to be done"
    report = tick(cloud.services, clock=system_clock, holder="unlucky")
    assert report.handled.agenda.left == 0
    worker = make_worker(cloud.services, jobs, system_clock, wait=lambda seconds: None)
    while Hand(worker=worker).work():
        pass
    due = {
        str(run.ref)
        for number in range(7)
        for run in cloud.services.ledger.window(f"acme/s{number}", after=0, upto=system_clock() - 1_000)
    }
    assert len(due) >= 7 * 9
    assert set(started) >= due
    assert len(started) == len(set(started))


def test_a_creation_whose_answer_was_lost_is_recognised(cloud: Engine) -> None:
    """By the token that the client sends with every try of a transaction; otherwise its own head would refuse it."""
    with answer_lost(cloud.wired["dynamodb"], "TransactWriteItems", times=2) as sent:
        armed = cloud.services.schedules.arm(
            a_head(), expected=0, previous=None, revision=a_revision(), entry=an_entry()
        )
    assert (armed, len(sent)) == (True, 2)
    assert len({json.loads(body)["ClientRequestToken"] for body in sent}) == 1
