"""Backpressure: what a queue cannot take waits in the agenda, visibly, and is late instead of lost. Other queues go on."""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest
from quarterjack import Scheduler, Tenants
from quarterjack.domain.message import decode
from quarterjack.domain.options import CatchUpWord
from quarterjack.domain.run import EntryKind, RunState
from quarterjack.domain.times import MINUTE, SECOND, from_ms
from quarterjack.fires.backpressure import KEY, OWNER, read_hold_log
from quarterjack.state.backpressure import FLOOR, Limits
from quarterjack.stores.records import Record
from quarterjack.testing import Memory
from quarterjack.testing.process import Hand, make_worker

from tests.support.scenes.world import NOON, Faults, World, crash, fails

DEPTH = 10


@dataclass
class Pressed(World):
    """Depth of ten. Nobody works unless told."""

    shards: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        self.memory = Memory(self.clock, shards=self.shards, queues=["mail"], limits=Limits(depth=DEPTH))
        self.services = self.memory.connect()
        self.jobs.queue("mail")
        self.scheduler = self.owner()

    def crowd(self, number: int = DEPTH, queue: str | None = None) -> None:
        """So many messages wait in a queue."""
        for n in range(number):
            self.scheduler.submit("note", {"n": n}, queue=queue or "default")

    def serve(self, queue: str) -> None:
        """Its worker works off what is visible."""
        worker = make_worker(
            self.memory.connect(queue=queue),
            self.jobs,
            self.clock,
            wait=self.wait,
            chance=random.Random(next(self._seeds)),
        )
        while Hand(worker=worker).work():
            pass

    def ticks(self, minutes: int) -> None:
        for _ in range(minutes):
            self.tick()
            self.wait(60)

    def owned(self, name: str) -> list[int]:
        return self.fires(f"acme/{name}")


@pytest.fixture
def world() -> Pressed:
    return Pressed()


def said(caplog: pytest.LogCaptureFixture, event: str) -> list[logging.LogRecord]:
    return [line for line in caplog.records if line.getMessage() == event]


