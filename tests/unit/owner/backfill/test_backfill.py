"""Backfill: exactly the fires that have no run, each as its revision defines it, a few at a time, and nothing after it was stopped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from quarterjack import Context, Rule
from quarterjack.domain.names import RunRef, fire_ref
from quarterjack.domain.run import EntryKind, RunState
from quarterjack.domain.times import DAY, SECOND, from_ms
from quarterjack.errors import Conflict, InvalidInput, NotFound
from quarterjack.owner.runs.submit import ORPHAN_PATIENCE
from quarterjack.sdk.views import Run
from quarterjack.state.backfill import BackfillOrderWord, BackfillState
from quarterjack.testing.process import work_off
from quarterjack.timing import fires
from quarterjack.worker.delivery.receive import receive
from quarterjack.worker.delivery.visibility import HIDDEN

from tests.support.scenes.backfills import Onlooker, Scene, whole
from tests.support.scenes.world import NOON, OWNER, Faults, World, at


@pytest.fixture
def scene() -> Scene:
    return Scene()


# Which fires.


@pytest.mark.parametrize("order", ["oldest", "newest"])
@pytest.mark.parametrize("concurrency", [1, 3, 100])
def test_every_fire_without_a_run_runs_once_as_its_own_revision_has_it(
    order: BackfillOrderWord, concurrency: int
) -> None:
    scene = Scene().past()
    since, until, before = NOON - 60 * SECOND, scene.clock(), scene.fired()
    due = scene.oracle(since, until)
    assert set(before) - {until} < set(due)
    planned = scene.scheduler.backfill("s", from_ms(since), scene.now(), order=order)
    assert (planned.total, planned.there) == (len(due), len(set(before) & set(due)))
    assert (planned.first, planned.last) == (from_ms(due[0]), from_ms(due[-1]))
    started = scene.scheduler.backfill("s", from_ms(since), scene.now(), **whole(order=order, concurrency=concurrency))
    ended = scene.until_over(started)
    assert ended.state is BackfillState.DONE
    assert (ended.total, ended.done, ended.skipped, ended.failed) == (
        len(due),
        len(due) - len(set(before) & set(due)),
        len(set(before) & set(due)),
        0,
    )
    assert [fire for fire in scene.fired() if fire < until] == due
    assert set(scene.starts().values()) == {1}
    for run in scene.of(started):
        assert (run.defined_by, run.revision) == (scene.definer(run.due).number, 4)


def test_the_order_is_that_which_was_asked_for(scene: Scene) -> None:
    scene.idle()
    scene.scheduler.backfill("s", at(0), at(300), **whole(concurrency=1))
    scene.live(1)
    assert scene.began() == [60, 120, 180, 240]
    scene.scheduler.backfill("s", at(300), at(600), **whole(concurrency=1, order="newest"))
    scene.live(1)
    assert scene.began()[4:] == [540, 480, 420, 360, 300]


def test_the_interval_is_closed_below_and_open_above(scene: Scene) -> None:
    scene.idle()
    first, second, instant = at(60), at(120), timedelta(microseconds=1)
    for start, end, due in (
        (first, second, 1),
        (first, second + instant, 2),
        (first - instant, first + instant, 1),
        (first + instant, second, 0),
    ):
        assert scene.scheduler.backfill("s", start, end).total == due


def test_the_job_learns_the_instant_and_the_backfill_and_its_own_payload(scene: Scene) -> None:
    seen: list[tuple[Any, ...]] = []

    @scene.jobs.job("tell")
    def tell(ctx: Context, payload: Any) -> None:
        seen.append((ctx.scheduled_at.isoformat(), ctx.backfill, ctx.missed, payload))

    scene.scheduler.create_schedule("t", "tell", "0 9 * * *", timezone="Europe/Paris", payload="own")
    plain = scene.scheduler.backfill("t", at(-2 * DAY / SECOND), at(0), **whole(current=True))
    scene.live(1)
    assert seen == [
        ("2026-05-03T09:00:00+02:00", plain.id, False, "own"),
        ("2026-05-04T09:00:00+02:00", plain.id, False, "own"),
    ]
    for payload in ("other", "x" * 2_000, None):
        seen.clear()
        scene.wait(60)
        day = (
            at(-3 * DAY / SECOND) if payload == "other" else at(-4 * DAY / SECOND) if payload else at(-5 * DAY / SECOND)
        )
        told = scene.scheduler.backfill("t", day, at(0), **whole(current=True, payload=payload))
        scene.live(1)
        assert [(which, text) for _, which, _, text in seen] == [(told.id, payload)]


def test_a_run_that_failed_is_retried_redriven_and_replayed_as_its_own_revision_had_it(scene: Scene) -> None:
    given: list[Any] = []

    @scene.jobs.job("bad-once", retry=None)
    def bad(ctx: Context, payload: Any) -> None:
        given.append(payload)
        if len(given) < 4:
            raise ValueError("boom")

    scene.scheduler.create_schedule("s", "bad-once", "* * * * *", payload=1)
    scene.scheduler.pause_schedule("s")
    scene.live(90)
    scene.scheduler.update_schedule("s", expression="0 0 1 1 *", payload=2)
    scene.scheduler.resume_schedule("s")
    started = scene.scheduler.backfill("s", at(0), at(90), **whole())
    ended = scene.until_over(started)
    assert (ended.done, ended.failed) == (1, 1)
    scene.scheduler.redrive(job="bad-once")
    scene.work()
    assert given == [1] * 4


def test_deadlines_and_retry_windows_do_not_count_from_the_past(scene: Scene) -> None:
    scene.scheduler.create_schedule("s", "bad", "* * * * *", deadline=60)
    scene.scheduler.pause_schedule("s")
    scene.live(600)
    scene.scheduler.resume_schedule("s")
    scene.scheduler.backfill("s", at(0), at(61), **whole())
    scene.live(120)
    run = scene.run(60)
    assert (run.state, run.attempt) == (RunState.DEAD, 3)


def test_the_current_definition_reaches_back_before_the_schedule_was_created(scene: Scene) -> None:
    scene.scheduler.create_schedule("s", "note", "0 * * * *")
    assert scene.scheduler.backfill("s", at(-7_200), at(0)).total == 0
    assert scene.scheduler.backfill("s", at(-7_200), at(0), current=True).total == 2


@pytest.mark.parametrize("spread", [{"window": 3_000}, {"jitter": 3_000}])
def test_the_current_definition_reaches_back_before_the_last_change_of_a_spread_rule(
    scene: Scene, spread: dict[str, Any]
) -> None:
    """An exclusion of a day to come moves no instant: the same times are due before and after it, and each once."""
    rule = Rule(expression="0 * * * *", **spread)
    scene.scheduler.create_schedule("s", "note", rule)
    before = scene.scheduler.backfill("s", at(-DAY / SECOND), at(-60), current=True)
    assert before.total == 24, (
        "each is moved by 50 minutes at most, so none of them beyond a range that ends with minute 59"
    )
    scene.wait(3_600 * 5 + 60)
    scene.scheduler.update_schedule("s", expression=replace(rule, exclude=("2027-01-01",)))
    scene.wait(3_600 * 3 - 120)
    *_, newest = scene.memory.revisions(OWNER)
    assert newest.definition.rule.decided is not None
    after = scene.scheduler.backfill("s", at(-DAY / SECOND), scene.now(), current=True)
    assert after.total == 24 + 8
    assert after.first == before.first
    started = scene.scheduler.backfill("s", at(-DAY / SECOND), scene.now(), **whole(current=True))
    ended = scene.until_over(started)
    assert ended.state is BackfillState.DONE
    assert ended.total == after.total
    hours = [run.due // (3_600 * SECOND) for run in scene.memory.runs() if run.ref.is_fire]
    assert len(hours) == len(set(hours)), "an instant that ran before is not run again"


def test_rates_go_on_from_where_they_counted_and_before_that_from_the_start(scene: Scene) -> None:
    scene.wait(70)
    scene.scheduler.create_schedule("s", "note", "rate(60 seconds)")
    scene.live(180)
    before = scene.fired()
    planned = scene.scheduler.backfill("s", at(-1), scene.now(), current=True)
    assert (planned.first, planned.total, planned.there) == (at(58.999), 1 + 2, len(before) - 1)


def test_what_its_owner_or_a_policy_passed_over_stays_so_and_what_a_stop_took_back_runs(scene: Scene) -> None:
    scene.idle()
    cancelled = RunRef(*fire_ref(OWNER, NOON + 60 * SECOND))
    row = scene.memory.row(cancelled)
    assert row is not None
    assert row["unstarted"]
    scene.memory.put_row(cancelled, {k: v for k, v in row.items() if k != "unstarted"} | {"state": "SKIPPED"})
    gap = RunRef(OWNER, f"{cancelled.key}~gap")
    scene.memory.put_row(gap, row | {"key": gap.key, "state": "SKIPPED", "skipped": 3, "skipped_until": NOON + 180_000})
    ended = scene.until_over(scene.scheduler.backfill("s", at(0), at(240), **whole()))
    assert (ended.total, ended.done, ended.skipped) == (3, 2, 1)
    assert scene.began() == [120, 180]


def test_a_predecessor_of_the_same_name_is_another_schedule(scene: Scene) -> None:
    scene.idle()
    scene.scheduler.delete_schedule("s")
    scene.wait(60)
    scene.scheduler.create_schedule("s", "note", "0 0 1 1 *")
    scene.wait(60)
    assert scene.scheduler.backfill("s", at(0), scene.now()).total == 0


def test_what_the_ledger_may_have_forgotten_is_refused_and_passed_over() -> None:
    scene = Scene(retention=10 * 60 * SECOND)
    scene.idle()
    with pytest.raises(InvalidInput, match="allow_repeat"):
        scene.scheduler.backfill("s", at(600), at(1_200))
    started = scene.scheduler.backfill("s", at(720), at(1_200), **whole(concurrency=1))
    scene.wait(120)  # meanwhile fires at 720 and 780 have come out of its sight
    ended = scene.until_over(started)
    assert (ended.total, ended.done + ended.skipped) == (8, 8)
    assert 780 not in scene.began()
    again = scene.until_over(scene.scheduler.backfill("s", at(0), at(720), **whole(allow_repeat=True)))
    assert again.done == 11


# How many at a time.


def test_never_more_than_its_concurrency_is_under_way() -> None:
    scene = Scene().past()
    look = Onlooker(scene)
    started = scene.owner(look).backfill("s", at(0), scene.now(), **whole(concurrency=5))
    services = scene.process(look)
    worker = scene.worker(look)
    for _ in range(40):
        scene.tick(services)
        scene.work(worker)
        scene.wait(60)
    assert scene.now_is(started).state is BackfillState.DONE
    assert look.most == 5


def test_it_goes_at_the_workers_pace_not_the_ticks(scene: Scene) -> None:
    scene.idle()
    started = scene.scheduler.backfill("s", at(0), at(1_200), **whole(concurrency=2))
    scene.work()  # not one tick
    assert scene.now_is(started).state is BackfillState.DONE
    assert len(scene.started) == 19


def test_a_year_of_minutes_is_planned_without_being_written(scene: Scene) -> None:
    scene.scheduler.create_schedule("s", "note", "* * * * *")
    before = scene.memory.runs()
    planned = scene.scheduler.backfill("s", at(-365 * DAY / SECOND), at(0), current=True, allow_repeat=True)
    assert (planned.total, planned.there, planned.id, planned.state) == (525_600, 0, None, BackfillState.PLANNED)
    assert scene.memory.runs() == before
    assert scene.scheduler.list_backfills("s") == []
    assert scene.entries(EntryKind.BACKFILL) == []


def test_an_interval_of_too_many_fires_is_refused_before_they_are_counted(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred years of minutes took minutes of the caller's processor."""
    counted: list[int] = []

    def counting(*given: Any) -> Iterator[int]:
        for fire in fires(*given):
            counted.append(fire)
            yield fire

    monkeypatch.setattr("quarterjack.owner.backfill.plan.MOST_FIRES", 1_000)
    monkeypatch.setattr("quarterjack.owner.backfill.spans.fires", counting)
    scene.scheduler.create_schedule("s", "note", "* * * * *")
    start = at(-40 * 365 * DAY / SECOND)
    for dry_run in (True, False):
        counted.clear()
        with pytest.raises(InvalidInput, match="in parts") as refused:
            scene.scheduler.backfill("s", start, at(0), current=True, allow_repeat=True, dry_run=dry_run)
        assert refused.value.field == "end"
        assert len(counted) == 1_001
    fitting = scene.scheduler.backfill("s", start, start + timedelta(minutes=1_000), current=True, allow_repeat=True)
    assert fitting.total == 1_000


