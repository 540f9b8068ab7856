"""Runs whose messages are lost are sent again, from the ledger: what should be in a queue now, at a rate, and nothing starts twice."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from quarterjack import Context, Registry, Retry, RunState, Tenants
from quarterjack.domain.names import one_off_ref
from quarterjack.domain.run import TERMINAL, RunRow
from quarterjack.domain.tenants.profile import INSTALLATION
from quarterjack.domain.times import HOUR, MINUTE, SECOND
from quarterjack.errors import InvalidInput, Unavailable
from quarterjack.fires.context import LOOKAHEAD
from quarterjack.owner.runs import resend as resending
from quarterjack.sdk.history.workers import Resent
from quarterjack.sdk.scheduler import Scheduler
from quarterjack.state.start import belongs_in_queue
from quarterjack.testing import Crash, Harness

from tests.support.builders import a_run
from tests.support.open_breakers import open_breaker
from tests.support.scenes.capped import Capped
from tests.support.scenes.world import NOON, Faults, World, crash, fails

START = datetime(2026, 5, 4, 8, 30, tzinfo=UTC)
NOW = int(START.timestamp()) * SECOND


class Shop:
    """An installation whose jobs note that they began, and whose queues can be purged."""

    def __init__(self) -> None:
        self.began = Counter[str]()
        self.fails = Counter[str]()  # attempts that are left to fail, by run
        self.jobs = jobs = Registry()
        jobs.queue("gpu")
        retry = Retry(max_attempts=5, base=600.0, backoff="fixed", jitter=0.0)
        jobs.job("note", retry=retry)(self._note)
        jobs.job("train", queue="gpu")(self._note)
        self.harness = Harness(jobs, at=START)
        self.memory, self.clock, self.scheduler = self.harness.memory, self.harness.clock, self.harness.scheduler

    def _note(self, ctx: Context, payload: object) -> None:
        self.began[ctx.run_id] += 1
        if self.fails[ctx.run_id] > 0:
            self.fails[ctx.run_id] -= 1
            raise ValueError("not yet")

    def owner(self, tenant: str) -> Scheduler:
        return Scheduler(tenant, jobs=self.jobs, services=self.memory.connect(), clock=self.clock)

    def submit(self, number: int, *, job: str = "note", delay: float = 0, on: Scheduler | None = None) -> list[str]:
        return [(on or self.scheduler).submit(job, {}, delay=delay).id for _ in range(number)]

    def purge(self) -> int:
        return sum(queue.purge() for queue in self.memory.stripes.values())

    def stored(self) -> list[Any]:
        return [message for queue in self.memory.stripes.values() for message in queue]

    def resend(self, **given: Any) -> Resent:
        usual: dict[str, Any] = {"all_tenants": True, "rate": 1_000.0, "stop": Ticking(self.harness)}
        return self.scheduler.resend(**usual | given)


class Ticking:
    """A signal of a call whose waits pass on the harness's clock."""

    def __init__(self, harness: Harness) -> None:
        self._harness = harness

    def wait(self, timeout: float) -> bool:
        self._harness.clock.advance(timedelta(seconds=timeout))
        return False


@pytest.fixture
def shop() -> Shop:
    return Shop()


# What is sent.


def test_after_a_purge_everything_that_waited_runs_once(shop: Shop) -> None:
    neighbour = shop.owner("beta")
    shop.scheduler.create_schedule("every", "note", "* * * * *")
    shop.harness.advance(minutes=2, seconds=30)  # fires of the look-ahead are delayed in the queue
    one_offs = [*shop.submit(7), *shop.submit(5, delay=90), *shop.submit(3, job="train"), *shop.submit(2, on=neighbour)]
    assert shop.purge() >= 17
    shop.harness.advance(minutes=1)
    assert not shop.began.keys() & set(one_offs), "nobody has them"
    done = shop.resend()
    assert (done.cursor, done.refused, done.unread) == (None, {}, 0)
    assert done.sent["gpu"] == 3
    assert done.sent["default"] >= 14
    shop.harness.advance(minutes=10)
    assert {shop.began[run] for run in one_offs} == {1}
    assert set(shop.began.values()) == {1}
    fires = [run.due for run in shop.scheduler.list_runs("every", limit=100).items if run.state == "SUCCEEDED"]
    assert len(fires) == len(set(fires)) >= 12, "no minute is missing"


