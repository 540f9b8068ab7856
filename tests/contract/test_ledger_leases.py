"""The lease and what ends it: every clause of every guard, over every engine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from quarterjack.domain.run import RunRow, RunState
from quarterjack.domain.times import MINUTE, SECOND
from quarterjack.ports.services import Services
from quarterjack.state.before_start import give_up
from quarterjack.state.ending import bury, cancel_waiting, exhaust, lose
from quarterjack.state.lease import LEASE, SKEW, die, release, renew, retry, succeed
from quarterjack.state.run_spec import RunSpec, of_one_off
from quarterjack.stores.tables import RUNS
from quarterjack.worker.admission.lease import first_run

from tests.support.builders import BOOM, NOON, a_message, a_one_off, a_run
from tests.support.engines import Engine
from tests.support.lease_steps import HOUR, first_lease, lease_of, try_lease

LATER = NOON + HOUR
OVER = NOON + LEASE + SKEW + 1  # the first instant at which a lease taken at NOON is abandoned


@pytest.fixture
def run(services: Services) -> RunRow:
    """A run in the ledger, due at NOON."""
    queued = a_run()
    services.ledger.claim([queued])
    return queued


def state(services: Services, run: RunRow) -> RunState:
    there = services.ledger.read(run.ref)
    assert there is not None
    return there.state


# The lease, clause by clause.


def test_a_lease_is_taken_at_the_runs_time(services: Services, run: RunRow) -> None:
    leased = lease_of(services, run, token="mine", worker="w9")
    assert (leased.state, leased.fence, leased.attempt, leased.max_attempts) == (RunState.RUNNING, 1, 1, 3)
    assert (leased.lease_until, leased.lease_token, leased.worker) == (NOON + LEASE, "mine", "w9")
    assert leased.started_at == NOON
    assert services.ledger.read(run.ref) == leased


def test_no_lease_before_its_time(services: Services, run: RunRow) -> None:
    moved = try_lease(services, run, now=NOON - 1)
    assert (moved.applied, moved.run) == (False, run)


@pytest.mark.parametrize("other", [0, 2])
def test_no_lease_for_another_revision(services: Services, run: RunRow, other: int) -> None:
    assert not try_lease(services, run, revision=other).applied


def test_leases_of_a_batch_are_answered_each_for_itself(services: Services) -> None:
    """30 are more than one request takes."""
    many = [a_run(NOON + i * SECOND) for i in range(30)]
    early, held, gone = a_run(NOON + HOUR), a_run(NOON - SECOND), a_run(NOON - 2 * SECOND)
    services.ledger.claim([*many, early, held])
    lease_of(services, held, token="another")
    wanted = [*many, early, held, gone]
    answers = services.ledger.lease_all([(run.ref, first_lease(NOON + MINUTE)) for run in wanted])
    assert {ref for ref, moved in answers.items() if moved.applied} == {run.ref for run in many}
    for run in many:
        leased = answers[run.ref].run
        assert leased == services.ledger.read(run.ref)
        assert leased is not None
        assert (leased.state, leased.fence, leased.attempt, leased.slices) == (RunState.RUNNING, 1, 1, 0)
        assert (leased.started_at, leased.lease_until) == (NOON + MINUTE, NOON + MINUTE + LEASE)
    for run in (early, held, gone):
        assert answers[run.ref].run == services.ledger.read(run.ref)


def test_the_row_of_a_known_run_is_what_its_revision_and_its_lease_say(services: Services) -> None:
    """So it need not come back; a refusal's does."""
    known, refused = a_run(NOON), a_run(NOON + SECOND)
    services.ledger.claim([known, refused])
    lease_of(services, refused)
    wanted = first_lease(NOON + MINUTE)
    answers = services.ledger.lease_all([(run.ref, wanted) for run in (known, refused)], known=[known.ref, refused.ref])
    assert {ref: moved.applied for ref, moved in answers.items()} == {known.ref: True, refused.ref: True}, "one token"
    others = [(run.ref, first_lease(NOON + MINUTE, token="other")) for run in (known, refused)]
    for moved in services.ledger.lease_all(others, known=[known.ref, refused.ref]).values():
        assert not moved.applied
        assert moved.run is not None
    there = services.ledger.read(known.ref)
    assert there == replace(
        first_run(a_message(known), RunSpec(job=known.job, due=known.due), wanted), created_at=known.created_at
    )
    assert answers[known.ref].run in (None, there)