# Pause, resume, cancel, and what happens to the schedule.


def test_a_paused_backfill_starts_nothing_and_goes_on_where_it_was(scene: Scene) -> None:
    scene.idle()
    started = scene.scheduler.backfill("s", at(0), at(1_200), **whole(concurrency=2))
    assert started.id is not None
    paused = scene.scheduler.pause_backfill("s", started.id)
    assert (paused.state, paused.under_way) == (BackfillState.PAUSED, 2)
    scene.live(ORPHAN_PATIENCE // SECOND + 60)
    assert scene.started == []
    assert scene.entries(EntryKind.BACKFILL) == []
    assert scene.scheduler.pause_backfill("s", started.id).state is BackfillState.PAUSED
    scene.scheduler.resume_backfill("s", started.id)
    assert scene.until_over(started).done == 19
    assert set(scene.starts().values()) == {1}


def test_a_run_between_two_attempts_goes_on_after_a_pause_and_not_after_a_cancellation() -> None:
    for act, attempts in (("pause_backfill", 3), ("cancel_backfill", 1)):
        scene = Scene().idle("bad")
        started = scene.scheduler.backfill("s", at(0), at(61), **whole())
        scene.work()
        getattr(scene.scheduler, act)("s", started.id)
        scene.live(300)
        assert scene.run(60).attempt == attempts


def test_a_cancelled_backfill_is_over_and_another_can_have_what_is_left(scene: Scene) -> None:
    scene.idle()
    first = scene.scheduler.backfill("s", at(0), at(1_200), **whole(concurrency=2))
    assert first.id is not None
    assert scene.scheduler.cancel_backfill("s", first.id).state is BackfillState.CANCELLED
    assert scene.scheduler.cancel_backfill("s", first.id).ended_at is not None
    scene.live(600)
    assert scene.started == []
    for act in (scene.scheduler.pause_backfill, scene.scheduler.resume_backfill):
        with pytest.raises(Conflict, match="CANCELLED and stays so"):
            act("s", first.id)
    second = scene.until_over(scene.scheduler.backfill("s", at(0), at(1_200), **whole()))
    assert (second.done, second.skipped) == (19, 0)
    assert [backfill.id for backfill in scene.scheduler.list_backfills("s")] == [first.id, second.id]


def test_a_stopped_backfill_takes_no_run_of_the_next_one(scene: Scene) -> None:
    """A worker holds a message of the first, read before, while the first is cancelled and a second claims the same fire."""
    scene.idle()
    first = scene.scheduler.backfill("s", at(0), at(120), **whole(concurrency=1))
    worker = scene.worker(name="stalled")
    received = receive(worker, worker.services.work.receive(most=1, wait=0, visibility=HIDDEN))
    assert first.id is not None
    scene.scheduler.cancel_backfill("s", first.id)
    second = scene.scheduler.backfill("s", at(0), at(120), **whole(concurrency=1))
    (outcome,) = work_off(worker, received)
    assert outcome.why == "claimed by another backfill"
    assert (scene.run(60).state, scene.run(60).backfill) == (RunState.QUEUED, second.id)
    ended = scene.until_over(second)
    assert (ended.state, ended.done) == (BackfillState.DONE, 1)
    assert scene.began() == [60]


@pytest.mark.parametrize("act", ["cancel_backfill", "pause_backfill"])
def test_what_a_stopped_backfill_sent_takes_nothing_from_the_next(scene: Scene, act: str) -> None:
    """Found by the simulator: a message of the first, read when it was stopped, took the run back that was the second's by then."""
    scene.idle()
    first = scene.scheduler.backfill("s", at(0), at(1_200), **whole(concurrency=2))
    getattr(scene.scheduler, act)("s", first.id)
    second = scene.scheduler.backfill("s", at(0), at(1_200), **whole(payload=2))
    scene.live(1)
    assert {run.state for run in scene.of(second)[:10]} == {RunState.SUCCEEDED}, "at once, not at the next tick"
    over = scene.until_over(second)
    assert (over.done, over.skipped) == (19, 0)
    assert [start.payload for start in scene.started] == [2] * 19


def test_while_its_schedule_is_paused_it_waits(scene: Scene) -> None:
    scene.idle()
    started = scene.scheduler.backfill("s", at(0), at(1_200), **whole(concurrency=3))
    scene.scheduler.pause_schedule("s")
    scene.live(600)
    assert scene.started == []
    scene.scheduler.resume_schedule("s")
    assert scene.until_over(started).done == 19
    assert set(scene.starts().values()) == {1}


def test_on_a_paused_schedule_it_can_be_started_and_waits(scene: Scene) -> None:
    scene.idle()
    scene.scheduler.pause_schedule("s")
    started = scene.scheduler.backfill("s", at(0), at(300), **whole())
    scene.live(120)
    assert scene.started == []
    scene.scheduler.resume_schedule("s")
    assert scene.until_over(started).done == 4


def test_an_update_changes_nothing_about_it(scene: Scene) -> None:
    scene.idle()
    started = scene.scheduler.backfill("s", at(0), at(1_200), **whole(concurrency=3))
    scene.scheduler.update_schedule("s", expression="0 0 2 2 *", job="once")
    ended = scene.until_over(started)
    assert ended.done == 19
    assert {run.job for run in scene.of(started)} == {"note"}


@pytest.mark.parametrize("again", [False, True])
def test_it_ends_with_its_schedule(scene: Scene, again: bool) -> None:
    scene.idle()
    started = scene.scheduler.backfill("s", at(0), at(1_200), **whole(concurrency=3))
    scene.scheduler.delete_schedule("s")
    scene.wait(1)
    if again:
        scene.scheduler.create_schedule("s", "note", "0 0 1 1 *")
    scene.live(600)
    ended = scene.now_is(started)
    assert (ended.state, ended.reason, scene.started) == (BackfillState.CANCELLED, "schedule deleted", [])
    assert scene.entries(EntryKind.BACKFILL) == []


# What it leaves, and what it shows.


def test_what_it_leaves_expires_with_it(scene: Scene) -> None:
    scene.idle()
    started = scene.scheduler.backfill("s", at(0), at(300), **whole(concurrency=2))
    scene.live(300)
    assert scene.entries(EntryKind.BACKFILL) == []
    scene.wait(91 * DAY / SECOND)
    scene.memory.expire()
    assert list(scene.services.records.listed(OWNER, "~backfill~")) == []
    assert started.id is not None
    with pytest.raises(NotFound, match="list_backfills"):
        scene.scheduler.get_backfill("s", started.id)


def test_its_runs_are_paged_past_those_of_others(scene: Scene) -> None:
    scene.past()
    started = scene.scheduler.backfill("s", at(0), scene.now(), **whole())
    scene.until_over(started)
    assert started.id is not None
    found: list[Run] = []
    cursor = None
    while True:
        page = scene.scheduler.backfill_runs("s", started.id, limit=2, cursor=cursor)
        assert len(page.items) <= 2
        found += page.items
        cursor = page.cursor
        if cursor is None:
            break
    assert [run.id for run in found] == [str(run.ref) for run in scene.of(started)]


def test_nothing_due_is_done_at_once(scene: Scene) -> None:
    scene.idle()
    nothing = scene.scheduler.backfill("s", at(61), at(70), **whole())
    assert (nothing.state, nothing.total, nothing.progress, nothing.reason) == ("DONE", 0, 1.0, "nothing is due")
    assert scene.entries(EntryKind.BACKFILL) == []


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"start": at(0).replace(tzinfo=None)}, "start"),
        ({"end": at(60).replace(tzinfo=None)}, "end"),
        ({"end": at(0)}, "end"),
        ({"end": at(-60)}, "end"),
        ({"end": at(10**6)}, "end"),
        ({"order": "random"}, "order"),
        ({"concurrency": 0}, "concurrency"),
        ({"concurrency": 101}, "concurrency"),
        ({"concurrency": True}, "concurrency"),
        ({"payload": object()}, "payload"),
        ({"current": 1}, "current"),
        ({"dry_run": None}, "dry_run"),
        ({"name": "no spaces"}, "name"),
    ],
)
def test_bad_input_is_refused_by_the_name_of_its_field(scene: Scene, given: dict[str, Any], field: str) -> None:
    scene.idle()
    before = len(scene.memory.entries())
    arguments: dict[str, Any] = {"name": "s", "start": at(0), "end": at(60), "dry_run": False}
    with pytest.raises(InvalidInput) as refused:
        scene.scheduler.backfill(**(arguments | given))
    assert refused.value.field == field
    assert len(scene.memory.entries()) == before
    assert scene.scheduler.list_backfills("s") == []


