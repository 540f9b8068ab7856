"""What an owner is told of a schedule that fails, and when: once per incident."""

from __future__ import annotations

from collections.abc import Collection

from quarterjack import Context, Retry, RunState
from quarterjack.domain.run import EntryKind
from quarterjack.errors import Misconfigured
from quarterjack.testing import Detail, Hook
from quarterjack.ticker.tick import MAX_FAILURES
from quarterjack.undertaker.incidents import AT_ONCE

from tests.support.scenes.incidents import CALM, TOPIC, Scene
from tests.support.scenes.world import at


def test_a_schedule_that_fails_says_so_once_and_once_that_it_recovered() -> None:
    scene = Scene()
    scene.schedule()
    scene.live(3 * 60 + 30)
    assert (scene.head.failing, scene.kinds) == (3, ["failure"])
    assert scene.now_is.failed_run == str(scene.run(180).ref)
    scene.broken = False
    scene.live(3 * 60)
    assert scene.kinds == ["failure", "recovery"]
    assert [published.topic for published in scene.memory.published] == [TOPIC, CALM]
    assert (scene.head.failing, scene.head.incident) == (0, None)
    failure, recovery = scene.told
    assert failure.incident == recovery.incident
    assert (failure.run, recovery.run) == (str(scene.run(60).ref), str(scene.run(240).ref))
    assert (failure.error_type, failure.state, recovery.state) == ("Boom", "DEAD", "SUCCEEDED")
    assert (failure.count, recovery.count) == (1, 3)


def test_a_healthy_schedule_writes_nothing_more() -> None:
    scene = Scene(broken=False)
    scene.schedule()
    before = scene.head
    scene.live(10 * 60)
    assert scene.head == before
    assert {entry.kind for entry in scene.memory.entries()} == {EntryKind.CHAIN}
    assert [state for _, state in scene.states()].count(RunState.SUCCEEDED) == 10


def test_the_next_incident_is_told_anew() -> None:
    scene = Scene()
    scene.schedule()
    for broken in (True, False, True, False):
        scene.broken = broken
        scene.live(3 * 60)
    assert scene.kinds == ["failure", "recovery"] * 2
    assert len({notice.incident for notice in scene.told}) == 2


def test_an_attempt_that_fails_is_no_incident() -> None:
    scene = Scene()
    scene.jobs.job("stubborn", retry=Retry(max_attempts=3, base=5.0))(stubborn)
    scene.scheduler.create_schedule("s", "stubborn", "*/5 * * * *", on_failure=TOPIC, on_recovery=CALM)
    scene.live(11 * 60)
    assert [run.attempt for run in scene.memory.runs() if run.state is RunState.SUCCEEDED] == [3, 3]
    assert (scene.told, scene.head.failing) == ([], 0)


def stubborn(ctx: Context, payload: object) -> None:
    if ctx.attempt < 3:
        raise TimeoutError("not yet")


def test_nobody_is_told_who_did_not_ask() -> None:
    scene = Scene()
    scene.schedule(on_failure=None, on_recovery=None)
    scene.live(2 * 60 + 30)
    assert (scene.head.failing, scene.told, scene.entries(EntryKind.NOTICE)) == (2, [], [])
    scene.broken = False
    scene.live(3 * 60)
    assert (scene.head.failing, scene.head.incident) == (0, None)


def test_a_queue_says_whom_to_tell_where_its_schedules_do_not() -> None:
    scene = Scene()
    scene.jobs.queue("reports", on_failure=TOPIC)
    scene.memory.add_queue("reports")
    scene.scheduler.create_schedule("s", "flaky", "* * * * *", queue="reports")
    harness_worker = scene.memory.connect(queue="reports")
    assert harness_worker.work.names() == ["reports"]
    (revision,) = scene.memory.revisions("acme/s")
    assert (revision.definition.options.on_failure, revision.definition.options.on_recovery) == (TOPIC, None)


# A job that is told.


def test_a_job_is_told_by_a_run_of_its_own() -> None:
    scene = Scene()
    scene.schedule(on_failure="job:page", on_recovery="job:page")
    scene.live(2 * 60 + 30)
    scene.broken = False
    scene.live(2 * 60)
    assert [payload["kind"] for payload in scene.given] == ["failure", "recovery"]
    assert scene.given[0] | {"schema": 1, "schedule": "s", "tenant": "acme", "count": 1} == scene.given[0]


