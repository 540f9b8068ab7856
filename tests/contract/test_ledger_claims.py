"""Claims and one-offs: a key is taken once, whoever asks, and each item of a batch has its own answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from quarterjack.domain.run import RunState
from quarterjack.domain.times import MINUTE
from quarterjack.ports.services import Services
from quarterjack.state.before_start import refuse, take_over
from quarterjack.state.lease import succeed

from tests.support.builders import NOON, OWNER, a_one_off, a_run
from tests.support.lease_steps import HOUR, lease_of


def test_a_claim_puts_the_run(services: Services) -> None:
    run = a_run()
    claimed = services.ledger.claim([run])
    assert claimed.created == {run.ref}
    assert not claimed.existing
    assert services.ledger.read(run.ref) == run


def test_no_claims_are_no_call(services: Services) -> None:
    claimed = services.ledger.claim([])
    assert (claimed.created, dict(claimed.existing)) == (frozenset(), {})


def test_a_batch_of_created_and_existing_is_answered_one_by_one(services: Services) -> None:
    runs = [a_run(NOON + i * MINUTE) for i in range(60)]  # three batches of 25
    services.ledger.claim(runs[::7])
    claimed = services.ledger.claim([a_run(run.due, revision=2) for run in runs])
    assert set(claimed.existing) == {run.ref for run in runs[::7]}
    assert claimed.created == {run.ref for run in runs} - set(claimed.existing)
    assert {run.revision for run in claimed.existing.values()} == {1}


def test_an_existing_run_is_shown_as_it_is_now(services: Services) -> None:
    run = a_run()
    services.ledger.claim([run])
    fence = lease_of(services, run).fence
    services.ledger.move(run.ref, succeed(fence=fence, now=NOON + 5, expires=NOON + HOUR))
    there = services.ledger.claim([a_run()]).existing[run.ref]
    assert (there.state, there.fence, there.ended_at) == (RunState.SUCCEEDED, 1, NOON + 5)


def test_claiming_again_changes_nothing(services: Services) -> None:
    run = a_run()
    services.ledger.claim([run])
    services.ledger.claim([a_run(revision=9, job="other")])
    assert services.ledger.read(run.ref) == run


# Take-over.


def test_a_newer_revision_takes_over_what_is_queued(services: Services) -> None:
    runs = [a_run(NOON + i * MINUTE) for i in range(30)]
    services.ledger.claim(runs)
    moves = [
        (run.ref, take_over(revision=2, job="other", not_before=run.due, now=NOON + 1, seen=RunState.QUEUED))
        for run in runs
    ]
    assert services.ledger.move_all(moves) == {run.ref: True for run in runs}
    taken = services.ledger.read(runs[0].ref)
    assert taken is not None
    assert (taken.state, taken.revision, taken.job, taken.created_at) == (RunState.QUEUED, 2, "other", NOON + 1)


def test_a_take_over_revives_what_a_change_refused(services: Services) -> None:
    run = a_run()
    services.ledger.claim([run])
    to = refuse(to=RunState.CANCELLED, revision=1, now=NOON, expires=NOON + HOUR, reason="paused")
    assert services.ledger.move_all([(run.ref, to)]) == {run.ref: True}
    refused = services.ledger.read(run.ref)
    assert refused is not None
    assert (refused.state, refused.reason, refused.unstarted) == (RunState.CANCELLED, "paused", True)
    back = take_over(revision=2, job="report", not_before=NOON, now=NOON + 1, seen=RunState.CANCELLED)
    assert services.ledger.move_all([(run.ref, back)]) == {run.ref: True}
    again = services.ledger.read(run.ref)
    assert again is not None
    assert (again.state, again.reason, again.unstarted, again.ended_at) == (RunState.QUEUED, None, False, None)


@pytest.mark.parametrize("stopped", [False, True])
def test_a_chain_takes_over_what_a_backfill_of_its_revision_claimed(services: Services, *, stopped: bool) -> None:
    run = replace(a_run(), backfill="one", defined_by=1)
    services.ledger.claim([run])
    if stopped:
        to = refuse(to=RunState.CANCELLED, revision=1, now=NOON, expires=NOON + HOUR, reason="backfill cancelled")
        assert services.ledger.move_all([(run.ref, to)]) == {run.ref: True}
    seen = RunState.CANCELLED if stopped else RunState.QUEUED
    words: dict[str, Any] = {"revision": 1, "job": "report", "not_before": NOON, "now": NOON + 1, "seen": seen}
    for backfill, applied in (("other", False), ("one", True), ("one", True)):
        assert services.ledger.move_all([(run.ref, take_over(**words, backfill=backfill))]) == {run.ref: applied}
    taken = services.ledger.read(run.ref)
    assert taken is not None
    assert (taken.state, taken.backfill, taken.defined_by, taken.unstarted) == (RunState.QUEUED, None, None, False)


def test_a_take_over_is_refused_by_what_started_or_is_newer(services: Services) -> None:
    started, newer, gone = a_run(NOON), a_run(NOON + MINUTE, revision=3), a_run(NOON + 2 * MINUTE)
    services.ledger.claim([started, newer])
    lease_of(services, started)
    moves = [
        (run.ref, take_over(revision=2, job="report", not_before=run.due, now=NOON, seen=RunState.QUEUED))
        for run in (started, newer, gone)
    ]
    assert services.ledger.move_all(moves) == {run.ref: False for run in (started, newer, gone)}
    assert services.ledger.read(gone.ref) is None


def test_a_refusal_spares_newer_revisions(services: Services) -> None:
    old, new = a_run(NOON, revision=1), a_run(NOON + MINUTE, revision=3)
    services.ledger.claim([old, new])
    to = refuse(to=RunState.SUPERSEDED, revision=2, now=NOON, expires=NOON + HOUR, reason="replaced")
    assert services.ledger.move_all([(old.ref, to), (new.ref, to)]) == {old.ref: True, new.ref: False}


def test_no_moves_are_no_call(services: Services) -> None:
    assert services.ledger.move_all([]) == {}


# One-offs.


def test_a_one_off_is_put_once(services: Services) -> None:
    run = a_one_off()
    assert services.ledger.submit(run) is None
    assert services.ledger.submit(a_one_off(job="other")) == run
    assert services.ledger.read(run.ref) == run


def test_a_large_payload_lies_beside_the_run_and_comes_back_with_it(services: Services) -> None:
    run = a_one_off(payload='"' + "x" * 5_000 + '"')
    assert services.ledger.submit(run) is None
    there = replace(run, payload_beside=True)
    assert services.ledger.read(run.ref) == there
    assert services.ledger.submit(a_one_off(payload='"other"')) == there
    (listed,) = services.ledger.page(
        run.ref.owner, after=None, upto=None, limit=9, cursor=None, newest_first=False
    ).items or [run]
    assert listed.ref == run.ref


def test_a_large_payload_does_not_travel_with_every_transition(services: Services) -> None:
    run = a_one_off(payload='"' + "x" * 5_000 + '"')
    services.ledger.submit(run)
    leased = lease_of(services, run)
    assert leased.payload is None
    services.ledger.move(run.ref, succeed(fence=1, now=NOON, expires=NOON + HOUR))
    done = services.ledger.read(run.ref)
    assert done is not None
    assert (done.state, done.payload) == (RunState.SUCCEEDED, run.payload)


def test_one_offs_of_one_key_lie_beside_schedules_of_that_name(services: Services) -> None:
    one, scheduled = a_one_off("report"), a_run(owner=OWNER)
    services.ledger.submit(one)
    services.ledger.claim([scheduled])
    assert services.ledger.read(one.ref) == one
    assert services.ledger.read(scheduled.ref) == scheduled
