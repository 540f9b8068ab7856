"""What a restore asks of the tables: the gate of the layout, the owners of revisions, the transitions of runs, the epoch of a lease."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from quarterjack.domain.history.transition_line import TransitionKind, TransitionLine
from quarterjack.domain.run import EPOCH, UNTIL_DECIDED, RunRow, RunState
from quarterjack.domain.times import DAY
from quarterjack.errors import Misconfigured
from quarterjack.ports.services import Services
from quarterjack.restore.fates import UnknownEnd, end_as, hold, keep
from quarterjack.state.ending import expire, hasten
from quarterjack.state.lease import lease, renew
from quarterjack.stores.agenda import Agenda

from tests.support.builders import NOON, a_head, a_revision, a_run

ASKED: dict[str, Any] = {
    "revision": 1,
    "now": NOON + DAY,
    "token": "t",
    "worker": "w",
    "max_attempts": 3,
    "steal": True,
}


def test_tables_of_another_name_are_not_taken_before_they_are_adopted(services: Services) -> None:
    services.agenda.layout()
    other = Agenda(services.agenda._tables, shards=4, clock=lambda: NOON, name="restored")
    with pytest.raises(Misconfigured, match="restored-… were restored and are not reconciled"):
        other.layout()
    other.restore()
    assert other.layout().shards == 4
    assert other.adopt(7)
    assert other.adopt(7)
    fresh = Agenda(services.agenda._tables, shards=4, clock=lambda: NOON, name="restored")
    assert (fresh.layout().epoch, fresh.layout().tables) == (7, "restored")
    with pytest.raises(Misconfigured, match="not reconciled"):
        services.agenda.layout(fresh=True)


def test_the_owners_of_all_revisions(services: Services) -> None:
    for name in ("a", "b"):
        head, revision = a_head(name=name), a_revision(name=name)
        assert services.schedules.arm(head, expected=0, previous=None, revision=revision, entry=None)
    assert sorted(services.upkeep.revised()) == ["acme/a", "acme/b"]


def put(services: Services) -> RunRow:
    run = a_run()
    assert run.ref in services.ledger.claim([run]).created
    return run


def test_a_held_run_starts_when_it_is_hastened_and_for_no_message_of_before(services: Services) -> None:
    run = put(services)
    for _ in range(2):  # an answer may be lost
        held = services.ledger.move(run.ref, hold(run, epoch=5, why=UnknownEnd.BEGAN))
        assert held.applied
    assert held.run is not None
    assert held.run.is_undecided
    assert (held.run.fence, held.run.not_before) == (5 * EPOCH, UNTIL_DECIDED)
    assert not services.ledger.move(run.ref, lease(seen_fence=5 * EPOCH, **ASKED)).applied
    late = expire(revision=1, seen_fence=0, now=NOON + DAY, expires=NOON + DAY, reason="deadline passed")
    assert not services.ledger.move(run.ref, late).applied
    assert services.ledger.move(run.ref, hasten(now=NOON)).applied
    assert not services.ledger.move(run.ref, lease(**ASKED)).applied
    leased = services.ledger.move(run.ref, lease(seen_fence=5 * EPOCH, **ASKED))
    assert leased.applied
    assert leased.run is not None
    assert (leased.run.fence, leased.run.leases) == (5 * EPOCH + 1, 1)
    assert not services.ledger.move(run.ref, renew(fence=1, now=NOON)).applied


def test_a_kept_run_is_as_it_was_under_another_fence(services: Services) -> None:
    run = put(services)
    kept = services.ledger.move(run.ref, keep(run, epoch=5))
    assert kept.applied
    assert kept.run == replace(run, fence=5 * EPOCH)
    assert not services.ledger.move(run.ref, keep(replace(run, state=RunState.RETRYING), epoch=6)).applied


def test_a_run_ends_as_the_archive_says(services: Services) -> None:
    run = put(services)
    line = TransitionLine(
        ref=run.ref,
        kind=TransitionKind.SUCCEEDED,
        sequence=9,
        at=NOON + 5_000,
        job=run.job,
        revision=run.revision,
        fence=2,
        attempt=2,
        after=RunState.SUCCEEDED,
        worker="w",
        started_at=NOON + 1_000,
        ended_at=NOON + 5_000,
    )
    ended = services.ledger.move(run.ref, end_as(run, line, retention=DAY))
    assert ended.applied
    assert ended.run is not None
    assert (ended.run.state, ended.run.ended_at, ended.run.started_at) == (
        RunState.SUCCEEDED,
        NOON + 5_000,
        NOON + 1_000,
    )
    assert (ended.run.fence, ended.run.attempt, ended.run.worker) == (2, 2, "w")