def test_a_job_that_is_told_and_fails_itself_is_no_incident() -> None:
    scene = Scene()
    scene.schedule(on_failure="job:flaky")
    scene.live(5 * 60)
    told = [run for run in scene.memory.runs() if run.ref.is_one_off]
    assert [run.state for run in told] == [RunState.DEAD]
    assert [head.name for head in scene.memory.heads()] == ["s"]


# Pause on failure.


def test_so_many_dead_runs_in_a_row_pause_the_schedule() -> None:
    scene = Scene()
    scene.schedule(pause_on_failure=3)
    scene.live(10 * 60)
    assert scene.began() == [60, 120, 180]
    paused = scene.now_is
    assert (paused.state, paused.failing) == ("PAUSED", 3)
    assert paused.reason == f"paused by itself: 3 in a row failed for good, at last {scene.run(180).ref}"
    assert scene.kinds == ["failure", "paused"]
    assert {run.state for run in scene.memory.runs("acme/s")} == {RunState.DEAD, RunState.CANCELLED}


def test_a_success_in_between_begins_the_count_anew() -> None:
    scene = Scene()
    scene.schedule(pause_on_failure=3)
    for _ in range(3):
        scene.broken = True
        scene.live(2 * 60)
        scene.broken = False
        scene.live(2 * 60)
    assert scene.now_is.state == "ACTIVE"


def test_a_resume_begins_the_count_anew_and_the_incident_goes_on() -> None:
    scene = Scene()
    scene.schedule(pause_on_failure=2)
    scene.live(5 * 60)
    assert scene.now_is.state == "PAUSED"
    incident = scene.head.incident
    scene.scheduler.resume_schedule("s")
    assert (scene.head.failing, scene.head.reason, scene.head.incident) == (0, None, incident)
    scene.live(61)
    assert (scene.head.failing, scene.now_is.state) == (1, "ACTIVE")
    scene.live(5 * 60)
    assert scene.now_is.state == "PAUSED"
    assert scene.kinds == ["failure", "paused", "paused"]
    scene.broken = False
    scene.scheduler.resume_schedule("s")
    scene.live(2 * 60)
    assert scene.kinds[-1] == "recovery"


def test_a_schedule_whose_owner_paused_it_is_not_paused_again() -> None:
    scene = Scene()
    scene.schedule(pause_on_failure=1)
    scene.during = lambda ctx: scene.scheduler.pause_schedule("s", reason="mine")  # type: ignore[assignment]
    scene.live(3 * 60)
    assert (scene.head.reason, scene.head.failing, scene.kinds) == ("mine", 1, ["failure"])


# A success that is expected.


def test_no_success_for_too_long_is_an_incident() -> None:
    scene = Scene(broken=False)
    scene.schedule("0 12 * * *", expect_success_within=26 * 3600)
    scene.live(24 * 3600 + 60)
    assert scene.told == []
    scene.scheduler.skip_next("s")
    scene.live(26 * 3600 - 120)
    assert scene.told == []
    scene.live(240)
    assert [state for _, state in scene.states()] == [RunState.SUCCEEDED, RunState.SKIPPED]
    (notice,) = scene.told
    assert (notice.kind, notice.at, notice.run, notice.count) == ("no_success", "2026-05-06T14:00:00.000Z", None, 0)


def test_what_rests_is_expected_nothing_of() -> None:
    scene = Scene(broken=False)
    scene.schedule("0 12 * * *", expect_success_within=3600)
    scene.scheduler.pause_schedule("s")
    scene.live(5 * 3600)
    assert (scene.told, scene.entries(EntryKind.EXPECT)) == ([], [])
    scene.scheduler.resume_schedule("s")
    scene.live(3600 - 120)
    assert scene.told == []
    scene.live(240)
    assert scene.kinds == ["no_success"]
    scene.scheduler.delete_schedule("s")
    scene.live(9 * 3600)
    assert (scene.kinds, scene.entries(EntryKind.EXPECT)) == (["no_success"], [])


def test_a_success_after_too_long_is_the_recovery_and_silence_is_told_again() -> None:
    scene = Scene(broken=False)
    scene.schedule("0 */6 * * *", expect_success_within=3600)
    scene.live(6 * 3600 + 300)
    assert scene.kinds == ["no_success", "recovery"]
    scene.live(3600)
    assert scene.kinds == ["no_success", "recovery", "no_success"]
    assert scene.told[-1].at == "2026-05-04T19:00:00.000Z"