def test_a_dry_run_counts_and_changes_nothing(shop: Shop) -> None:
    shop.submit(4)
    shop.submit(2, job="train")
    shop.purge()
    rows, lines = shop.memory.runs(), len(shop.scheduler.audit(installation=True).items)
    done = shop.resend(dry_run=True)
    assert (done.sent, done.dry_run, done.count) == ({"default": 4, "gpu": 2}, True, 6)
    assert (shop.memory.runs(), shop.stored()) == (rows, [])
    assert len(shop.scheduler.audit(installation=True).items) == lines


def test_the_messages_that_were_never_lost_start_nothing_twice(shop: Shop) -> None:
    runs = [*shop.submit(5), *shop.submit(5, delay=60)]
    assert shop.resend().count == shop.resend().count == 10
    shop.harness.advance(minutes=5)
    assert {shop.began[run] for run in runs} == {1}
    assert shop.resend().count == 0
    assert shop.stored() == []


def test_a_retry_that_was_purged_comes_at_its_time(shop: Shop) -> None:
    (run,) = shop.submit(1)
    shop.fails[run] = 1
    shop.harness.advance(seconds=5)
    assert shop.purge() == 1
    assert shop.resend().count == 1
    shop.harness.advance(minutes=9)
    assert shop.began[run] == 1
    shop.harness.advance(minutes=2)
    assert (shop.began[run], shop.harness.run(run).state) == (2, RunState.SUCCEEDED)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"queue": "gpu"}, {"gpu": 2}),
        ({"queue": "default"}, {"default": 5}),
        ({"job": "train"}, {"gpu": 2}),
        ({"due_before": START + timedelta(minutes=1)}, {"default": 3, "gpu": 2}),
        ({"job": "note", "due_before": START}, {}),
        ({"all_tenants": False}, {"default": 5, "gpu": 2}),
    ],
)
def test_filters(shop: Shop, given: dict[str, Any], expected: dict[str, int]) -> None:
    if given.get("all_tenants") is False:
        shop.submit(1, on=shop.owner("beta"))
    shop.submit(3)
    shop.submit(2, delay=120)
    shop.submit(2, job="train")
    shop.purge()
    assert shop.resend(**given).sent == expected


@pytest.mark.parametrize(
    ("run", "belongs"),
    [
        (a_run(NOW), True),
        (a_run(NOW - 90 * 24 * HOUR), True),
        (a_run(NOW + 900 * SECOND), True),  # a fire that was claimed ahead
        (a_run(NOW + 901 * SECOND), False),
        (a_run(NOW + 180 * SECOND, ref=one_off_ref("acme", "k")), True),
        (a_run(NOW + 181 * SECOND, ref=one_off_ref("acme", "k")), False),  # the agenda has it
        (a_run(NOW + 800 * SECOND, ref=one_off_ref("acme", "k"), state=RunState.RETRYING), True),
        (a_run(NOW + HOUR, state=RunState.RETRYING), False),
        (a_run(NOW + 800 * SECOND, backfill="b"), True),
        (a_run(NOW, state=RunState.CONTINUED), True),
        (a_run(NOW + 800 * SECOND, state=RunState.PARKED, awaits="sleep"), True),
        (a_run(NOW + 800 * SECOND, state=RunState.PARKED, awaits="signal:go"), False),  # it has a timer
        (a_run(NOW + HOUR, state=RunState.PARKED, awaits="children:1"), False),
        (a_run(NOW, state=RunState.PARKED, awaits="signal:go"), True),  # its wait is over
        (a_run(NOW, state=RunState.RUNNING, lease_until=NOW + MINUTE), True),
        *((a_run(NOW, state=state), False) for state in sorted(TERMINAL)),
    ],
)
def test_which_runs_belong_in_a_queue(run: RunRow, belongs: bool) -> None:
    assert belongs_in_queue(run, NOW, LOOKAHEAD) is belongs


def test_what_waits_in_the_agenda_stays_there(shop: Shop) -> None:
    far = shop.submit(3, delay=3_600)
    shop.scheduler.create_schedule("weekly", "note", "0 9 * * MON")
    assert shop.resend().count == 0
    shop.harness.advance(hours=2)
    assert {shop.began[run] for run in far} == {1}


# Runs that something holds.


