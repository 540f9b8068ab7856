"""Each door refuses a job that the tenant may not run, says which and what gives it, and writes nothing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from quarterjack import Registry, RunState, Scheduler
from quarterjack.apply.document import read
from quarterjack.domain.job_catalogue import PublishedJob, sets_of
from quarterjack.domain.policies import Retry
from quarterjack.domain.schedule import ScheduleState
from quarterjack.domain.tenants.profile import INSTALLATION, TenantProfile
from quarterjack.errors import Forbidden, InvalidInput, JobNotGranted
from quarterjack.owner import access
from quarterjack.owner.catalogue import CataloguePublisher
from quarterjack.ready_jobs.command import command_job

from tests.support.scenes.world import NOON, Faults, World, fails

TEXT = "tenant 'acme' may not run job 'note'; ask an operator of the installation for it"


def allow(world: World, *jobs: str, tenant: str = "acme") -> None:
    store = world.services.tenants
    present = store.profile(tenant)
    assert store.put(TenantProfile(tenant=tenant, jobs=jobs), expected=0 if present is None else present.version)


def prepared() -> tuple[World, dict[str, str]]:
    """Schedules and runs from before the job was taken away."""
    world = World()
    owner = world.scheduler
    owner.create_schedule("s", "note", "0 * * * *")
    owner.create_schedule("p", "note", "0 * * * *")
    owner.pause_schedule("p")
    backfill = owner.backfill(
        "s", world.now() - timedelta(hours=5), world.now(), current=True, dry_run=False, concurrency=1
    )
    owner.pause_backfill("s", str(backfill.id))
    ended, waits = owner.submit("note"), owner.submit("note", delay=3_600)
    bad = owner.submit("bad")
    world.live(1)
    dead = owner.submit("bad", retry=Retry(max_attempts=1))
    world.live(1)
    ids = {"ended": ended.id, "waits": waits.id, "retrying": bad.id, "dead": dead.id, "backfill": str(backfill.id)}
    allow(world, "other")
    return world, ids


DOORS: dict[str, Callable[[Scheduler, dict[str, str]], object]] = {
    "submit": lambda owner, ids: owner.submit("note"),
    "create_schedule": lambda owner, ids: owner.create_schedule("new", "note", "0 * * * *"),
    "create_schedule, on failure": lambda owner, ids: owner.create_schedule(
        "new", "other", "0 * * * *", on_failure="job:note"
    ),
    "upsert_schedule": lambda owner, ids: owner.upsert_schedule("s", "note", "5 * * * *"),
    "update_schedule": lambda owner, ids: owner.update_schedule("s", expression="5 * * * *"),
    "update_schedule, on failure": lambda owner, ids: owner.update_schedule("s", job="other", on_failure="job:note"),
    "resume_schedule": lambda owner, ids: owner.resume_schedule("p"),
    "trigger": lambda owner, ids: owner.trigger("s"),
    "backfill": lambda owner, ids: owner.backfill("s", *_day(owner), current=True),
    "resume_backfill": lambda owner, ids: owner.resume_backfill("s", ids["backfill"]),
    "replay_run": lambda owner, ids: owner.replay_run(ids["ended"]),
    "reschedule": lambda owner, ids: owner.reschedule(ids["waits"], delay=5),
}
OF_BAD: dict[str, Callable[[Scheduler, dict[str, str]], object]] = {
    "retry_run": lambda owner, ids: owner.retry_run(ids["retrying"]),
    "redrive": lambda owner, ids: owner.redrive(ids["dead"]),
    "replay_run with another payload": lambda owner, ids: owner.replay_run(ids["dead"], payload={"a": 1}),
}


def _day(owner: Scheduler) -> tuple[Any, Any]:
    now = owner.get_schedule("s").created_at
    return now - timedelta(days=1), now


@pytest.mark.parametrize("door", DOORS)
def test_it_refuses_and_writes_nothing(door: str) -> None:
    world, ids = prepared()
    world.jobs.job("other")(world.note)
    world.jobs.job("bad2")(world.note)
    before = written(world)
    with pytest.raises(JobNotGranted) as refused:
        DOORS[door](world.owner(), ids)
    assert str(refused.value) == TEXT
    assert (refused.value.tenant, refused.value.job) == ("acme", "note")
    assert isinstance(refused.value, Forbidden)
    assert written(world) == before
    allow(world, "note", "other")
    DOORS[door](world.owner(), ids)


@pytest.mark.parametrize("door", OF_BAD)
def test_it_refuses_what_is_done_to_a_run(door: str) -> None:
    world, ids = prepared()
    before = written(world)
    with pytest.raises(JobNotGranted, match="job 'bad'"):
        OF_BAD[door](world.owner(), ids)
    assert written(world) == before
    allow(world, "bad")
    OF_BAD[door](world.owner(), ids)


def written(world: World) -> object:
    """All that lies in the tables and queues, but the profiles."""
    memory = world.memory
    return (
        memory.runs(),
        memory.entries(),
        memory.messages(),
        list(world.services.schedules.scan_heads("", limit=1_000)[0]),
    )


def test_a_refusal_has_a_line_in_the_audit_and_many_have_one() -> None:
    world, _ = prepared()
    access.DENIALS.__init__()  # type: ignore[misc]  # of the process, and so of all tests
    owner = world.owner().acting_as("mallory")
    for _ in range(20):
        with pytest.raises(JobNotGranted):
            owner.submit("note")
    (line,) = [line for line in world.scheduler.audit().items if line.act == "deny"]
    assert (line.actor, line.detail) == ("app:mallory", {"verb": "run-job", "job": "note", "principal": "app:mallory"})


def test_a_redrive_of_many_names_each_and_goes_on() -> None:
    world, ids = prepared()
    done = world.owner().redrive(since=world.now() - timedelta(hours=1))
    assert done.failed == {ids["dead"]: TEXT.replace("note", "bad")}
    assert world.scheduler.list_dead().items[0].redriven_as is None


def test_a_bulk_trigger_names_each_schedule() -> None:
    world, _ = prepared()
    done = world.owner().bulk("trigger", prefix="s")
    assert done.failed == {"s": TEXT}


def test_applying_declarations_refuses_one_and_not_the_others() -> None:
    world, _ = prepared()
    world.jobs.job("other")(world.note)
    text = 'schedules:\n  x: {job: note, expression: "0 * * * *"}\n  y: {job: other, expression: "0 * * * *"}\n'
    plan = world.owner().compare_declared(read(text, "s.yaml")[0].declarations)
    assert {change.name: str(change.act) for change in plan.changes} == {"x": "refused", "y": "create"}
    assert [change.why for change in plan.changes if change.why] == [TEXT]


def test_what_stops_something_needs_no_grant() -> None:
    world, ids = prepared()
    owner = world.owner()
    owner.pause_schedule("s")
    owner.cancel_run(ids["waits"])
    owner.skip_next("s") if owner.get_schedule("s").state is ScheduleState.ACTIVE else None
    owner.cancel_backfill("s", ids["backfill"])
    owner.delete_schedule("s")
    assert owner.get_run(ids["waits"]).state is RunState.CANCELLED


def test_invalid_input_is_told_first() -> None:
    world, _ = prepared()
    with pytest.raises(InvalidInput):
        world.owner().submit("note", delay=-1)


def test_an_update_to_another_job_is_let_through() -> None:
    world, _ = prepared()
    world.jobs.job("other")(world.note)
    assert world.owner().update_schedule("s", job="other").job == "other"


def test_another_tenant_is_not_concerned() -> None:
    world, _ = prepared()
    other = Scheduler("globex", jobs=world.jobs, services=world.process(), clock=world.clock)
    assert other.submit("note").state is RunState.QUEUED


def test_the_installations_jobs_are_the_default() -> None:
    world = World()
    allow(world, "bad", tenant=INSTALLATION)
    with pytest.raises(JobNotGranted):
        world.owner().submit("note")
    allow(world, "note")
    assert world.owner().submit("note").state is RunState.QUEUED


# Jobs that no pattern gives.


def test_a_command_goes_by_its_name_alone() -> None:
    world = World()
    command_job("command", registry=world.jobs)
    allow(world, "*")
    with pytest.raises(JobNotGranted, match="a pattern such as \\* does not give it"):
        world.owner().submit("command", "true")
    allow(world, "*", "command")
    assert world.owner().submit("command", "true").state is RunState.QUEUED


def test_a_caller_without_the_package_reads_it_in_the_catalogue() -> None:
    world, jobs = World(), Registry()
    command_job("command", registry=jobs)
    published = [PublishedJob.of(job) for job in (*jobs, *world.jobs)]
    CataloguePublisher(world.services, lambda now: list(sets_of(published, "1", now))).publish(NOON)
    allow(world, "*")
    caller = Scheduler("acme", jobs=Registry(), services=world.process(), clock=world.clock)
    with pytest.raises(JobNotGranted):
        caller.submit("command", "true")
    assert caller.submit("note").state is RunState.QUEUED


def test_a_caller_who_cannot_read_the_catalogue_leaves_it_to_the_worker() -> None:
    world, faults = World(), Faults().at("records", before=fails, times=None)
    allow(world, "*")
    caller = Scheduler("acme", jobs=Registry(), services=world.process(faults), clock=world.clock)
    assert caller.submit("command", "true").state is RunState.QUEUED


# What it costs, and what a run shows.


def test_six_hundred_submissions_read_the_profile_once_in_five_seconds() -> None:
    world, faults = World(), Faults()
    owner = world.owner(faults)
    allow(world, "no*")
    for _ in range(600):
        owner.submit("note")
        world.wait(0.01)
    assert faults.profile_reads == 2


def test_a_run_that_waits_says_so() -> None:
    world, ids = prepared()
    assert world.owner().get_run(ids["waits"]).waits_because == TEXT
    allow(world, "note")
    assert world.owner().get_run(ids["waits"]).waits_because is None