def test_a_queued_row_and_its_lease_say_how_the_row_is_afterwards(services: Services) -> None:
    """So that of a one-off, whose row was read with its batch, need not come back either."""
    one_off = a_one_off(payload='{"n": 1}', timezone="Europe/Berlin", actor="ops")
    services.ledger.submit(one_off)
    queued, wanted = services.ledger.read(one_off.ref), first_lease(LATER, revision=one_off.revision)
    assert queued is not None
    assert services.ledger.lease_all([(one_off.ref, wanted)], known=[one_off.ref])[one_off.ref].applied
    leased = first_run(a_message(one_off), of_one_off(queued), wanted, queued)
    assert services.ledger.read(one_off.ref) == leased


def test_the_same_batch_of_leases_twice_is_one_lease_each(services: Services) -> None:
    runs = [a_run(NOON + i * SECOND) for i in range(3)]
    services.ledger.claim(runs)
    leases = [(run.ref, first_lease(NOON + MINUTE, token=f"t{i}")) for i, run in enumerate(runs)]
    assert services.ledger.lease_all(leases) == services.ledger.lease_all(leases)
    others = [(ref, first_lease(NOON + MINUTE, token="other")) for ref, _ in leases]
    assert not any(moved.applied for moved in services.ledger.lease_all(others).values())


def test_a_batch_leases_only_what_nobody_has_had(services: Services, run: RunRow) -> None:
    lease_of(services, run)
    services.ledger.move(run.ref, release(fence=1, now=NOON))
    (moved,) = services.ledger.lease_all([(run.ref, first_lease(LATER))]).values()
    assert not moved.applied
    assert moved.run is not None
    assert (moved.run.state, moved.run.fence) == (RunState.RETRYING, 1)


def test_no_lease_on_a_run_that_is_not_there(services: Services) -> None:
    moved = try_lease(services, a_run(owner="acme/nothing"))
    assert (moved.applied, moved.run) == (False, None)


def test_no_second_lease_while_one_lives(services: Services, run: RunRow) -> None:
    lease_of(services, run)
    for now in (NOON, NOON + LEASE, OVER - 1):
        moved = try_lease(services, run, now=now, token="t2")
        assert not moved.applied
        assert moved.run is not None
        assert (moved.run.state, moved.run.lease_token) == (RunState.RUNNING, "t1")


def test_an_abandoned_lease_may_be_stolen(services: Services, run: RunRow) -> None:
    lease_of(services, run)
    stolen = lease_of(services, run, now=OVER, token="t2")
    assert (stolen.fence, stolen.attempt, stolen.started_at) == (2, 2, NOON)


def test_an_abandoned_lease_is_not_stolen_where_it_must_not_be(services: Services, run: RunRow) -> None:
    lease_of(services, run, steal=False)
    assert not try_lease(services, run, now=OVER, token="t2", steal=False).applied


def test_no_lease_beyond_the_attempts(services: Services, run: RunRow) -> None:
    lease_of(services, run, max_attempts=1)
    assert not try_lease(services, run, now=OVER, token="t2", max_attempts=1).applied


def test_no_lease_once_it_was_cancelled(engine: Engine) -> None:
    run = a_run()
    engine.services.ledger.claim([run])
    _request_cancellation(engine, run)
    moved = try_lease(engine.services, run)
    assert not moved.applied
    assert moved.run is not None
    assert moved.run.cancel_requested
    assert engine.services.ledger.move(run.ref, cancel_waiting(now=NOON, expires=LATER, reason="requested")).applied
    assert state(engine.services, run) is RunState.CANCELLED


def _request_cancellation(engine: Engine, run: RunRow) -> None:
    """As a later release's `cancel` writes it."""
    if engine.settings is None:
        engine.memory.put_row(run.ref, (engine.memory.row(run.ref) or {}) | {"cancel_requested": True})
        return
    engine.clients["dynamodb"].update_item(
        TableName=engine.settings.table("runs"),
        Key={"owner": {"S": run.ref.owner}, "key": {"S": run.ref.key}},
        UpdateExpression="SET cancel_requested = :yes",
        ExpressionAttributeValues={":yes": {"BOOL": True}},
    )


@pytest.mark.parametrize("ended", ["succeed", "die", "lose"])
def test_no_lease_on_what_has_ended(services: Services, run: RunRow, ended: str) -> None:
    lease_of(services, run)
    how: dict[str, Any] = {
        "succeed": succeed(fence=1, now=NOON, expires=LATER),
        "die": die(fence=1, now=NOON, expires=LATER, reason="failed", failure=BOOM),
        "lose": lose(now=OVER, expires=LATER, token="t1"),
    }
    assert services.ledger.move(run.ref, how[ended]).applied
    assert not try_lease(services, run, now=OVER + HOUR).applied