def test_a_run_under_way_is_not_started_again_unless_its_worker_vanishes() -> None:
    world = World()
    run = world.scheduler.submit("note", {}).id
    purged = list[int]()

    def lose(ctx: Context) -> None:
        purged.append(world.memory.work.purge())
        assert world.scheduler.resend(all_tenants=True).count == 1
        assert world.work(world.worker(name="other")) != []
        assert len(world.started) == 1, "its lease is live"
        world.during = lambda ctx: None

    world.during = lose
    dying = Faults().at("settle", before=crash, times=None).at("succeed", before=crash, times=None)
    with pytest.raises(Crash):
        world.work(world.worker(dying, name="dying"))
    assert purged == [1]
    world.live(60)
    assert len(world.started) == 1
    world.live(60)
    assert (len(world.started), world.scheduler.get_run(run).state) == (2, RunState.SUCCEEDED)


def test_runs_that_are_held_start_when_they_may(shop: Shop) -> None:
    """Of a frozen and a suspended tenant, behind an open breaker: workers keep their messages in the queue, so the purge took these."""
    owners = {tenant: shop.owner(tenant) for tenant in ("frozen", "suspended", "broken")}
    tenants = Tenants(services=shop.memory.connect(), clock=shop.clock)
    tenants.set("broken", limits={"breaker_percent": 90})
    runs = [run for owner in owners.values() for run in shop.submit(2, on=owner)]
    owners["frozen"].freeze(START + timedelta(minutes=20))
    tenants.suspend("suspended")
    open_breaker("broken", "note", shop.memory.connect(), shop.clock())
    shop.harness.advance(minutes=1)
    shop.purge()
    assert shop.resend().sent == {"default": 6}
    shop.harness.advance(minutes=10)
    assert not {*runs[:4]} & shop.began.keys()
    tenants.resume("suspended")
    shop.harness.advance(minutes=30)
    assert {shop.began[run] for run in runs} == {1}


def test_runs_in_the_line_of_a_cap_are_left_to_it() -> None:
    world = Capped()
    world.submit(8)
    worker, jobs = world.hand("w")
    world.take_all(worker)
    assert len(jobs.going) == 3
    world.memory.work.purge()
    done = world.scheduler.resend(all_tenants=True)
    assert (done.count, done.queued) == (3, 5), "those that run; those in line"
    for _ in range(8):
        jobs.end()
        world.take_all(worker)
    assert {run.state for run in world.memory.runs()} == {RunState.SUCCEEDED}
    assert {run.attempt for run in world.memory.runs()} == {1}


def test_a_run_whose_message_was_on_its_way_from_a_line_is_sent() -> None:
    """Its permit is kept for it, and its entry is gone: nobody else would send for it."""
    world = Capped()
    world.submit(4)
    worker, jobs = world.hand("w")
    world.take_all(worker)
    jobs.end()  # gives its permit back, which sends for the fourth
    assert world.memory.work.purge() > 0
    done = world.scheduler.resend(all_tenants=True)
    assert (done.count, done.queued) == (3, 0)
    world.take_all(worker)
    jobs.end(3)
    assert {(run.state, run.attempt) for run in world.memory.runs()} == {(RunState.SUCCEEDED, 1)}


# The walk.