def test_a_schedule_that_never_was_has_none(scene: World) -> None:
    with pytest.raises(NotFound, match="never"):
        scene.scheduler.backfill("never", at(-60), at(0))
    assert scene.scheduler.list_backfills("never") == []


def test_a_schedule_that_is_deleted_while_its_backfill_is_planned(scene: Scene) -> None:
    """Found by the simulator: the history read after the head was empty, and the owner got a ValueError."""
    scene.idle()
    deleted = Faults().at("history", before=lambda: scene.scheduler.delete_schedule("s"))
    with pytest.raises(Conflict, match="deleted meanwhile"):
        scene.owner(deleted).backfill("s", at(0), at(600), **whole())
    assert scene.entries(EntryKind.BACKFILL) == []


def test_a_lost_message_is_sent_again_however_few_ticks_come(scene: Scene) -> None:
    """Found by the simulator: sent again was at the first, second, fourth … minute, and the ticks came at none of them."""
    scene.idle()
    started = scene.scheduler.backfill("s", at(0), at(600), concurrency=1, **whole())
    (lost,) = scene.of(started)
    assert scene.services.work.receive(most=10, wait=0, visibility=1_200), "and whoever had it is never heard of again"
    scene.wait(190)
    scene.tick()
    assert [message.run for message in scene.memory.messages()].count(lost.ref) == 2
    for _ in range(3):
        scene.wait(60)
        scene.tick()
    copies = [message.run for message in scene.memory.messages()].count(lost.ref)
    assert copies <= 4, "at four minutes, at five perhaps, not again before eight"


# A chain that is late.


@pytest.mark.parametrize(
    ("stop", "ticked"), [("cancel_backfill", False), ("cancel_backfill", True), ("pause_backfill", False)]
)
def test_a_fire_that_a_backfill_took_from_a_late_chain_runs_whatever_becomes_of_the_backfill(
    stop: str, *, ticked: bool
) -> None:
    """The ticker was away for ten minutes: the fires that a backfill has claimed meanwhile are still the schedule's own."""
    scene = Scene()
    scene.scheduler.create_schedule("s", "note", "* * * * *", catch_up="all")
    scene.wait(600)
    due = scene.oracle(NOON, scene.clock())
    started = scene.scheduler.backfill("s", at(0), scene.now(), **whole(concurrency=4))
    assert len(scene.of(started)) == 4
    if ticked:  # the chain meets them while they wait
        scene.tick()
    getattr(scene.scheduler, stop)("s", started.id)
    scene.live(900)
    assert [fire for fire in scene.fired() if fire in due] == due
    assert set(scene.starts().values()) == {1}