def test_a_retry_is_leased_at_its_time_and_not_before(services: Services, run: RunRow) -> None:
    lease_of(services, run)
    services.ledger.move(run.ref, retry(fence=1, not_before=NOON + MINUTE, failure=BOOM))
    assert not try_lease(services, run, now=NOON + MINUTE - 1, token="t2").applied
    again = lease_of(services, run, now=NOON + MINUTE, token="t2")
    assert (again.fence, again.attempt, again.started_at, again.reason) == (2, 2, NOON, None)


def test_the_same_lease_twice_is_one_lease(services: Services, run: RunRow) -> None:
    """Its answer got lost and it is asked for again: applied, and nothing moves a second time."""
    first = lease_of(services, run)
    assert lease_of(services, run) == first


def test_the_fence_only_grows(services: Services, run: RunRow) -> None:
    fences, now = [], NOON
    for number in range(4):
        leased = lease_of(services, run, now=now, token=f"t{number}", max_attempts=9)
        fences.append(leased.fence)
        assert services.ledger.move(run.ref, release(fence=leased.fence, now=now)).applied
        now += SECOND
    assert fences == [1, 2, 3, 4]


# Under the fence.


def test_a_heartbeat_extends_the_holders_lease_only(services: Services, run: RunRow) -> None:
    lease_of(services, run)
    renewed = services.ledger.move(run.ref, renew(fence=1, now=NOON + 20 * SECOND))
    assert renewed.applied
    assert renewed.run is not None
    assert renewed.run.lease_until == NOON + 20 * SECOND + LEASE
    assert not services.ledger.move(run.ref, renew(fence=2, now=NOON + HOUR)).applied
    assert not try_lease(services, run, now=OVER, token="t2").applied


def test_success_is_recorded_once(services: Services, run: RunRow) -> None:
    lease_of(services, run)
    done = services.ledger.move(run.ref, succeed(fence=1, now=NOON + 7, expires=LATER))
    assert done.applied
    assert done.run is not None
    assert (done.run.state, done.run.ended_at, done.run.lease_until) == (RunState.SUCCEEDED, NOON + 7, None)
    assert services.ledger.move(run.ref, succeed(fence=1, now=NOON + 9, expires=LATER)).applied, "its answer got lost"
    ended = services.ledger.read(run.ref)
    assert ended is not None
    assert ended.ended_at == NOON + 7


@pytest.mark.parametrize("write", ["succeed", "retry", "release", "die", "renew"])
def test_a_stale_worker_writes_nothing(services: Services, run: RunRow, write: str) -> None:
    lease_of(services, run)
    lease_of(services, run, now=OVER, token="t2")
    stale: dict[str, Any] = {
        "succeed": succeed(fence=1, now=OVER, expires=LATER),
        "retry": retry(fence=1, not_before=OVER, failure=BOOM),
        "release": release(fence=1, now=OVER),
        "die": die(fence=1, now=OVER, expires=LATER, reason="failed", failure=BOOM),
        "renew": renew(fence=1, now=OVER),
    }
    moved = services.ledger.move(run.ref, stale[write])
    assert not moved.applied
    assert moved.run is not None
    assert (moved.run.state, moved.run.fence, moved.run.lease_token) == (RunState.RUNNING, 2, "t2")


def test_a_failed_attempt_keeps_its_failure_in_short(services: Services, run: RunRow) -> None:
    lease_of(services, run)
    moved = services.ledger.move(run.ref, retry(fence=1, not_before=NOON + MINUTE, failure=BOOM))
    assert moved.run is not None
    assert (moved.run.state, moved.run.not_before, moved.run.reason) == (RunState.RETRYING, NOON + MINUTE, "failed")
    assert moved.run.failure is not None
    assert (moved.run.failure.kind, moved.run.failure.message) == ("ValueError", "boom")


def test_a_released_run_has_spent_no_attempt(services: Services, run: RunRow) -> None:
    lease_of(services, run, max_attempts=1)
    services.ledger.move(run.ref, release(fence=1, now=NOON + 3))
    again = lease_of(services, run, now=NOON + 3, token="t2", max_attempts=1)
    assert (again.fence, again.attempt) == (2, 1)