def test_the_rate_is_kept() -> None:
    """Counted by the second at which the queue took each message."""
    world = World()
    for _ in range(60):
        world.scheduler.submit("note", {})
    world.memory.work.purge()

    class Waits:
        def wait(self, timeout: float) -> bool:
            world.wait(timeout)
            return False

    world.scheduler.resend(all_tenants=True, rate=8, stop=Waits())
    sent = Counter((message.sent_at - NOON) // SECOND for message in world.memory.work)
    assert sum(sent.values()) == 60
    assert max(sent.values()) <= 8
    assert 7 <= max(sent) <= 8, "and it does not dawdle"


@pytest.mark.parametrize("pages", [2, 1_000])
def test_a_call_that_was_stopped_goes_on_behind_the_last_message(
    shop: Shop, pages: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resending, "ROWS", pages)
    monkeypatch.setattr(resending, "SEGMENTS", 3)
    runs = shop.submit(20)
    shop.purge()
    cursor, calls = None, 0
    while calls == 0 or cursor is not None:
        done = shop.resend(limit=3, cursor=cursor)
        cursor, calls = done.cursor, calls + 1
        assert done.count <= 3
    assert calls >= 7
    assert len({message.body for message in shop.stored()}) == len(shop.stored()) == 20, "each once"
    shop.harness.advance(minutes=1)
    assert {shop.began[run] for run in runs} == {1}


def test_memory_is_bounded_by_pages(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resending, "ROWS", 5)
    shop.submit(60)
    seen = list[int]()
    upkeep = shop.scheduler.session.services.upkeep
    unfinished = upkeep.unfinished

    def counted(parts: Any, **given: Any) -> Any:
        found = unfinished(parts, **given)
        seen.append(len(found[0]))
        return found

    monkeypatch.setattr(upkeep, "unfinished", counted)
    assert shop.resend(dry_run=True).count == 60
    assert max(seen) <= 5 * resending.SEGMENTS


def test_a_page_that_is_answered_late_is_read_again(shop: Shop) -> None:
    shop.submit(3)
    hook = Faults()
    owner = Scheduler("default", services=shop.memory.connect(hook), clock=shop.clock)
    hook.at("unfinished", before=fails, times=resending.SEGMENTS)
    began = shop.clock.now()
    assert owner.resend(all_tenants=True, rate=1_000.0, stop=Ticking(shop.harness), dry_run=True).count == 3
    assert shop.clock.now() - began >= timedelta(seconds=resending.AGAIN[0])


def test_after_an_error_the_last_progress_goes_on(shop: Shop) -> None:
    shop.submit(30)
    shop.purge()
    told = list[Resent]()
    hook = Faults()
    owner = Scheduler("default", services=shop.memory.connect(hook), clock=shop.clock)
    hook.at("unfinished", before=fails, times=None, skip=resending.SEGMENTS)
    given: dict[str, Any] = {"all_tenants": True, "rate": 1_000.0, "stop": Ticking(shop.harness)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resending, "ROWS", 2)
        with pytest.raises(Unavailable):
            owner.resend(**given, on_progress=told.append)
    before = told[-1].count
    assert 0 < before == len(shop.stored()) < 30
    hook.rules.clear()
    assert owner.resend(**given, cursor=told[-1].cursor).count == 30 - before
    assert len(shop.stored()) == 30


def test_what_a_queue_does_not_accept_is_counted_and_goes_with_the_next_call(shop: Shop) -> None:
    runs = shop.submit(3, job="train")
    shop.purge()
    hook = Faults().at("send", before=fails, times=None)
    owner = Scheduler("default", services=shop.memory.connect(hook), clock=shop.clock)
    done = owner.resend(all_tenants=True, rate=1_000.0)
    assert (done.sent, done.refused) == ({}, {"gpu": 3})
    assert shop.resend().sent == {"gpu": 3}
    shop.harness.advance(minutes=1)
    assert {shop.began[run] for run in runs} == {1}


# The call.


def test_the_audit_has_a_line_of_the_call(shop: Shop) -> None:
    shop.scheduler.acting_as("alice@acme", reason="purged by mistake").resend(
        all_tenants=True, queue="gpu", due_before=START, rate=5
    )
    (line,) = shop.scheduler.audit(act="resend", installation=True).items
    assert (line.act, line.target, line.actor, line.reason) == (
        "resend",
        INSTALLATION,
        "app:alice@acme",
        "purged by mistake",
    )
    assert line.detail == {"queue": "gpu", "due_before": START.isoformat(), "rate": 5.0}
    shop.scheduler.resend()
    (own,) = shop.scheduler.audit(act="resend").items
    assert own.target == "default"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"queue": "gpus"}, r"queue='gpus': is not a queue of this installation; queues\(\) lists them"),
        ({"queue": "GPU"}, "queue='GPU': is not the name of a queue"),
        ({"rate": 0}, "rate=0: is not a number of runs a second"),
        ({"limit": 0}, "limit=0"),
        ({"due_before": datetime(2026, 5, 4)}, "due_before=.*has no time zone"),  # noqa: DTZ001
        ({"cursor": "abc"}, "cursor='abc': is not of this listing"),
        ({"all_tenants": "yes"}, "all_tenants='yes'"),
        ({"dry_run": 1}, "dry_run=1"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(shop: Shop, given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        shop.scheduler.resend(**given)
    assert shop.scheduler.audit(act="resend").items == []


def test_a_cursor_belongs_to_its_conditions(shop: Shop) -> None:
    shop.submit(5)
    cursor = shop.resend(limit=2).cursor
    with pytest.raises(InvalidInput, match="is not of this listing"):
        shop.resend(cursor=cursor, queue="gpu")
