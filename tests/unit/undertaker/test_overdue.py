"""What an owner is told of a run that does not end in time, while it goes on or waits, and what that costs: nothing without the options."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

import pytest
from quarterjack import Cause, Context, Retry, RunState
from quarterjack.domain.names import fire_ref
from quarterjack.domain.notice import SCHEDULE_EVENTS
from quarterjack.domain.run import EntryKind, RunRow
from quarterjack.fires.context import GOES, FireContext
from quarterjack.state.lease import SKEW
from quarterjack.testing import Crash, Detail, Hook
from quarterjack.undertaker.overdue import watch_end

from tests.support.scenes.incidents import CALM, TOPIC
from tests.support.scenes.incidents import Scene as Incidents
from tests.support.scenes.world import NOON, OWNER, Faults, at, crash


@dataclass(kw_only=True)
class Scene(Incidents):
    """Its job takes as long as ``body`` takes."""

    broken: bool = False
    body: Callable[[Context], Any] = field(default=lambda ctx: None)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.jobs.job("slow", retry=Retry(max_attempts=3, base=400.0, cap=400.0))(self._slow)

    def _slow(self, ctx: Context, payload: object) -> Any:
        self.note(ctx, payload)
        return self.body(ctx)

    def schedule(self, expression: str = "0 13 * * *", **options: Any) -> None:
        """By default one fire, an hour after noon."""
        given: dict[str, Any] = {"on_failure": TOPIC, "on_recovery": CALM}
        self.scheduler.create_schedule("s", "slow", expression, **(given | options))

    def minutes(self, count: int) -> None:
        """Ticks, and no worker."""
        for _ in range(count):
            self.wait(60)
            self.tick()

    def only(self) -> RunRow:
        (run,) = self.memory.runs(OWNER)
        return run

    @property
    def timers(self) -> list[int]:
        """Minutes after noon at which the timers of runs are due."""
        return [(entry.due - SKEW - NOON) // 60_000 for entry in self.entries(EntryKind.OVERDUE)]


def test_a_run_that_waits_beyond_its_end_is_told_once_and_its_end_once() -> None:
    scene = Scene()
    scene.schedule(must_end_by=1800)
    scene.minutes(90)
    assert (scene.only().state, scene.kinds) == (RunState.QUEUED, [])
    scene.minutes(90)
    assert (scene.only().state, scene.kinds) == (RunState.QUEUED, ["overdue"])
    (told,) = scene.told
    assert (told.run, told.state, told.began) == (str(scene.only().ref), "QUEUED", "2026-05-04T13:30:00.000Z")
    assert told.at == "2026-05-04T13:31:00.000Z"  # the first tick after it, and after the clocks' skew
    assert told.text == (
        f"acme/s has an overdue run: {told.run} has not started, and must_end_by=1800.0 was over at 2026-05-04T13:30:00.000Z."
    )
    scene.live(20 * 60)
    over = scene.told[-1]
    assert (scene.kinds, over.state, over.incident) == (["overdue", "overdue_ended"], "SUCCEEDED", told.incident)
    assert [published.topic for published in scene.memory.published] == [TOPIC, CALM]
    assert scene.entries(EntryKind.OVERDUE) == []
    assert (scene.head.failing, scene.head.incident) == (0, None)


def test_a_run_that_goes_on_is_told_while_it_goes_on() -> None:
    scene = Scene()
    scene.body = lambda ctx: scene.minutes(30)
    scene.schedule(alert_if_running_longer_than=600)
    scene.live(3605)
    told = scene.told[0]
    assert (told.kind, told.state, told.began) == ("overdue", "RUNNING", "2026-05-04T13:10:00.000Z")
    assert told.at == "2026-05-04T13:11:00.000Z"
    assert scene.only().state is RunState.SUCCEEDED
    scene.live(20 * 60)
    assert scene.kinds == ["overdue", "overdue_ended"]


def test_why_says_so_of_a_run_that_goes_on_and_of_one_that_has_ended() -> None:
    scene = Scene()
    scene.schedule(must_end_by="13:30", on_failure=None)
    scene.minutes(90)
    early = scene.scheduler.why_run(str(scene.only().ref))
    assert Cause.OVERDUE not in early.causes
    scene.minutes(30)
    answer = scene.scheduler.why_run(str(scene.only().ref))
    assert Cause.OVERDUE in answer.causes
    assert "It is overdue for 30 min: must_end_by='13:30' was over at 2026-05-04T13:30:00.000Z." in str(answer)
    scene.work()
    answer = scene.scheduler.why_run(str(scene.only().ref))
    assert Cause.OVERDUE not in answer.causes
    assert "It ended 30 min too late: must_end_by='13:30'" in str(answer)


def test_running_time_is_counted_from_the_start() -> None:
    scene = Scene()
    scene.body = lambda ctx: scene.minutes(8)
    scene.schedule(alert_if_running_longer_than=600)
    scene.minutes(90)  # it waits for a worker half an hour
    scene.work()
    scene.minutes(30)
    assert (scene.only().state, scene.kinds, scene.timers) == (RunState.SUCCEEDED, [], [])


def test_a_run_that_ends_in_time_leaves_nothing() -> None:
    scene = Scene()
    scene.schedule(must_end_by="14:00", alert_if_running_longer_than=600)
    scene.live(59 * 60)
    assert scene.timers == [70]  # the earlier one
    scene.live(3 * 3600)
    assert (scene.only().state, scene.told, scene.timers) == (RunState.SUCCEEDED, [], [])


def test_a_run_whose_worker_vanished_is_told() -> None:
    scene = Scene()
    scene.schedule(alert_if_running_longer_than=120)
    scene.minutes(60)
    with pytest.raises(Crash):
        scene.work(scene.worker(Faults().at("succeed", before=crash)))
    scene.minutes(5)
    assert (scene.only().state, scene.kinds) == (RunState.RUNNING, ["overdue"])


@pytest.mark.parametrize("waits", ["parked", "retried"])
def test_the_waits_of_a_run_count(waits: str) -> None:
    scene = Scene()

    def body(ctx: Context) -> None:
        if waits == "parked":
            ctx.sleep(400)
        elif ctx.attempt < 3:
            raise TimeoutError("not yet")

    scene.body = body
    scene.schedule(alert_if_running_longer_than=300)
    scene.live(3600 + 370)
    assert scene.only().state is (RunState.PARKED if waits == "parked" else RunState.RETRYING)
    assert scene.kinds == ["overdue"]
    scene.live(3600)
    assert (scene.only().state, scene.kinds) == (RunState.SUCCEEDED, ["overdue", "overdue_ended"])


def test_a_cancelled_run_is_over() -> None:
    scene = Scene()
    scene.schedule(must_end_by=600)
    scene.minutes(80)
    scene.scheduler.cancel_run(str(scene.only().ref))
    scene.minutes(10)
    assert [notice.state for notice in scene.told] == ["QUEUED", "CANCELLED"]


def test_what_a_pause_takes_back_is_not_overdue() -> None:
    scene = Scene()
    scene.schedule("*/10 * * * *", must_end_by=600)
    scene.minutes(15)
    scene.scheduler.pause_schedule("s")
    scene.minutes(60)
    assert {run.state for run in scene.memory.runs(OWNER)} == {RunState.CANCELLED}
    assert (scene.told, scene.timers) == ([], [])


def test_each_overdue_run_is_an_incident_of_its_own() -> None:
    scene = Scene()
    scene.schedule("0 13,14 * * *", must_end_by=600)
    scene.minutes(3 * 60)
    assert scene.kinds == ["overdue", "overdue"]
    assert len({notice.incident for notice in scene.told}) == 2


def test_a_triggered_run_is_watched_by_one_write_more_and_no_read() -> None:
    calls = {}
    for name, end in (("plain", None), ("watched", 600)):
        scene, faults = Scene(), Faults()
        scene.schedule(must_end_by=end)
        scene.owner(faults).trigger("s")
        calls[name] = [f"{operation} {detail.verb} {len(detail.items)}" for operation, detail in faults.calls]
        scene.minutes(30)
        assert (scene.kinds == ["overdue"]) == (name == "watched")
    different = [pair for pair in zip(calls["plain"], calls["watched"], strict=True) if pair[0] != pair[1]]
    assert different == [("BatchWriteItem put 1", "BatchWriteItem put 2")], calls


def test_a_schedule_without_the_options_makes_the_calls_that_it_always_made() -> None:
    calls = {}
    for name, end in (("plain", None), ("watched", 3600)):
        scene, faults = Scene(), Faults()
        scene.schedule("*/10 * * * *", must_end_by=end)
        for _ in range(10):
            scene.tick(scene.process(faults))
            scene.work(scene.worker(faults))
            scene.wait(60)
        calls[name] = [f"{operation} {detail.verb}" for operation, detail in faults.calls]
        assert bool(scene.timers) == (name == "watched")
    plain, watched = Counter(calls["plain"]), Counter(calls["watched"])
    assert plain - watched == Counter()
    assert watched - plain == Counter({"BatchWriteItem put": 1})  # of the timer of the one fire


def test_a_watched_run_costs_an_entry_its_removal_and_a_read() -> None:
    scene, faults = Scene(), Faults()
    scene.schedule(must_end_by=600)
    scene.live(4200)
    assert len(scene.timers) == 1
    scene.wait(120)
    scene.tick(scene.process(faults))
    about = [verb for verb in faults.verbs() if verb in ("read", "revisions", "put", "remove", "write_record")]
    assert about == ["read", "remove"]


def test_without_a_receiver_nothing_is_written() -> None:
    scene, faults = Scene(), Faults()
    scene.schedule(must_end_by=600, on_failure=None)
    scene.minutes(70)
    scene.wait(120)
    scene.tick(scene.process(faults))
    assert scene.timers == []
    assert "write_record" not in faults.verbs()


def test_whoever_is_not_told_of_the_end_costs_no_timer_for_it() -> None:
    scene = Scene()
    scene.schedule(must_end_by=600, on_recovery=None)
    scene.minutes(80)
    assert (scene.kinds, scene.timers) == (["overdue"], [])


def test_events_are_published_without_a_receiver() -> None:
    scene = Scene()
    scene.memory.schedule_events = frozenset(SCHEDULE_EVENTS.values())
    scene.services = scene.process()
    scene.schedule(must_end_by=600, on_failure=None, on_recovery=None)
    scene.minutes(80)
    records = list(scene.services.records.listed(OWNER, "~notice~"))
    assert [record.body["notice"]["kind"] for record in records] == ["overdue"]


def test_a_run_of_a_backfill_is_late_by_design() -> None:
    scene = Scene()
    scene.schedule("*/10 * * * *", must_end_by=600)
    scene.scheduler.backfill("s", at(-3600), at(-1800), dry_run=False)
    scene.scheduler.pause_schedule("s")
    scene.live(3600)
    assert scene.told == []


def test_fires_of_an_outage_that_all_run_are_late_by_design() -> None:
    scene = Scene()
    scene.schedule("*/10 * * * *", must_end_by=600, automatic_backfill=True)
    scene.wait(6 * 3600)
    scene.live(20 * 60)
    assert len(scene.memory.runs(OWNER)) > 30
    assert scene.told == []


def test_a_fire_that_a_newer_revision_took_over_is_told_by_its_limit_and_once() -> None:
    scene = Scene()
    scene.schedule("*/10 * * * *", must_end_by=1200)
    scene.minutes(8)
    assert len(scene.memory.runs(OWNER)) == 1
    scene.scheduler.update_schedule("s", expression="10 * * * *", must_end_by=600)
    scene.minutes(40)
    run = scene.run(600)
    assert (run.revision, run.state) == (2, RunState.QUEUED)
    assert [(notice.began, notice.run) for notice in scene.told] == [("2026-05-04T12:20:00.000Z", str(run.ref))]


def test_two_tickers_tell_once() -> None:
    scene = Scene()
    scene.schedule(must_end_by=600)
    scene.minutes(70)
    (entry,) = scene.entries(EntryKind.OVERDUE)
    scene.wait(120)
    for _ in range(2):
        assert watch_end(entry, FireContext(services=scene.services, clock=scene.clock)).may_go
        scene.wait(1)
    assert scene.kinds == ["overdue"]
    assert (
        len(scene.entries(EntryKind.OVERDUE)) == 2
    )  # the first entry, which its ticker did not remove, and that of the end


def test_an_entry_without_its_run_goes_after_a_while() -> None:
    scene = Scene()
    scene.schedule(must_end_by=600)
    scene.minutes(60)
    (entry,) = scene.entries(EntryKind.OVERDUE)
    lonely = type(entry)(
        shard=0, due=scene.clock(), kind=entry.kind, id=str(fire_ref(OWNER, 1)), created_at=scene.clock()
    )
    context = FireContext(services=scene.services, clock=scene.clock)
    scene.services.agenda.put([lonely])
    assert watch_end(lonely, context).may_go  # it was put at a later time
    assert [each.due - scene.clock() for each in scene.entries(EntryKind.OVERDUE) if each.id == lonely.id] == [
        0,
        60_000,
    ]
    scene.wait(3700)
    assert watch_end(lonely, context) == GOES


class Refuses(Hook):
    """Of the entries of overdue runs, none is accepted."""

    def before_call(self, operation: str, detail: Detail) -> Collection[int]:
        return [n for n, key in enumerate(detail.items) if "#overdue#" in str(key)] if detail.verb == "put" else ()


def test_the_chain_stays_until_the_timers_are_accepted() -> None:
    scene = Scene()
    scene.schedule("0 13 * * *", must_end_by=600)
    scene.wait(3500)
    scene.tick(scene.process(Refuses()))
    assert (scene.timers, scene.chain()) == ([], [3600])
    scene.tick()
    assert (scene.timers, scene.chain()) == ([70], [3600 + 86_400])
