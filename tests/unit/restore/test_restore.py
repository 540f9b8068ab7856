"""Tables that were restored, each to another time: what the archive knows is true, nothing of the past starts by itself."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from datetime import timedelta
from typing import Any

import pytest
from quarterjack import Scheduler
from quarterjack.auditor.audit import audit
from quarterjack.daemon.worker_shell import WorkerShell
from quarterjack.domain.names import parse_run_id
from quarterjack.domain.run import EPOCH, TERMINAL, RunState
from quarterjack.domain.schedule import ScheduleState
from quarterjack.domain.times import MINUTE
from quarterjack.errors import InvalidInput, Misconfigured
from quarterjack.restore import past
from quarterjack.restore.fates import UnknownEnd
from quarterjack.restore.steps import StepKind
from quarterjack.state.ending import bury
from quarterjack.state.lease import lease, renew
from quarterjack.stores.tables import TABLES
from quarterjack.testing import Crash, Detail, Hook
from quarterjack.testing.memory.calls import READS
from quarterjack.ticker.tick import tick

from tests.support.scenes.restored import Restored


def a_history(shop: Restored, chance: random.Random) -> None:
    """Two hours of an installation: what owners do, and runs of all kinds."""
    scheduler = shop.scheduler
    scheduler.create_schedule("often", "note", "*/5 * * * *")
    scheduler.create_schedule("seldom", "note", "0 */3 * * *", payload={"fails": 1})
    scheduler.create_schedule("napping", "nap", "*/20 * * * *")
    scheduler.create_schedule("paused", "note", "*/10 * * * *")
    acts: list[Callable[[], Any]] = [
        lambda: scheduler.update_schedule("often", expression="*/7 * * * *"),
        lambda: scheduler.pause_schedule("paused"),
        lambda: scheduler.resume_schedule("paused"),
        lambda: scheduler.pause_schedule("often", until=shop.clock.now() + timedelta(minutes=11)),
        lambda: scheduler.create_schedule("new", "note", "*/4 * * * *"),
        lambda: scheduler.delete_schedule("seldom"),
        lambda: scheduler.trigger("often"),
        lambda: scheduler.submit("note", {"fails": 1}, delay=chance.choice([0, 60, 3_600, 20_000])),
        lambda: scheduler.submit("note", {}, delay=chance.choice([0, 60, 3_600, 20_000])),
        lambda: scheduler.submit("nap", {}),
    ]
    chance.shuffle(acts)
    for act in acts:
        shop.harness.advance(seconds=chance.randrange(60, 900))
        act()
    shop.harness.advance(seconds=chance.randrange(60, 900))


def lost(seed: int) -> tuple[Restored, int]:
    """An installation of which each table was put back to another write, and the point."""
    shop, chance = Restored(), random.Random(seed)
    a_history(shop, chance)
    end = len(shop.journal.writes)
    middle = chance.randrange(end // 4, end)
    cuts = [min(end, max(1, middle + chance.randrange(-12, 13))) for _ in TABLES]
    point = shop.lose(shop.cuts(*cuts))
    shop.clock.advance(timedelta(seconds=chance.choice([1, 30, 600, 7_200])))
    return shop, point


def known_states(shop: Restored) -> dict[str, RunState]:
    """What the archive says of each run."""
    lines = shop.scheduler.archive(since=shop.clock.now() - timedelta(days=1))
    return {line.run: RunState(line.after) for line in lines if line.after}


def judge(shop: Restored, before: Counter[str], known: dict[str, RunState], until: int, chance: random.Random) -> None:
    """After the restore: nothing of the past starts by itself, nothing is lost, and the owner's decisions end what was unknown."""
    rows = {str(run.ref): run for run in shop.memory.runs()}
    for run_id, state in known.items():
        if state is RunState.QUEUED and (parse_run_id(run_id).instant or 0) > until:
            continue  # claimed ahead: left to its schedule
        assert run_id in rows, f"{run_id} was {state} and is gone"
        if state in TERMINAL and not rows[run_id].unstarted:
            assert rows[run_id].state in TERMINAL, (run_id, state, rows[run_id])
    shop.harness.advance(minutes=30)
    again = {run_id for run_id, count in (shop.starts - before).items() if rows.get(run_id)}
    wrong = [run_id for run_id in again if rows[run_id].not_before <= until and rows[run_id].state not in TERMINAL]
    assert not wrong
    assert not [run_id for run_id in again if rows[run_id].state in TERMINAL and not rows[run_id].unstarted]
    held = shop.held()
    for run in held:
        owner = shop.scheduler
        if chance.random() < 0.5:
            owner.retry_run(str(run.ref))
        else:
            owner.cancel_run(str(run.ref))
    assert not shop.held()
    shop.harness.advance(hours=7)
    for run in shop.memory.runs():
        assert run.is_terminal or run.not_before > shop.now - 2 * MINUTE or run.state is RunState.PARKED, run
    report = audit(shop.memory.connect(), clock=shop.clock)
    assert (report.rearmed, report.unclaimed, report.resent, report.overdue, report.failed) == (0, 0, 0, 0, 0)
    active = [head for head in shop.memory.heads() if head.state is ScheduleState.ACTIVE]
    for head in active:
        assert any(run.due > until + MINUTE for run in shop.memory.runs(head.owner)), head


