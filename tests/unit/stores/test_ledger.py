"""The ledger: a key is claimed once, a transition is applied once, listings keep to their bounds."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest
from quarterjack.domain.run import AgendaEntry, EntryKind, RunRow, RunState
from quarterjack.domain.times import DAY, MINUTE, SECOND
from quarterjack.ports.services import Services
from quarterjack.state.before_start import reschedule
from quarterjack.state.ending import cancel, request_cancel
from quarterjack.state.lease import succeed
from quarterjack.stores.rows import run_row
from quarterjack.stores.siblings import INLINE_PAYLOAD
from quarterjack.testing.memory.calls import Detail, Hook
from quarterjack.testing.memory.installation import RETENTION, Memory

from tests.support.builders import NOON, OWNER, a_one_off, a_run, an_audit_entry
from tests.support.lease_steps import first_lease, lease_of

LARGE = '"' + "x" * INLINE_PAYLOAD + '"'
FIRES = [NOON + minute * MINUTE for minute in range(4)]


def claimed(services: Services) -> list[RunRow]:
    """Runs at FIRES; the second has succeeded."""
    runs = [a_run(fire) for fire in FIRES]
    services.ledger.claim(runs)
    fence = lease_of(services, runs[1]).fence
    services.ledger.move(runs[1].ref, succeed(fence=fence, now=FIRES[1], expires=FIRES[1] + DAY))
    return runs


def fires(found: Any) -> list[int]:
    return [run.due for run in found]


def test_a_key_is_claimed_once_and_keeps_its_first_row(services: Services) -> None:
    run = a_run()
    assert services.ledger.claim([run]).created == {run.ref}
    again = services.ledger.claim([a_run(revision=9)])
    assert (again.created, again.existing[run.ref]) == (frozenset(), run)


def test_a_claim_that_meets_garbage_says_so(memory: Memory) -> None:
    run = a_run()
    memory.put_row(run.ref, run_row(run) | {"state": "SOMEWHERE"})
    answer = memory.connect().ledger.claim([run])
    assert answer.unreadable
    assert [*answer.unreadable, *answer.created, *answer.existing] == [run.ref]


def test_a_fire_that_is_claimed_as_missed_expires_after_the_retention(memory: Memory) -> None:
    missed, queued = a_run(state=RunState.SKIPPED), a_run(NOON + MINUTE)
    memory.connect().ledger.claim([missed, queued])
    row, other = memory.row(missed.ref), memory.row(queued.ref)
    assert row is not None
    assert other is not None
    assert row["ttl"] == (NOON + RETENTION) // SECOND
    assert "ttl" not in other, "a row that is not terminal never expires"


def test_a_run_is_put_with_its_line_or_shown(services: Services) -> None:
    run = a_run()
    assert services.ledger.put(run, an_audit_entry()) is None
    assert services.ledger.put(a_run(revision=9), an_audit_entry(at=NOON + 1)) == run
    assert len(list(services.audit.entries("acme", NOON // DAY))) == 1


@pytest.mark.parametrize("payload", ['"small"', LARGE])
def test_a_one_off_is_put_once_with_its_payload(services: Services, payload: str) -> None:
    run = a_one_off(payload=payload)
    assert services.ledger.submit(run) is None
    found = services.ledger.submit(a_one_off(payload='"another"'))
    assert found is not None
    assert found.payload == payload
    (looked,) = services.ledger.look([run.ref], whole=True).found.values()
    assert looked.payload == payload


def test_a_large_payload_lies_beside_the_row_and_expires_with_it(memory: Memory) -> None:
    services, run = memory.connect(), a_one_off(payload=LARGE)
    services.ledger.submit(run)
    row = memory.row(run.ref)
    assert row is not None
    assert "payload" not in row
    assert services.ledger.move(run.ref, cancel(now=NOON, expires=NOON + DAY)).applied
    beside = memory.row(run.ref._replace(key=f"#{run.ref.key}#payload"))
    assert beside is not None
    assert beside["ttl"] == (NOON + DAY) // SECOND


def test_a_transition_is_refused_with_the_row_as_it_is(services: Services) -> None:
    run = a_run()
    services.ledger.claim([run])
    leased = lease_of(services, run)
    late = services.ledger.move(run.ref, succeed(fence=leased.fence + 1, now=NOON, expires=NOON + DAY))
    assert (late.applied, late.run) == (False, leased)
    missing = services.ledger.move(a_run(NOON + 1).ref, request_cancel())
    assert (missing.applied, missing.run) == (False, None)


def test_a_transition_whose_response_was_lost_counts_as_applied(services: Services) -> None:
    run = a_run()
    services.ledger.claim([run])
    done = succeed(fence=lease_of(services, run).fence, now=NOON, expires=NOON + DAY)
    assert services.ledger.move(run.ref, done).applied
    assert services.ledger.move(run.ref, done).applied
    assert services.ledger.move_all([(run.ref, done)]) == {run.ref: True}


def test_a_run_is_moved_to_another_time_with_its_entry(memory: Memory) -> None:
    services, run = memory.connect(), a_one_off()
    services.ledger.submit(run)
    old, new = (AgendaEntry(shard=0, due=due, kind=EntryKind.RUN, id=str(run.ref)) for due in (NOON, NOON + DAY))
    services.agenda.put([old])
    to = reschedule(revision=0, due=NOON + DAY)
    moved = services.ledger.reschedule(run.ref, to, put=new, remove=old, audit=an_audit_entry(str(run.ref)))
    assert moved.applied
    assert memory.entries() == [new]


def test_a_batch_of_leases_answers_for_each_run(services: Services) -> None:
    runs = [a_run(fire) for fire in FIRES[:3]]
    services.ledger.claim(runs[:2])
    answers = services.ledger.lease_all([(run.ref, first_lease(run.due)) for run in runs], known=[runs[0].ref])
    assert [answers[run.ref].applied for run in runs] == [True, True, False]
    assert answers[runs[0].ref].run is None, "a known run is not read again"
    leased = answers[runs[1].ref].run
    assert leased is not None
    assert (leased.state, leased.fence) == (RunState.RUNNING, 1)
    refused = services.ledger.lease_all([(runs[0].ref, first_lease(token="t2"))])[runs[0].ref]
    assert (refused.applied, refused.run is not None) == (False, True)


class Unanswered(Hook):
    """The second key of each batch of reads is not answered."""

    def before_call(self, operation: str, detail: Detail) -> Collection[int]:
        return [1] if detail.verb == "look" and len(detail.items) > 1 else ()


def test_a_batch_read_tells_what_is_missing_from_what_was_not_answered(memory: Memory) -> None:
    runs = [a_run(fire) for fire in FIRES]
    memory.connect().ledger.claim(runs[:2])
    memory.put_row(runs[3].ref, run_row(runs[3]) | {"state": "SOMEWHERE"})
    answer = memory.connect().ledger.look([run.ref for run in runs])
    assert set(answer.found) == {runs[0].ref, runs[1].ref}
    assert answer.unanswered == {runs[3].ref}, "garbage is no answer; a run that is not there is"
    throttled = memory.connect(Unanswered(), rounds=1).ledger.look([run.ref for run in runs[:2]])
    assert [*throttled.found, *throttled.unanswered] == [runs[0].ref, runs[1].ref]


def test_listings_keep_to_their_intervals(services: Services) -> None:
    claimed(services)
    ledger = services.ledger
    assert fires(ledger.window(OWNER, after=FIRES[0], upto=FIRES[2])) == FIRES[1:3]
    assert fires(ledger.never_leased(OWNER, after=None)) == [FIRES[0], FIRES[2], FIRES[3]]
    assert fires(ledger.never_leased(OWNER, after=FIRES[0])) == [FIRES[2], FIRES[3]]
    assert fires(ledger.latest(OWNER, upto=FIRES[2])) == FIRES[2::-1]
    assert fires(ledger.succeeded(OWNER, after=NOON - 1, upto=FIRES[3])) == [FIRES[1]]
    assert fires(ledger.window(OWNER, after=FIRES[2], upto=FIRES[1])) == []
    assert {
        owner: fires(runs) for owner, runs in ledger.last_runs([OWNER, "acme/x"], upto=FIRES[2], limit=2).items()
    } == {
        OWNER: [FIRES[2], FIRES[1]],
        "acme/x": [],
    }


@pytest.mark.parametrize("newest_first", [False, True])
def test_pages_of_runs_go_on_where_they_ended(services: Services, newest_first: bool) -> None:
    claimed(services)
    seen, cursor = list[int](), None
    for _ in range(2):
        page = services.ledger.page(OWNER, after=None, upto=None, limit=2, cursor=cursor, newest_first=newest_first)
        seen, cursor = seen + fires(page.items), page.cursor
    assert seen == sorted(FIRES, reverse=newest_first)
    assert cursor is None