# What others find.


def test_exhaustion_needs_spent_attempts_and_an_abandoned_lease(services: Services, run: RunRow) -> None:
    lease_of(services, run, max_attempts=1)

    def spent(now: int, attempts: int = 1, fence: int = 1) -> bool:
        end = exhaust(
            now=now, expires=LATER, max_attempts=attempts, fence=fence, reason="worker vanished", failure=None
        )
        return services.ledger.move(run.ref, end).applied

    assert not spent(OVER - 1)
    assert not spent(OVER, attempts=2)
    assert not spent(OVER, fence=2)
    assert spent(OVER)
    assert state(services, run) is RunState.DEAD


def test_an_at_most_once_run_is_lost_with_its_very_lease(services: Services, run: RunRow) -> None:
    lease_of(services, run, token="mine")
    assert not services.ledger.move(run.ref, lose(now=OVER - 1, expires=LATER, token="mine")).applied
    assert not services.ledger.move(run.ref, lose(now=OVER, expires=LATER, token="another")).applied
    assert services.ledger.move(run.ref, lose(now=OVER, expires=LATER, token="mine")).applied
    assert state(services, run) is RunState.LOST


def test_an_unknown_job_ends_a_waiting_run_only(services: Services, run: RunRow) -> None:
    end = give_up(revision=1, now=NOON, expires=LATER, reason="unknown job", failure=BOOM)
    other = give_up(revision=2, now=NOON, expires=LATER, reason="unknown job", failure=BOOM)
    assert not services.ledger.move(run.ref, other).applied
    lease_of(services, run)
    assert not services.ledger.move(run.ref, end).applied
    services.ledger.move(run.ref, release(fence=1, now=NOON))
    assert services.ledger.move(run.ref, end).applied
    assert state(services, run) is RunState.DEAD


def test_a_verdict_is_recorded_once(services: Services, run: RunRow) -> None:
    lease_of(services, run)

    def verdict(now: int, fence: int = 1) -> bool:
        to = bury(fence=fence, now=now, expires=LATER, reason="failed", failure=BOOM)
        return services.ledger.move(run.ref, to).applied

    assert not verdict(NOON, fence=0)
    assert verdict(NOON + 1)
    assert not verdict(NOON + 2)
    buried = services.ledger.read(run.ref)
    assert buried is not None
    assert (buried.state, buried.buried_at) == (RunState.DEAD, NOON + 1)


def test_a_verdict_on_a_settled_run_only_adds_the_record(services: Services, run: RunRow) -> None:
    lease_of(services, run)
    services.ledger.move(run.ref, die(fence=1, now=NOON, expires=LATER, reason="failed", failure=BOOM))
    moved = services.ledger.move(run.ref, bury(fence=1, now=NOON + 1, expires=LATER, reason="failed", failure=BOOM))
    assert moved.applied


def test_a_verdict_is_not_needed_once_the_run_succeeded(services: Services, run: RunRow) -> None:
    lease_of(services, run)
    services.ledger.move(run.ref, succeed(fence=1, now=NOON, expires=LATER))
    assert not services.ledger.move(
        run.ref, bury(fence=1, now=NOON + 1, expires=LATER, reason="failed", failure=None)
    ).applied


# Expiry.


def _ttl(engine: Engine, run: RunRow, suffix: str = "") -> int | None:
    key = f"#{run.ref.key}{suffix}" if suffix else run.ref.key
    if engine.settings is None:
        row = engine.memory._tables[RUNS].get(run.ref.owner, key) or {}
        return row.get("ttl")
    item = engine.clients["dynamodb"].get_item(
        TableName=engine.settings.table("runs"), Key={"owner": {"S": run.ref.owner}, "key": {"S": key}}
    )["Item"]
    return int(item["ttl"]["N"]) if "ttl" in item else None


def test_only_what_has_ended_expires(engine: Engine) -> None:
    run = a_one_off(payload='"' + "x" * 500 + '"')
    services = engine.services
    services.ledger.submit(run)
    lease_of(services, run)
    services.ledger.move(run.ref, retry(fence=1, not_before=NOON, failure=BOOM))
    assert (_ttl(engine, run), _ttl(engine, run, "#payload")) == (None, None)
    lease_of(services, run, token="t2")
    services.ledger.move(run.ref, succeed(fence=2, now=NOON, expires=LATER))
    assert (_ttl(engine, run), _ttl(engine, run, "#payload")) == (LATER // 1000, LATER // 1000)