_MORE = [pytest.param(seed, marks=pytest.mark.check) for seed in range(4, 20)]
_MANY = [pytest.param(seed, marks=pytest.mark.proof) for seed in range(100, 160)]


@pytest.mark.parametrize("seed", [*range(4), *_MORE, *_MANY])
def test_each_table_is_of_another_time(seed: int) -> None:
    shop, point = lost(seed)
    known = known_states(shop)
    before = Counter(shop.starts)
    restore = shop.restore(point)
    assert shop.plan(point) == []
    judge(shop, before, known, restore.until, random.Random(seed))


def a_rich_loss() -> tuple[Restored, int]:
    """A loss with many kinds of steps: cut where the archive and the rows differ in all ways."""
    shop, chance = Restored(), random.Random(5)
    a_history(shop, chance)
    scheduler = shop.scheduler
    scheduler.create_schedule("filled", "note", "*/30 * * * *")
    start = shop.clock.now() - timedelta(hours=3)
    end = len(shop.journal.writes)
    shop.harness.advance(minutes=1)
    scheduler.backfill("filled", start, start + timedelta(hours=2), concurrency=1)
    scheduler.update_schedule("paused", expression="*/9 * * * *")
    scheduler.submit("note", {}, delay=1)
    scheduler.submit("note", {}, delay=30_000)
    torn = len(shop.journal.writes)
    shop.harness.advance(minutes=5)
    scheduler.submit("note", {}, delay=30_000)  # no table has it
    shop.harness.advance(minutes=20)
    cuts = shop.cuts(torn, end, end, torn, torn, torn, torn)
    point = shop.lose(cuts)
    shop.clock.advance(timedelta(minutes=40))
    return shop, point


class CrashAt(Hook):
    """The process dies at one of its calls, before or after it took effect."""

    def __init__(self, place: int, *, after: bool) -> None:
        self.left, self.after = place, after

    def before_call(self, operation: str, detail: Detail) -> tuple[int, ...]:
        if not self.after:
            self._count()
        return ()

    def after_call(self, operation: str, detail: Detail) -> None:
        if self.after:
            self._count()

    def _count(self) -> None:
        self.left -= 1
        if self.left == -1:
            raise Crash


class Writes(Hook):
    """The places of the calls that write."""

    def __init__(self) -> None:
        self.calls = 0
        self.writes = list[int]()

    def before_call(self, operation: str, detail: Detail) -> tuple[int, ...]:
        if operation not in READS:
            self.writes.append(self.calls)
        self.calls += 1
        return ()


def test_it_may_die_at_any_write_and_goes_on() -> None:
    shop, point = a_rich_loss()
    kinds = {step.kind for step in shop.plan(point)}
    assert kinds >= {
        StepKind.END_RUN,
        StepKind.HOLD_RUN,
        StepKind.HOLD_FIRE,
        StepKind.KEEP_RUN,
        StepKind.BEGIN_SCHEDULE,
    }
    assert kinds >= {StepKind.LOSE_RUN, StepKind.MEND_SCHEDULE, StepKind.REMOVE_CHAIN}
    saved, seen = shop.saved(), Writes()
    shop.restore(point, seen)
    wanted = shop.content()
    assert len(seen.writes) > 50
    for place in seen.writes:
        for after in (False, True):
            shop.put_saved(saved)
            with pytest.raises(Crash):
                shop.restore(point, CrashAt(place, after=after))
            shop.restore(point)
            assert shop.content() == wanted, (place, after)
    judge(shop, Counter(shop.starts), known_states(shop), shop.now, random.Random(1))


