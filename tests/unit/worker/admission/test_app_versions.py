"""A run of a pinned job starts only on workers of the application version that it is assigned to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest
from quarterjack import Registry, Run
from quarterjack.daemon.own_version import own_version, registrar_of
from quarterjack.daemon.worker_record import RecordKeeper, process_identity
from quarterjack.domain.times import SECOND
from quarterjack.errors import InvalidInput
from quarterjack.owner.app_versions import register
from quarterjack.settings import Settings
from quarterjack.state.worker_record import WorkerKind, owners
from quarterjack.testing.process import Hand
from quarterjack.worker.delivery.visibility import Heartbeat
from quarterjack.worker.stages import Action, Outcome
from quarterjack.worker.versions import OwnVersion

from tests.support.scenes.world import Faults, World


def world_of(*versions: str) -> World:
    """The versions are registered in this order; job ``pinned`` starts on workers of its version alone."""
    world = World()
    world.jobs.job("pinned", version="assigned")(world.note)
    for name in versions:
        world.clock.advance(timedelta(seconds=6))
        register(name, 1.0, world.services, world.clock())
    return world


def hand_of(world: World, version: str, faults: Faults | None = None) -> Hand:
    """A worker of a version."""
    own = OwnVersion(name=lambda: version, some=True)
    return Hand(worker=replace(world.worker(faults, name=version), own_version=own), together=True)


def keeps_record(world: World, version: str) -> None:
    """A worker of that version is there, and says so."""

    def identify(now: int) -> object:
        return process_identity(
            version, world.jobs, app_version=lambda: version, queue="default", concurrency=1, now=now
        )

    keeper = RecordKeeper(world.services, WorkerKind.PROCESS, identify, world.clock)  # type: ignore[arg-type]
    keeper._heartbeat = Heartbeat(world.services)
    keeper._write()


def whys(outcomes: Sequence[Outcome]) -> list[str]:
    return [outcome.why for outcome in outcomes]


def test_a_worker_of_another_version_gives_a_run_back_without_an_attempt() -> None:
    world = world_of("1.0", "1.1")
    keeps_record(world, "1.1")
    run = world.scheduler.submit("pinned")
    (outcome,) = hand_of(world, "1.0").work()
    assert (outcome.action, outcome.why) == (Action.POSTPONED, "other_version")
    assert outcome.at - world.clock() == 1 * SECOND
    seen = world.scheduler.get_run(run.id)
    assert (seen.state, seen.attempt, seen.fence) == ("QUEUED", 0, 0)
    world.clock.advance(timedelta(seconds=1))
    hand_of(world, "1.1").work()
    assert world.scheduler.get_run(run.id).state == "SUCCEEDED"


@pytest.mark.parametrize(("old", "new"), [(5, 5), (9, 1)])
def test_two_versions_side_by_side_cost_a_run_at_most_two_receives_more(old: int, new: int) -> None:
    """Whatever the shares are, if those of the workers are those of the runs; a run of the smaller one is received more often."""
    world, dice = world_of("1.0", "1.1"), Random(1)
    world.scheduler.set_latest_application_version("1.0")
    world.scheduler.set_latest_application_version("1.1", share=new / (old + new))
    for version in ("1.0", "1.1"):
        keeps_record(world, version)
    runs, outcomes = [world.scheduler.submit("pinned") for _ in range(300)], list[Outcome]()
    hands = [hand_of(world, "1.0")] * old + [hand_of(world, "1.1")] * new
    while world.memory.messages():
        outcomes += dice.choice(hands).work()
        world.clock.advance(timedelta(milliseconds=100))
    assert {world.scheduler.get_run(run.id).state for run in runs} == {"SUCCEEDED"}
    more = whys(outcomes).count("other_version")
    assert len(outcomes) == len(runs) + more
    assert len(runs) / 2 < more <= 2 * len(runs)


def test_while_its_version_is_busy_others_receive_a_run_once_a_second() -> None:
    world = world_of("1.0", "1.1")
    keeps_record(world, "1.1")
    new, old, seen, waiting = hand_of(world, "1.1"), hand_of(world, "1.0"), list[Outcome](), list[str]()

    def for_two_seconds(ctx: object) -> None:
        if not waiting:
            waiting.append(world.scheduler.submit("pinned").id)
            for _ in range(20):
                seen.extend(old.work())
                world.clock.advance(timedelta(milliseconds=100))

    world.during = for_two_seconds
    world.scheduler.submit("pinned")
    new.work()
    assert whys(seen) == ["other_version"] * 2
    new.work()
    assert world.scheduler.get_run(waiting[0]).state == "SUCCEEDED"


def test_where_no_worker_of_its_version_is_there_it_is_offered_once_a_minute() -> None:
    world = world_of("1.0", "1.1")
    run = world.scheduler.submit("pinned")
    (outcome,) = hand_of(world, "1.0").work()
    assert outcome.at - world.clock() == 60 * SECOND
    seen = world.scheduler.get_run(run.id)
    assert seen.reason == "waits for a worker of version 1.1"
    told = " ".join(sentence.text for sentence in world.scheduler.why_run(run.id).sentences)
    assert "It starts only on workers of application version 1.1, and none has a record." in told
    world.clock.advance(timedelta(seconds=60))
    assert whys(hand_of(world, "1.0").work()) == ["version_unserved"]
    keeps_record(world, "1.1")
    world.clock.advance(timedelta(seconds=60))
    hand_of(world, "1.1").work()
    ended = world.scheduler.get_run(run.id)
    assert (ended.state, ended.reason) == ("SUCCEEDED", None)


def test_a_worker_that_has_just_started_is_seen_by_the_others_within_a_second() -> None:
    world, faults = world_of("1.0", "1.1"), Faults()
    old = hand_of(world, "1.0", faults)
    reads, waits = list[int](), list[Run]()
    for _ in range(2):
        waits += [world.scheduler.submit("pinned") for _ in range(5)]
        assert set(whys(old.work())) == {"version_unserved"}
        reads.append(faults.verbs().count("records"))
    assert reads == [len(owners())] * 2, "the workers are asked for once a second"
    keeps_record(world, "1.1")
    world.clock.advance(timedelta(seconds=2))
    later = world.scheduler.submit("pinned")
    assert whys(old.work()) == ["other_version"]
    world.clock.advance(timedelta(seconds=2))
    hand_of(world, "1.1").work()
    assert world.scheduler.get_run(later.id).state == "SUCCEEDED"
    assert {world.scheduler.get_run(run.id).state for run in waits} == {"QUEUED"}


def test_a_run_that_was_reassigned_starts_on_a_worker_of_the_other_version() -> None:
    world = world_of("1.0", "1.1")
    run = world.scheduler.submit("pinned")
    hand_of(world, "1.0").work()
    world.scheduler.reassign_run(run.id, "1.0")
    world.clock.advance(timedelta(seconds=60))
    hand_of(world, "1.0").work()
    assert world.scheduler.get_run(run.id).state == "SUCCEEDED"


def test_runs_of_a_retired_version_start_on_workers_of_the_one_that_takes_them() -> None:
    world = world_of("1.0", "1.1", "1.2")
    world.scheduler.set_latest_application_version("1.0")
    run = world.scheduler.submit("pinned")
    world.scheduler.retire_application_version("1.0", to="1.1")
    world.scheduler.retire_application_version("1.1", to="1.2")
    assert whys(hand_of(world, "1.1").work()) == ["version_unserved"]
    world.clock.advance(timedelta(seconds=60))
    hand_of(world, "1.2").work()
    ended = world.scheduler.get_run(run.id)
    assert (ended.state, ended.app_version) == ("SUCCEEDED", "1.0")


def test_a_run_that_is_reassigned_between_read_and_lease_does_not_start() -> None:
    world, faults = world_of("1.0", "1.1"), Faults()
    run = world.scheduler.submit("pinned")
    faults.at("lease", before=lambda: world.scheduler.reassign_run(run.id, "1.0"))
    faults.at("move", before=lambda: world.scheduler.reassign_run(run.id, "1.0"))
    hand_of(world, "1.1", faults).work()
    assert not world.started
    world.clock.advance(timedelta(minutes=2))
    hand_of(world, "1.0").work()
    assert [start.run_id for start in world.started] == [run.id]


def test_fires_of_a_pinned_job_share_requests_and_other_jobs_read_no_rows() -> None:
    world, faults = world_of("1.0"), Faults()
    for number in range(8):
        world.scheduler.create_schedule(f"s{number}", "pinned", "* * * * *")
    world.tick()
    world.clock.advance(timedelta(seconds=60))
    outcomes = hand_of(world, "1.0", faults).work()
    assert len(outcomes) == 8
    assert {outcome.state for outcome in outcomes} == {"SUCCEEDED"}
    assert faults.verbs().count("look") == 1
    plain, seen = World(), Faults()
    plain.scheduler.create_schedule("s", "note", "* * * * *")
    plain.tick()
    plain.clock.advance(timedelta(seconds=60))
    Hand(worker=plain.worker(hook=seen), together=True).work()
    assert "look" not in seen.verbs()


def test_a_run_without_a_version_and_a_job_that_is_not_pinned_start_anywhere() -> None:
    world = World()
    world.jobs.job("pinned", version="assigned")(world.note)
    before = world.scheduler.submit("pinned")
    register("1.0", 1.0, world.services, world.clock())
    hand_of(world, "0.9").work()
    world.clock.advance(timedelta(seconds=6))
    other = world.scheduler.submit("note")
    assert other.app_version == "1.0"
    hand_of(world, "0.9").work()
    assert {world.scheduler.get_run(run.id).state for run in (before, other)} == {"SUCCEEDED"}


def test_children_have_the_version_of_their_parent() -> None:
    world = world_of("1.0", "1.1")
    world.scheduler.set_latest_application_version("1.0")
    world.jobs.job("parent")(lambda ctx, payload: ctx.gather([ctx.submit("note", step="child")]))
    run = world.scheduler.submit("parent")
    world.scheduler.set_latest_application_version("1.1")
    world.live(120)
    assert {each.app_version for each in world.memory.runs()} == {"1.0"}
    assert world.scheduler.get_run(run.id).state == "SUCCEEDED"


def test_the_setting_pins_jobs_that_do_not_say() -> None:
    jobs = Registry()
    jobs.job("free", version="any")(lambda ctx, payload: None)
    jobs.job("silent")(lambda ctx, payload: None)
    jobs.job("bound", version="assigned")(lambda ctx, payload: None)
    binds = {
        run_on: [job.name for job in jobs if own_version(jobs, Settings(run_on=run_on)).binds(job)]
        for run_on in ("any", "assigned")
    }
    assert binds == {"any": ["bound"], "assigned": ["silent", "bound"]}
    assert own_version(jobs, Settings(app_version="7f3a")).name() == "7f3a"
    with pytest.raises(InvalidInput, match="version='latest': is not known; use 'any' or 'assigned'"):
        jobs.job("odd", version="latest")  # type: ignore[arg-type]


def test_a_worker_registers_its_version_when_it_starts() -> None:
    world, settings = World(), Settings(app_version="2.0", app_version_share=25)
    register("1.0", 1.0, world.services, world.clock())
    version = own_version(world.jobs, settings)
    registrar = registrar_of(world.services, version)
    keeper = RecordKeeper(world.services, WorkerKind.PROCESS, None, world.clock, None, registrar)
    keeper._write()
    (latest, _) = world.scheduler.list_application_versions()
    assert (latest.version_name, latest.share) == ("2.0", 0.25)
