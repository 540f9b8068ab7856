"""A name of a job that no worker has ever known is said at the door, refused if that is asked for, and costs a query a minute."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from quarterjack import AsyncScheduler, Registry, Scheduler
from quarterjack.apply.plan import ApplyAction
from quarterjack.declare import declaration
from quarterjack.domain.job_catalogue import PublishedJob, sets_of
from quarterjack.domain.names import parse_run_id
from quarterjack.domain.policies import Overrides
from quarterjack.errors import InvalidInput, Unavailable, UnknownJobWarning
from quarterjack.owner.catalogue import CataloguePublisher
from quarterjack.sdk.views import Run
from quarterjack.testing import Harness

from tests.support.scenes.world import START, Faults, World, fails

Door = Callable[[Scheduler, str], Any]
DOORS: dict[str, Door] = {
    "submit": lambda owner, job: owner.submit(job),
    "create": lambda owner, job: owner.create_schedule("s", job, "0 9 * * *"),
    "upsert": lambda owner, job: owner.upsert_schedule("s", job, "0 9 * * *"),
    "update": lambda owner, job: owner.update_schedule("present", job=job),
    "on_failure": lambda owner, job: owner.create_schedule("s", "note", "0 9 * * *", on_failure=f"job:{job}"),
    "on_recovery": lambda owner, job: owner.update_schedule("present", on_recovery=f"job:{job}"),
}
doors = pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)


@pytest.fixture
def world() -> World:
    made = World()
    made.scheduler.create_schedule("present", "note", "0 9 * * *")
    return made


def publish(world: World, *names: str) -> None:
    jobs = [PublishedJob(name=name) for name in names]
    CataloguePublisher(world.services, lambda now: list(sets_of(jobs, "1", now))).publish(world.clock())


def owner_of(world: World, faults: Faults | None = None, **given: Any) -> Scheduler:
    """An application that has none of the jobs."""
    return Scheduler("acme", jobs=Registry(), services=world.process(faults), clock=world.clock, **given)


def warned(call: Callable[[], object]) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    assert {(one.category, Path(one.filename).name) for one in caught} <= {(UnknownJobWarning, Path(__file__).name)}
    return [str(one.message) for one in caught]


# The doors.


@doors
def test_a_name_that_no_worker_has_known_is_accepted_with_a_warning_that_names_the_nearest(
    world: World, door: Door
) -> None:
    publish(world, "note", "reports.daily", "reports.weekly")
    (text,) = warned(lambda: door(owner_of(world), "reports.dialy"))
    assert "reports.dialy" in text
    assert "no worker has ever known this job" in text
    assert "did you mean 'reports.daily'" in text


@doors
def test_strict_refuses_and_writes_nothing(world: World, door: Door) -> None:
    publish(world, "note", "reports.daily")
    faults = Faults()
    with pytest.raises(InvalidInput) as refused:
        door(owner_of(world, faults, strict=True), "reports.dialy")
    assert refused.value.field in ("job", "on_failure", "on_recovery")
    assert "reports.dialy" in str(refused.value.value)
    assert "did you mean 'reports.daily'" in refused.value.remedy
    assert "strict=False" in refused.value.remedy
    assert set(faults.verbs()) <= {"records", "names", "governance"}  # reads


@doors
def test_a_name_that_a_worker_knows_is_no_matter(world: World, door: Door) -> None:
    publish(world, "note", "reports.daily")
    assert warned(lambda: door(owner_of(world), "reports.daily")) == []


@doors
def test_a_name_that_a_worker_knows_is_no_matter_for_a_strict_caller(world: World, door: Door) -> None:
    publish(world, "note", "reports.daily")
    assert warned(lambda: door(owner_of(world, strict=True), "reports.daily")) == []


@doors
def test_as_long_as_no_worker_has_published_nothing_is_said(world: World, door: Door) -> None:
    assert warned(lambda: door(owner_of(world), "anything")) == []


@doors
def test_strict_without_any_worker_knows_the_own_jobs_only(world: World, door: Door) -> None:
    with pytest.raises(InvalidInput, match="no worker has published its jobs yet"):
        door(owner_of(world, strict=True), "anything")
    jobs = Registry()
    for name in ("note", "anything"):
        jobs.job(name)(world.note)
    door(Scheduler("acme", jobs=jobs, services=world.process(), clock=world.clock, strict=True), "anything")


def test_a_job_of_this_process_asks_for_nothing(world: World) -> None:
    faults = Faults()
    owner = world.owner(faults).strictly(strict=False)
    for _ in range(10):
        owner.submit("note")
    assert "records" not in faults.verbs()


def test_a_mistyped_own_job_is_compared_with_the_own_ones_too(world: World) -> None:
    publish(world, "elsewhere")
    (text,) = warned(lambda: world.scheduler.strictly(strict=False).submit("notte"))
    assert "did you mean 'note'" in text


def test_a_scheduler_can_be_made_strict_for_one_call(world: World) -> None:
    publish(world, "note")
    owner = owner_of(world)
    with pytest.raises(InvalidInput):
        owner.strictly().submit("notte")
    assert len(warned(lambda: owner.submit("notte"))) == 1
    with pytest.raises(InvalidInput, match="strict"):
        owner.strictly(strict="yes")  # type: ignore[arg-type]


def test_a_coroutine_is_warned_at_the_line_that_awaits(world: World) -> None:
    publish(world, "note")

    async def main() -> None:
        async with AsyncScheduler.of(owner_of(world)) as scheduler:
            await scheduler.submit("notte")
            await scheduler.submit("nott")
            assert [job.name for job in await scheduler.jobs()] == ["note"]
            with pytest.raises(InvalidInput):
                await scheduler.strictly().submit("notte")

    assert len(warned(lambda: asyncio.run(main()))) == 2


def test_by_default_a_warning_is_shown_once_a_line(world: World) -> None:
    publish(world, "note")
    owner = owner_of(world)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            owner.submit("only-once")
        owner.submit("only-once")
    assert len(caught) == 2


# The queue and the start of a job that only workers have.


def publish_job(world: World, **given: Any) -> None:
    CataloguePublisher(world.services, lambda now: list(sets_of([PublishedJob(**given)], "1", now))).publish(
        world.clock()
    )


def queue_and_start(owner: Scheduler, made: Any) -> tuple[str, Any]:
    """As the message or the revision has them."""
    if isinstance(made, Run):
        row = owner.session.services.ledger.read(parse_run_id(made.id))
        assert row is not None
        return row.queue or "default", Overrides.parse(row.overrides).start
    words = owner.get_schedule("s").definition
    return words.get("queue", "default"), words.get("start")


MAKERS: dict[str, Door] = {name: DOORS[name] for name in ("submit", "create", "upsert")}


@pytest.mark.parametrize("door", MAKERS.values(), ids=MAKERS)
def test_a_job_by_name_has_the_queue_and_the_start_that_workers_publish(world: World, door: Door) -> None:
    publish_job(world, name="heavy", queue="slow", policies={"start": "exact"})
    faults = Faults()
    owner = owner_of(world, faults)
    assert queue_and_start(owner, door(owner, "heavy")) == ("slow", "exact")
    assert "names" not in faults.verbs(), "queues are not listed for each submission"


def test_what_the_caller_says_goes_before_what_workers_publish(world: World) -> None:
    publish_job(world, name="heavy", queue="slow", policies={"start": "exact"})
    owner = owner_of(world)
    assert queue_and_start(owner, owner.submit("heavy", queue="default", start="prompt")) == ("default", "prompt")
    with pytest.raises(InvalidInput, match="is not declared"):
        owner.submit("heavy", queue="slow-er")


def test_an_update_to_another_job_by_name_takes_its_queue(world: World) -> None:
    publish_job(world, name="heavy", queue="slow")
    owner = owner_of(world)
    owner.update_schedule("present", job="heavy")
    assert owner.get_schedule("present").definition["queue"] == "slow"
    assert warned(lambda: owner.update_schedule("present", job="light")) != []
    assert "queue" not in owner.get_schedule("present").definition


def test_another_queue_of_a_job_counts_after_a_minute(world: World) -> None:
    publish_job(world, name="heavy", queue="slow")
    owner = owner_of(world)
    assert queue_and_start(owner, owner.submit("heavy"))[0] == "slow"
    world.wait(1)
    publish_job(world, name="heavy", queue="fast")
    world.wait(60)
    assert queue_and_start(owner, owner.submit("heavy"))[0] == "fast"


def test_a_word_of_a_later_release_and_a_catalogue_that_cannot_be_read_leave_the_defaults(world: World) -> None:
    publish_job(world, name="heavy", queue="slow", policies={"start": "at-dawn"})
    owner = owner_of(world)
    assert queue_and_start(owner, owner.submit("heavy")) == ("slow", None)
    blind = owner_of(world, Faults().at("records", before=fails, times=None))
    assert queue_and_start(owner, blind.submit("heavy")) == ("default", None)


def test_an_own_job_has_its_own_queue_whatever_workers_publish(world: World) -> None:
    publish_job(world, name="note", queue="slow", policies={"start": "exact"})
    assert queue_and_start(world.scheduler, world.scheduler.submit("note")) == ("default", None)


# What it costs.


def test_submissions_read_the_catalogue_once_a_minute(world: World) -> None:
    """What is published of a job counts after a minute at most, so that it is the present schema that a payload has to fit."""
    publish(world, *(f"job-{number}" for number in range(300)))
    faults = Faults()
    owner = owner_of(world, faults)
    for number in range(300):
        owner.submit(f"job-{number}")
        owner.acting_as("alice").submit("job-1")
        world.wait(1)
    assert faults.verbs().count("records") == 5
    submissions = [
        verb for verb in faults.verbs() if verb not in ("records", "governance")
    ]  # nor profiles: one read in 5 s
    plain = Faults()
    own = Registry()
    own.job("note")(world.note)
    known = Scheduler("acme", jobs=own, services=world.process(plain), clock=world.clock)
    for _ in range(600):
        known.submit("note")
    assert plain.profile_reads == 1
    assert len(plain.calls) == len(submissions)


def test_a_loop_of_an_unknown_name_reads_once_a_minute(world: World) -> None:
    publish(world, "note")
    faults = Faults()
    owner = owner_of(world, faults)

    def loop() -> None:
        for _ in range(120):
            owner.submit("never")
            world.wait(1)

    assert len(warned(loop)) == 120
    assert faults.verbs().count("records") == 2


def test_a_catalogue_that_cannot_be_read_stops_a_strict_caller_only(world: World) -> None:
    faults = Faults().at("records", before=fails, times=None)
    assert warned(lambda: owner_of(world, faults).submit("any")) == []
    with pytest.raises(Unavailable):
        owner_of(world, faults, strict=True).submit("any")


# Declarations.


def declared(job: str, name: str = "s") -> Any:
    return declaration(place="schedules.yaml", name=name, job=job, expression="0 9 * * *")


def test_declared_schedules_are_compared_with_what_workers_know(world: World) -> None:
    publish(world, "reports.daily")
    owner, found = owner_of(world), [declared("reports.dialy", "a"), declared("reports.daily", "b")]
    assert warned(lambda: owner.compare_declared(found, managed_by="me")) == [], "the plan says it"
    plan = owner.compare_declared(found, managed_by="me")
    first, second = plan.changes
    assert (first.act, second.act, second.warnings) == (ApplyAction.CREATE, ApplyAction.CREATE, ())
    (text,) = first.warnings
    assert "did you mean 'reports.daily'" in text
    assert warned(lambda: owner.carry_out(plan)) == [text]
    strict = owner.strictly().compare_declared(found, managed_by="me")
    assert [change.act for change in strict.changes] == [ApplyAction.REFUSED, ApplyAction.UNCHANGED]
    assert "did you mean 'reports.daily'" in strict.changes[0].why


# What is shown.


def test_the_jobs_are_listed_with_their_policies(world: World) -> None:
    jobs = Registry()
    jobs.queue("slow")
    jobs.job("b", delivery="at_most_once", timeout=30)(world.note)
    jobs.job("a", queue="slow")(world.note)
    harness = Harness(jobs, at=START)
    first, second = harness.scheduler.jobs()
    assert [(job.name, job.queue, job.timeout) for job in (first, second)] == [
        ("a", "slow", None),
        ("b", "default", 30),
    ]
    assert (second.delivery, second.retry.max_attempts, second.last_seen_at) == ("at_most_once", 3, START)
    assert owner_of(world).jobs() == []


def test_a_waiting_run_says_that_no_worker_knows_its_job(world: World) -> None:
    owner = owner_of(world)
    run, later = owner.submit("notte"), owner.submit("note", delay=60)
    assert owner.get_run(run.id).waits_because is None, "no worker has published: nobody can tell"
    publish(world, "note")
    world.wait(60)
    assert owner.get_run(run.id).waits_because == "no worker knows job 'notte'; did you mean 'note'?"
    assert owner.get_run(later.id).waits_because is None
    owner.cancel_run(run.id)
    assert owner.get_run(run.id).waits_because is None


def test_the_harness_refuses_a_job_that_is_not_there() -> None:
    jobs = Registry()
    jobs.job("note")(lambda ctx, payload: None)
    with pytest.raises(InvalidInput, match="did you mean 'note'"):
        Harness(jobs, at=START).scheduler.submit("notte")