def test_the_plan_writes_nothing_and_says_what_run_does() -> None:
    shop, point = a_rich_loss()
    before = shop.content()
    planned = [(step.kind, step.target, step.why) for step in shop.plan(point)]
    assert shop.content() == before
    done = list[tuple[StepKind, str, str]]()
    shop.restore(point, on_step=lambda step: done.append((step.kind, step.target, step.why)))
    assert done == planned


def test_neither_ticker_nor_owner_nor_worker_takes_tables_that_are_not_reconciled() -> None:
    shop, point = a_rich_loss()
    with pytest.raises(Misconfigured, match="were restored and are not reconciled; run `quarterjack restore plan`"):
        tick(shop.memory.connect(), clock=shop.clock, holder="early")
    with pytest.raises(Misconfigured, match="not reconciled"):
        shop.owner().create_schedule("fresh", "note", "* * * * *")
    shell = WorkerShell(
        shop.memory.connect(),
        shop.jobs,
        name="early",
        around=lambda of: nullcontext(),
        remaining=lambda: None,
        report=lambda done: None,
    )
    with pytest.raises(Misconfigured, match="not reconciled"):
        shell.start()
    shop.restore(point)
    tick(shop.memory.connect(), clock=shop.clock, holder="then")
    assert shop.owner().create_schedule("fresh", "note", "* * * * *").name == "fresh"


def test_tables_under_their_own_names_are_restored_only_if_the_caller_says_so() -> None:
    shop = Restored()
    shop.scheduler.create_schedule("often", "note", "*/5 * * * *")
    shop.harness.advance(minutes=20)
    point = shop.now
    shop.harness.advance(minutes=20)
    with pytest.raises(Misconfigured, match="pass --same-names"):
        shop.restore(point)
    with pytest.raises(InvalidInput, match="not in the past"):
        shop.restore(shop.now)
    assert shop.restore(point, same_names=True) == shop.restore(point, same_names=True)


def test_what_was_leased_sent_and_judged_before_is_outdated() -> None:
    """A worker, a message and a verdict of the time before, and a run that begins again after its owner's decision."""
    shop = Restored()
    run = shop.scheduler.submit("note", {"fails": 1}, delay=60)
    ref = shop.memory.runs()[0].ref
    shop.harness.advance(minutes=1)  # the first attempt failed, and the next one is due in ten minutes
    (before,) = shop.memory.runs()
    assert (before.state, before.fence) == (RunState.RETRYING, 1)
    (old,) = shop.memory.messages()
    end = len(shop.journal.writes)
    point = shop.lose(shop.cuts(*[end] * len(TABLES)))
    shop.clock.advance(timedelta(minutes=20))
    restore = shop.restore(point)
    (held,) = shop.held()
    assert (held.fence, held.leases) == (restore.epoch * EPOCH + 1, 1)
    shop.scheduler.retry_run(run.id)

    services = shop.memory.connect()
    asked: dict[str, Any] = {"now": shop.now, "token": "t", "worker": "w", "max_attempts": 3, "steal": True}
    assert not services.ledger.move(ref, lease(revision=0, seen_fence=old.fence, **asked)).applied  # the old message
    assert services.ledger.move(ref, lease(revision=0, seen_fence=held.fence, **asked)).applied  # that of the decision
    assert not services.ledger.move(ref, renew(fence=before.fence, now=shop.now)).applied  # the old worker
    verdict = bury(fence=before.fence, now=shop.now, expires=shop.now, reason="failed")
    assert not services.ledger.move(ref, verdict).applied  # the old verdict