def test_what_a_full_queue_cannot_take_waits_and_all_of_it_runs_later(
    world: Pressed, caplog: pytest.LogCaptureFixture
) -> None:
    world.scheduler.create_schedule("s", "note", "* * * * *")
    world.scheduler.create_schedule("post", "note", "* * * * *", queue="mail")
    for _ in range(10):
        world.ticks(1)
        world.serve("mail")
    world.crowd()
    claimed, reports = world.owned("s"), []
    with caplog.at_level(logging.WARNING):
        for _ in range(20):
            reports.append(world.tick())
            world.serve("mail")
            world.wait(60)
    assert world.owned("s") == claimed, "nothing of it is claimed"
    assert len(world.owned("post")) >= 30, "the other queue goes on"
    held = [report for report in reports if report.held]
    assert len(held) >= 10
    assert all((report.held, report.handled.agenda.held) == (["default"], 1) for report in held)
    assert held == reports[-len(held) :], "as soon as something is due for it"
    assert max(report.behind for report in reports) < 2 * MINUTE, "the scheduler is not behind; the queue is"
    (line,) = said(caplog, "queue.held")
    assert (line.queue, line.reason) == ("default", "depth")  # type: ignore[attr-defined]
    assert line.depth >= DEPTH  # type: ignore[attr-defined]
    with caplog.at_level(logging.WARNING):
        for _ in range(60):
            world.live(60)
            world.serve("mail")
    assert len(said(caplog, "queue.released")) >= 1
    runs = [run for run in world.memory.runs("acme/s") if run.due <= world.clock() - MINUTE]
    assert {run.state for run in runs} == {RunState.SUCCEEDED}
    due = [(run.due - runs[0].due) // MINUTE for run in runs]
    assert due == list(range(len(due))), "no minute is missing"
    assert len({start.run_id for start in world.started}) == len(world.started), "and none ran twice"
    assert len(world.owned("post")) >= 90


@pytest.mark.parametrize("policy", ["all", "latest", "none"])
def test_no_catch_up_policy_passes_over_what_was_held_back(world: Pressed, policy: CatchUpWord) -> None:
    world.scheduler.create_schedule("s", "note", "* * * * *", catch_up=policy, catch_up_window=120)
    world.ticks(8)
    world.crowd()
    world.ticks(90)
    assert world.owned("s")[-1] < 30 * 60
    world.work()
    world.ticks(1)
    now = (world.clock() - MINUTE) // SECOND * SECOND
    fires = [run.due for run in world.memory.runs("acme/s") if run.due <= now and run.skipped_until is None]
    assert fires[-1] - fires[0] == (len(fires) - 1) * MINUTE, "every minute of the hour and a half"
    assert all(run.state is not RunState.SKIPPED for run in world.memory.runs("acme/s"))


@pytest.mark.parametrize("policy", ["latest", "none"])
def test_what_is_missed_before_or_after_a_spell_is_for_the_policy_as_ever(world: Pressed, policy: CatchUpWord) -> None:
    world.scheduler.create_schedule("s", "note", "* * * * *", catch_up=policy)
    world.ticks(8)
    world.wait(3600)  # nobody ticks for an hour
    world.crowd()
    world.ticks(20)  # and then it is held back for twenty minutes
    world.work()
    world.tick()
    world.work()
    reached = world.owned("s")[-1]
    world.wait(3 * 3600)  # nobody ticks for three hours
    world.ticks(2)
    gaps = [run for run in world.memory.runs("acme/s") if run.state is RunState.SKIPPED]
    latest = policy == "latest"
    assert [(gap.skipped or 0) > 40 for gap in gaps] == [True, True], "each outage is one gap"
    assert sum(gap.skipped or 0 for gap in gaps) < 4 * 60
    ran = [run.due for run in world.memory.runs("acme/s") if run.state is RunState.SUCCEEDED]
    spell = [
        due
        for due in ran
        if due > gaps[0].due + (gaps[0].skipped or 0) * MINUTE - MINUTE and due <= NOON + reached * SECOND
    ]
    assert len(spell) >= 20 + latest
    assert spell == [spell[0] + n * MINUTE for n in range(len(spell))], "of the spell, every one"


def test_hysteresis_lets_go_at_the_half(world: Pressed) -> None:
    held_story(world)
    assert world.tick().held == ["default"]
    take = world.memory.work.take
    for delivery in take(DEPTH // 2):
        world.memory.work.delete(delivery.receipt)
    assert world.tick().held == ["default"], "half is still too much"
    for delivery in take(1):
        world.memory.work.delete(delivery.receipt)
    report = world.tick()
    assert (report.held, world.fires()) == ([], [1800, 3600])


def test_single_runs_are_held_back_too_and_timers_are_not(world: Pressed) -> None:
    """Nothing is known of how runs of a tenant without schedules fare: of its single runs one a tick is sent, the least there is."""
    waiting = [world.scheduler.submit("note", {"late": n}, delay=1800 + n) for n in range(10)]
    world.scheduler.create_schedule("s", "note", "0 0 1 1 *")
    world.scheduler.pause_schedule("s", until=world.now().replace(minute=29))
    world.crowd()
    world.wait(28 * 60)
    world.ticks(3)
    assert len(world.memory.messages()) == DEPTH + 3
    assert sum(entry.kind is EntryKind.RUN for entry in world.memory.entries()) == len(waiting) - 3
    assert world.scheduler.get_schedule("s").state.value == "ACTIVE", "its pause ended"
    world.work()
    world.ticks(1)
    world.work()
    assert {world.scheduler.get_run(late.id).state for late in waiting} == {RunState.SUCCEEDED}


# Tenants.


def neighbours(
    world: Pressed, *, depth: int = 300, full: int = 108_000, waiting: int = 3_000
) -> tuple[Scheduler, Scheduler]:
    """Two tenants with a schedule each whose runs have started so far, and the first has crowded the queue since."""
    world.memory = Memory(world.clock, shards=2, limits=Limits(depth=depth, full=full))
    world.services = world.memory.connect()
    loud, quiet = (replace_tenant(world, name) for name in ("loud", "quiet"))
    for owner in (loud, quiet):
        owner.create_schedule("s", "note", "* * * * *")
    for _ in range(3):
        world.tick()
        world.wait(60)
        world.work()
    for n in range(waiting):
        loud.submit("note", n)
    return loud, quiet


def replace_tenant(world: Pressed, tenant: str) -> Scheduler:
    return Scheduler(tenant, jobs=world.jobs, services=world.services, clock=world.clock)


def test_a_tenant_whose_runs_start_goes_on_while_another_crowds_the_queue(
    world: Pressed, caplog: pytest.LogCaptureFixture
) -> None:
    _, quiet = neighbours(world)
    world.wait(360)  # until fires are due that no ticker has claimed
    serve_tenant(world, "quiet")
    before = len(world.fires("quiet/s"))
    with caplog.at_level(logging.WARNING):
        report = world.tick()
    assert report.held == ["default"]
    assert len(world.fires("quiet/s")) > before, "in the same tick"
    (line,) = said(caplog, "queue.tenants_held")
    assert (line.tenants, line.count) == (["loud"], 1)  # type: ignore[attr-defined]
    assert quiet.get_schedule("s").state.value == "ACTIVE"
    for _ in range(10):
        world.work()
        world.tick()
        world.wait(60)
    world.work()
    for tenant in ("loud", "quiet"):
        due = world.fires(f"{tenant}/s")
        assert due == [due[0] + 60 * n for n in range(len(due))], "no minute is missing"


def serve_tenant(world: Pressed, tenant: str) -> None:
    """Its messages are taken and its runs done, as a fair queue has it while another tenant's wait."""
    taken = world.memory.work.take(4_000)
    own = [delivery for delivery in taken if decode(delivery.body).run.owner.startswith(f"{tenant}/")]
    for delivery in own:
        world.memory.work.hide(delivery.receipt, 0)
    world.work()
    for delivery in taken:
        world.memory.work.hide(delivery.receipt, 0)


def test_a_full_queue_is_held_for_all(world: Pressed, caplog: pytest.LogCaptureFixture) -> None:
    neighbours(world, full=3_000)
    world.wait(360)
    serve_tenant(world, "quiet")
    before = len(world.fires("quiet/s"))
    with caplog.at_level(logging.WARNING):
        assert world.tick().held == ["default"]
    assert len(world.fires("quiet/s")) == before, "though its runs start"
    assert said(caplog, "queue.full")[0].depth >= 3_000  # type: ignore[attr-defined]


def test_tenants_that_cannot_be_looked_at_are_not_held(world: Pressed, caplog: pytest.LogCaptureFixture) -> None:
    neighbours(world, waiting=500)  # too few for their age to be read
    world.wait(360)
    before = {tenant: len(world.fires(f"{tenant}/s")) for tenant in ("loud", "quiet")}
    with caplog.at_level(logging.WARNING):
        world.tick(world.process(Faults().at("latest", before=fails, times=None)))
    assert said(caplog, "queue.tenants_not_looked_at")
    assert all(len(world.fires(f"{tenant}/s")) > count for tenant, count in before.items())


def test_an_owner_who_is_served_at_once_is_not_held_back(world: Pressed) -> None:
    """Only the ticker holds back: a submission of now goes to its queue, whatever waits there."""
    world.crowd(3 * DEPTH)
    assert len(world.memory.messages()) == 3 * DEPTH


def test_the_age_of_what_waits_holds_back_too(world: Pressed) -> None:
    world.memory = Memory(world.clock, shards=1, limits=Limits(depth=10**5, age=300 * SECOND))
    world.services = world.memory.connect()
    world.scheduler = world.owner()
    for name in ("a", "b", "c"):
        world.scheduler.create_schedule(name, "note", "* * * * *")
    world.memory.work.put("x")
    body = world.memory.work
    for n in range(FLOOR):
        body.put(f"garbage-{n}")
    assert world.tick().held == [], "nothing is due for long"
    held = []
    for _ in range(30):
        world.wait(60)
        held.append(bool(world.tick().held))
    assert held.index(True) <= 8
    assert all(held[held.index(True) :])
    assert read_hold_log(world.services).of(None).why == "age"
    world.work()
    world.wait(60)
    assert world.tick().held == []


@pytest.mark.parametrize("how", ["frozen", "suspended"])
def test_runs_that_wait_for_their_tenant_hold_nobody_back(world: Pressed, how: str) -> None:
    world.memory = Memory(world.clock, shards=1, limits=Limits(depth=10**5, age=300 * SECOND))
    world.services = world.memory.connect()
    world.scheduler = world.owner()
    for name in ("a", "b", "c"):
        world.scheduler.create_schedule(name, "note", "* * * * *")
    for n in range(FLOOR):
        world.memory.work.put(f"garbage-{n}")
    if how == "frozen":
        world.scheduler.freeze(from_ms(world.clock()) + timedelta(days=1))
    else:
        Tenants(services=world.services, clock=world.clock).suspend("acme")
    for _ in range(15):
        world.wait(60)
        assert world.tick().held == []


# What goes wrong.


def held_story(world: Pressed) -> None:
    """One schedule is due again, its last run waits, and its queue is full."""
    world.scheduler.create_schedule("s", "note", "0,30 * * * *")
    world.wait(29 * 60)
    world.tick()
    assert world.owned("s") == [1800]
    world.crowd(DEPTH - 1)
    world.wait(29 * 60)


@pytest.mark.parametrize("verb", ["load", "record", "write_record"])
def test_what_cannot_be_looked_at_or_noted_is_sent(world: Pressed, verb: str) -> None:
    held_story(world)
    report = world.tick(world.process(Faults().at(verb, before=fails, times=None)))
    assert (report.held, world.fires()) == ([], [1800, 3600])


def test_what_cannot_be_counted_any_more_is_sent_and_stays_excused(
    world: Pressed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was held back, and then nobody may ask for its depth: SQS answers nothing of it, for good."""
    world.scheduler.create_schedule("s", "note", "* * * * *", catch_up="none")
    world.ticks(2)
    claimed = world.owned("s")
    world.crowd()
    world.ticks(20)
    assert world.owned("s") == claimed
    services = world.process()
    monkeypatch.setattr(services.work, "load", lambda queues: {queue: [] for queue in queues})
    assert world.tick(services).held == []
    due = world.owned("s")
    assert due == [due[0] + 60 * n for n in range(len(due))], "none of them was passed over"
    assert len(due) > 20
    assert read_hold_log(world.services).of(None).now is not None
    world.wait(900)
    assert world.tick().held == ["default"], "once it can be counted again, it is held again"


def test_nothing_is_held_before_it_is_noted(world: Pressed) -> None:
    """A ticker dies at each of its calls: whatever was held is noted, and what the next one does excuses it."""
    held_story(world)
    verbs = Faults()
    world.tick(world.process(verbs))
    names = verbs.verbs()
    assert names.index("write_record") > names.index("load")
    world.scheduler.create_schedule("t", "note", "0 13 * * *")
    for verb in ("load", "record", "write_record"):
        world.services.records.remove(replace_version(world))
        with pytest.raises(BaseException, match=r".*"):
            world.tick(world.process(Faults().at(verb, before=crash)))
        assert world.fires() == [1800]
    assert world.tick().held == ["default"]
    world.work()
    world.tick()
    assert (world.owned("s"), world.owned("t")) == ([1800, 3600], [3600])


def replace_version(world: Pressed) -> Record:
    found = world.services.records.read(OWNER, KEY)
    return found or Record(owner=OWNER, key=KEY, version=1, body={})


def test_two_tickers_that_decide_at_once_agree(world: Pressed) -> None:
    held_story(world)
    others: list[Sequence[str]] = []
    first = Faults().at("write_record", before=lambda: others.append(world.tick(holder="other").held))
    report = world.tick(world.process(first))
    assert (report.held, others) == (["default"], [["default"]])
    (spell,) = read_hold_log(world.services).of(None).periods
    assert spell.until is None
    assert world.fires() == [1800]


def test_a_note_that_cannot_be_read_is_replaced(world: Pressed, caplog: pytest.LogCaptureFixture) -> None:
    held_story(world)
    world.services.records.write(Record(owner=OWNER, key=KEY, version=1, body={"queues": {"": "garbage"}}))
    assert world.tick().held == ["default"]
    assert said(caplog, "queues.note_unreadable")
    assert read_hold_log(world.services).of(None).now is not None


def test_missed_fires_wait_while_the_note_does_not_answer(world: Pressed) -> None:
    world.scheduler.create_schedule("s", "note", "* * * * *", catch_up="none")
    world.wait(3600)
    deaf = Faults()
    deaf.at("record", before=fails, times=None)
    report = world.tick(world.process(deaf))
    assert report.handled.agenda.left == 1
    assert world.chain() == [120], "not passed over, and not counted as a failure of its own"
    world.tick()
    assert any(run.state is RunState.SKIPPED for run in world.memory.runs("acme/s"))


def test_a_ticker_that_did_not_see_the_spell_does_not_pass_over_what_it_held(world: Pressed) -> None:
    """It looked when nothing was held, stalled for an hour, and goes on."""
    world.scheduler.create_schedule("s", "note", "* * * * *", catch_up="none")
    world.tick()
    claimed = world.owned("s")
    world.wait((claimed[-1] + 60) - 170)

    def an_hour_passes() -> None:
        world.crowd()
        for _ in range(60):
            world.wait(60)
            world.tick(holder="other")

    stalled = Faults().at("revisions", before=an_hour_passes)
    world.tick(world.process(stalled))
    assert all(run.state is not RunState.SKIPPED for run in world.memory.runs("acme/s"))
    first = [run.due for run in world.memory.runs("acme/s")]
    assert first == [first[0] + n * MINUTE for n in range(len(first))]
    assert len(first) > 60


def test_an_idle_tick_asks_no_queue(world: Pressed) -> None:
    world.scheduler.create_schedule("s", "note", "0 20 * * *")
    calls = Faults()
    world.tick(world.process(calls))
    assert {"load", "record"}.isdisjoint(calls.verbs())


def test_each_queue_is_looked_at_once_a_tick(world: Pressed) -> None:
    for n in range(8):
        world.scheduler.create_schedule(f"s{n}", "note", "0 13 * * *", queue="mail" if n % 2 else "default")
    world.wait(58 * 60)
    calls = Faults()
    report = world.tick(world.process(calls))
    assert report.handled.fires.claimed == 8
    assert calls.verbs().count("load") <= 2
    assert calls.verbs().count("record") <= 2


def test_it_can_be_switched_off(world: Pressed) -> None:
    held_story(world)
    services = replace(world.services, limits=Limits(depth=0))
    assert (world.tick(services).held, world.fires()) == ([], [1800, 3600])