def test_updates_do_not_put_the_alarm_off() -> None:
    scene = Scene()
    scene.schedule("0 0 1 1 *", expect_success_within=2 * 3600)
    for hour in range(3):
        scene.scheduler.update_schedule("s", payload={"hour": hour})
        scene.live(3600)
    assert scene.kinds == ["no_success"]
    assert scene.told[0].at == "2026-05-04T14:00:00.000Z"


def test_expecting_costs_no_write_for_a_success() -> None:
    scene = Scene(broken=False)
    scene.schedule("* * * * *", expect_success_within=3600)
    before = scene.head
    scene.live(3 * 3600 + 300)
    assert scene.head == before
    (entry,) = scene.entries(EntryKind.EXPECT)
    assert entry.due > scene.clock()


def test_a_schedule_that_fails_is_not_told_twice_because_it_has_no_success() -> None:
    scene = Scene()
    scene.schedule("*/10 * * * *", expect_success_within=1800)
    scene.live(3 * 3600)
    assert scene.kinds == ["failure"]


# What counts.


def test_what_is_lost_or_expired_counts_like_the_dead() -> None:
    scene = Scene(broken=False)
    scene.scheduler.create_schedule("s", "flaky", "*/10 * * * *", deadline=60, on_failure=TOPIC)
    for _ in range(12):
        scene.tick()
        scene.wait(60)
    scene.live(300)
    assert scene.run(600).state is RunState.EXPIRED
    assert (scene.head.failing, scene.kinds, scene.told[0].state) == (1, ["failure"], "EXPIRED")


def test_a_backfill_says_nothing_of_how_the_schedule_does() -> None:
    scene = Scene(broken=False)
    scene.schedule("*/10 * * * *")
    scene.live(30 * 60)
    scene.broken = True
    scene.scheduler.backfill("s", at(-3600), at(-60), dry_run=False, current=True)
    scene.live(5 * 60)
    assert len(scene.scheduler.list_dead(schedule="s").items) > 3
    assert (scene.head.failing, scene.told) == (0, [])


def test_what_is_triggered_by_hand_ends_an_incident() -> None:
    scene = Scene()
    scene.schedule("0 13 * * *")
    scene.live(3600 + 60)
    assert scene.kinds == ["failure"]
    scene.broken = False
    scene.scheduler.trigger("s")
    scene.live(120)
    assert scene.kinds == ["failure", "recovery"]


def test_a_new_schedule_of_an_old_name_has_no_past() -> None:
    scene = Scene()
    scene.schedule()
    scene.live(3 * 60)
    scene.scheduler.delete_schedule("s")
    scene.broken = False
    scene.schedule()
    assert (scene.head.failing, scene.head.failed_run, scene.head.incident) == (0, None, None)
    scene.live(5 * 60)
    assert scene.kinds == ["failure"]


# A topic that cannot be told.


def test_a_broken_topic_stops_no_other_and_its_notice_moves_aside() -> None:
    scene = Scene()
    scene.schedule()
    other = "arn:aws:sns:eu-west-1:123456789012:others"
    scene.scheduler.create_schedule("t", "flaky", "* * * * *", on_failure=other)
    scene.services = scene.process(NoSuchTopic())
    scene.live((MAX_FAILURES + 3) * 60)
    assert {published.topic for published in scene.memory.published} == {other}
    assert scene.entries(EntryKind.NOTICE) == []
    aside = [key for shard in range(4) for key in scene.services.agenda.quarantined(shard)]
    assert ["#notice#acme/s#" in key for key in aside] == [True]


class NoSuchTopic(Hook):
    """One of the topics is not there."""

    def before_call(self, operation: str, detail: Detail) -> Collection[int]:
        if TOPIC in detail.items:
            raise Misconfigured("publish: NotFound")
        return ()


def test_many_notices_at_once_leave_time_for_what_is_due() -> None:
    scene = Scene(shards=1)
    for number in range(AT_ONCE + 5):
        scene.scheduler.create_schedule(f"s{number}", "flaky", "0 13 * * *", on_failure=TOPIC)
    scene.live(3600 + 59)
    assert scene.tick().handled.schedules.told == AT_ONCE
    assert scene.tick().handled.schedules.told == 5