def test_a_message_of_the_time_before_is_dropped_by_a_worker() -> None:
    shop = Restored()
    shop.scheduler.create_schedule("often", "note", "*/5 * * * *")
    shop.harness.advance(minutes=4)  # the fire at 8:05 is claimed and its message sent
    old = min(shop.memory.messages(), key=lambda message: message.not_before)
    end = len(shop.journal.writes)
    point = shop.lose(shop.cuts(*[end] * len(TABLES)))
    shop.clock.advance(timedelta(hours=1))
    shop.restore(point)
    (held,) = [run for run in shop.held() if run.ref == old.run]
    shop.scheduler.retry_run(str(held.ref))
    shop.harness.advance(minutes=1)
    assert shop.starts[str(held.ref)] == 1
    assert held.ref not in [message.run for message in shop.memory.messages()]


def test_more_fires_than_can_be_decided_share_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(past, "MOST_HELD", 10)
    shop = Restored()
    shop.scheduler.create_schedule("often", "note", "* * * * *")
    shop.harness.advance(minutes=10)
    end = len(shop.journal.writes)
    point = shop.lose(shop.cuts(*[end] * len(TABLES)))
    shop.clock.advance(timedelta(hours=1))
    restore = shop.restore(point)
    claimed = {run.ref for run in shop.memory.runs() if run.created_at < point + MINUTE}  # ahead of their time
    held = [run for run in shop.held() if run.ref not in claimed]
    assert len(held) == 10
    (gap,) = [run for run in shop.memory.runs() if run.skipped_until is not None]
    first = min(run.due for run in held)
    assert gap.skipped_until == first - MINUTE
    assert gap.skipped is not None
    assert gap.due == first - gap.skipped * MINUTE
    assert len(claimed) + gap.skipped + 10 == 70
    assert gap.reason == UnknownEnd.NO_TRACE
    before = Counter(shop.starts)
    shop.harness.advance(minutes=5)
    began = {run.ref for run in shop.memory.runs() if shop.starts[str(run.ref)] > before[str(run.ref)]}
    assert {run.due for run in shop.memory.runs() if run.ref in began} == {
        restore.until + n * MINUTE for n in range(1, 6)
    }


def test_runs_of_which_the_archive_has_not_heard_for_long() -> None:
    shop = Restored()
    empty = len(shop.journal.writes)
    due = shop.scheduler.submit("note", {}, delay=3 * 3_600).id
    later = shop.scheduler.submit("note", {}, delay=20 * 3_600).id
    napping = shop.scheduler.submit("nap", {}).id
    shop.harness.advance(hours=2)
    assert shop.scheduler.get_run(napping).state == "SUCCEEDED"
    end = len(shop.journal.writes)
    shop.lose(shop.cuts(end, end, empty, end, end, end, end))  # the agenda has neither
    point = shop.now - MINUTE  # what was written of them lies before everything that the restore reads of the archive
    shop.clock.advance(timedelta(hours=2))
    steps = {(step.kind, step.target, step.why) for step in shop.plan(point)}
    assert steps == {(StepKind.HOLD_RUN, due, UnknownEnd.NO_TRACE), (StepKind.KEEP_RUN, later, "")}
    shop.restore(point)
    shop.harness.advance(hours=20)
    assert (shop.starts[due], shop.starts[later], shop.starts[napping]) == (0, 1, 2)
    assert [str(run.ref) for run in shop.held()] == [due]


def test_a_run_of_a_tenant_of_which_the_tables_know_nothing_does_not_start_again() -> None:
    """It only ever submits, and whatever it had was lost: the archive alone has its name."""
    shop = Restored()
    shop.scheduler.create_schedule("often", "note", "*/5 * * * *")
    shop.harness.advance(minutes=30)
    cuts = shop.cuts(*[len(shop.journal.writes)] * len(TABLES))
    others = Scheduler("acme", jobs=shop.jobs, services=shop.memory.connect(), clock=shop.clock)
    run = others.submit("note", idempotency_key="order-7")
    shop.harness.advance(minutes=10)
    assert shop.starts[run.id] == 1
    point = shop.lose(cuts)
    shop.clock.advance(timedelta(minutes=1))
    shop.restore(point)
    others = Scheduler("acme", jobs=shop.jobs, services=shop.memory.connect(), clock=shop.clock)
    again = others.submit("note", idempotency_key="order-7")
    shop.harness.advance(minutes=10)
    assert (again.id, again.state, shop.starts[run.id]) == (run.id, RunState.SUCCEEDED, 1)
