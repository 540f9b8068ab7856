"""Messages, letters and rows that a restore has outdated end and start nothing that waits for its owner's decision."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from quarterjack import Registry
from quarterjack.domain.history.transition_line import TransitionKind, TransitionLine
from quarterjack.domain.run import EPOCH, RunRow, RunState
from quarterjack.domain.times import DAY, HOUR, MINUTE
from quarterjack.restore.fates import Fate, UnknownEnd, decide
from quarterjack.stores.tables import TABLES
from quarterjack.testing.process import Hand, bury_all, make_worker
from quarterjack.undertaker.bury import RETURNS

from tests.support.builders import NOON, a_run
from tests.support.scenes.restored import Restored


def a_held_fire(**options: Any) -> tuple[Restored, RunRow]:
    """A fire that was sent, and is held since; its message is still in the queue."""
    shop = Restored()
    shop.scheduler.create_schedule("often", "note", "0 * * * *", **options)
    shop.harness.advance(minutes=58)
    (message,) = shop.memory.messages()
    point = shop.lose(shop.cuts(*[len(shop.journal.writes)] * len(TABLES)))
    shop.clock.advance(timedelta(minutes=20))
    shop.restore(point)
    (held,) = shop.held()
    assert held.ref == message.run
    return shop, held


def row_of(shop: Restored, run: RunRow) -> RunRow:
    return next(row for row in shop.memory.runs() if row.ref == run.ref)


def test_a_message_of_before_does_not_expire_it() -> None:
    shop, held = a_held_fire(deadline=60.0)
    shop.harness.advance(minutes=5)
    assert row_of(shop, held) == held
    assert held.ref not in [message.run for message in shop.memory.messages()]


def test_a_message_of_before_whose_job_nobody_knows_goes() -> None:
    shop, held = a_held_fire()
    worker = make_worker(shop.memory.connect(), Registry(), shop.clock, wait=lambda seconds: None)
    for _ in range(20):
        Hand(worker=worker).work()
        shop.clock.advance(timedelta(minutes=1))
    assert held.ref not in [message.run for message in shop.memory.messages()]
    bury_all(shop.memory.connect(), shop.clock)
    assert row_of(shop, held) == held


def test_a_message_of_before_does_not_give_it_up() -> None:
    """Its payload has left the bucket: so a worker ends a run whose message is its own."""
    shop, held = a_held_fire(payload={"text": "x" * 250_000})
    services = shop.memory.connect()
    revision = next(services.schedules.history(held.ref.owner))
    services.payloads.remove([revision.definition.payload_ref or ""])
    shop.harness.advance(minutes=5)
    assert row_of(shop, held) == held
    shop.scheduler.retry_run(str(held.ref))
    shop.harness.advance(minutes=1)
    assert row_of(shop, held).state is RunState.DEAD


def test_a_message_of_before_in_the_dead_letter_queue_does_not_bury_it() -> None:
    shop, held = a_held_fire()
    services = shop.memory.connect()
    (message,) = shop.memory.messages()
    shop.memory.dead.put(replace(message, returned=RETURNS).encode())
    assert bury_all(services, shop.clock) == 1
    assert row_of(shop, held) == held


@pytest.mark.parametrize("told", [False, True])
def test_a_run_that_failed_for_good_is_listed_and_its_letter_recorded(told: bool) -> None:
    """Before the point nothing had failed. The letter of the failure is in the queue, or was recorded since."""
    shop = Restored()
    run = shop.scheduler.submit("note", {"fails": 9}, delay=60)
    shop.harness.advance(minutes=5)
    cut = len(shop.journal.writes)
    with pytest.MonkeyPatch.context() as patched:
        if not told:
            patched.setattr("quarterjack.testing.harness.bury_all", lambda services, clock: 0)
            patched.setattr(shop.memory.dead, "next_visible", lambda: None)  # so nobody waits for its letters
        shop.harness.advance(minutes=30)
    point = shop.lose(shop.cuts(*[cut] * len(TABLES)))
    assert len(shop.memory.dead) == (not told)
    shop.clock.advance(timedelta(minutes=20))
    shop.restore(point)
    shop.harness.advance(minutes=5)
    (dead,) = shop.scheduler.list_dead().items
    assert (dead.id, dead.state) == (run.id, RunState.DEAD)
    (row,) = [row for row in shop.memory.runs() if str(row.ref) == run.id]
    assert row.buried_at is not None


def test_a_run_whose_payload_is_lost_is_listed() -> None:
    shop = Restored()
    shop.scheduler.create_schedule("often", "note", "0 * * * *")  # so that the tables know the tenant
    cut = len(shop.journal.writes)
    run = shop.scheduler.submit("note", {}, delay=9_000)
    point = shop.lose(shop.cuts(*[cut] * len(TABLES)))
    shop.clock.advance(timedelta(minutes=20))
    shop.restore(point)
    (dead,) = shop.scheduler.list_dead().items
    assert (dead.id, dead.state) == (run.id, RunState.LOST)


# The decisions on rows and lines.

POINT, UNTIL = NOON + HOUR, NOON + 2 * HOUR


def line(run: RunRow, kind: TransitionKind, after: RunState | None, **more: Any) -> TransitionLine:
    fields = {"fence": run.fence, "attempt": run.attempt, "not_before": run.not_before, "due": run.due} | more
    return TransitionLine(
        ref=run.ref, kind=kind, sequence=9, at=POINT, job=run.job, revision=run.revision, after=after, **fields
    )


@pytest.mark.parametrize(
    ("state", "kind", "after", "fate"),
    [
        (RunState.QUEUED, TransitionKind.RESCHEDULED, RunState.QUEUED, UnknownEnd.NO_TRACE),
        (RunState.RETRYING, TransitionKind.HASTENED, RunState.RETRYING, UnknownEnd.NO_TRACE),
        (RunState.PARKED, TransitionKind.WOKEN, RunState.CONTINUED, UnknownEnd.NO_TRACE),
        (RunState.PARKED, TransitionKind.PARKED, RunState.PARKED, ""),  # its heartbeat has moved the end since
        (RunState.QUEUED, TransitionKind.REMOVED, None, UnknownEnd.REMOVED),
    ],
)
def test_what_the_archive_says_of_a_run_that_waits_for_later(
    state: RunState, kind: TransitionKind, after: RunState | None, fate: str
) -> None:
    run = replace(a_run(), state=state, not_before=UNTIL + DAY, fence=1, awaits="sleep")
    decision = decide(run, line(run, kind, after, not_before=UNTIL - MINUTE), epoch=5, until=UNTIL)
    assert (decision.fate, decision.why) == (Fate.HELD if fate else Fate.KEPT, fate)


@pytest.mark.parametrize(("fence", "fate"), [(0, Fate.STAYS), (1, Fate.HELD)])
def test_a_fire_that_was_claimed_ahead_is_left_to_its_schedule(fence: int, fate: Fate) -> None:
    """Its owner would start it minutes before its time. A worker may have begun with it a second ahead."""
    run = replace(a_run(), not_before=UNTIL + MINUTE, due=UNTIL + MINUTE, fence=fence)
    assert run.ref.is_fire
    assert decide(None, line(run, TransitionKind.CLAIMED, RunState.QUEUED), epoch=5, until=UNTIL).fate is fate


def test_a_run_that_the_archive_saw_begin_has_its_fence() -> None:
    """What tells whether it was ever leased."""
    shop = Restored()
    run = shop.scheduler.submit("note", {"fails": 1}, delay=60)
    cut = len(shop.journal.writes)
    shop.harness.advance(minutes=2)
    point = shop.lose(shop.cuts(*[cut] * len(TABLES)))
    shop.clock.advance(timedelta(hours=1))
    restore = shop.restore(point)
    (held,) = shop.held()
    assert (str(held.ref), held.reason) == (run.id, UnknownEnd.BEGAN)
    assert (held.fence // EPOCH, held.leases) == (restore.epoch, 1)
