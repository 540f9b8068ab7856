"""Declarations that workers apply when they start: once, by whoever comes first. The newest set wins; a crash is made up for."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from quarterjack import Context, Registry, Scheduler, pipeline, schedule
from quarterjack.daemon.declarations import DeclarationApplier
from quarterjack.daemon.worker_process import WorkerProcess
from quarterjack.domain.schedule import ScheduleState
from quarterjack.errors import InvalidInput, Misconfigured, Unavailable
from quarterjack.sdk.schedules.applied import (
    CLAIM,
    ApplyTurn,
    StartApplication,
    declared_in,
    digest_of,
    note_applied,
)
from quarterjack.services import system_clock
from quarterjack.testing import Crash, Memory

from tests.support.scenes.world import Faults, World, crash, fails


def declared(*names: str, expression: str = "0 9 * * *", module: str = "acme.jobs", **options: Any) -> Registry:
    """Jobs with a schedule each."""
    jobs = Registry()
    for name in names:

        def work(ctx: Context, payload: object) -> None: ...

        work.__module__, work.__qualname__ = module, f"of_{name}"
        schedule(expression, registry=jobs, **options)(jobs.job(name)(work))
    return jobs


def applying(world: World, jobs: Registry, by: str = "w1", faults: Faults | None = None) -> StartApplication:
    scheduler = Scheduler("acme", jobs=jobs, services=world.process(faults), clock=world.clock)
    return StartApplication(scheduler, "acme.jobs", jobs, by=by)


def names(world: World) -> dict[str, str]:
    return {head.name: str(head.expression) for head in world.memory.heads() if head.state is not ScheduleState.DELETED}


def test_the_first_worker_applies_and_the_others_read_once_and_write_nothing() -> None:
    world, jobs = World(), declared("a", "b")
    report = applying(world, jobs).look()
    assert (report.turn, sorted(report.changed), report.left) == (ApplyTurn.APPLIED, ["a", "b"], {})
    assert names(world) == {"a": "0 9 * * *", "b": "0 9 * * *"}
    heads, lines = world.memory.heads(), world.memory.audit_entries()
    for by in ("w1", "w2", "w3"):
        faults = Faults()
        assert applying(world, declared("b", "a"), by, faults).look().turn is ApplyTurn.CURRENT
        assert faults.verbs() == ["record"]
    assert (world.memory.heads(), world.memory.audit_entries()) == (heads, lines)


def test_the_audit_says_why() -> None:
    world = World()
    applying(world, declared("a")).look()
    (line,) = world.memory.audit_entries()
    assert (line.act, line.via, line.reason) == (
        "create",
        "apply",
        "declared in acme.jobs; applied by a worker that started",
    )
    assert [head.managed_by for head in world.memory.heads()] == ["acme.jobs"]


def test_a_newer_set_replaces_the_older_and_an_old_worker_takes_nothing_back() -> None:
    world, old, new = World(), declared("a", "gone"), declared("a", expression="0 10 * * *")
    assert applying(world, old).look().turn is ApplyTurn.APPLIED
    assert applying(world, new, "w2").look().changed == ["a"]
    assert names(world) == {"a": "0 10 * * *", "gone": "0 9 * * *"}, "nothing is deleted"
    faults = Faults()
    assert applying(world, old, "w3", faults).look().turn is ApplyTurn.REPLACED
    assert faults.verbs() == ["record"]
    assert names(world)["a"] == "0 10 * * *"
    third = declared("a", expression="0 11 * * *")
    assert applying(world, third, "w4").look().turn is ApplyTurn.APPLIED
    assert [applying(world, one).look().turn for one in (old, new, third)] == ["replaced", "replaced", "current"]


def test_who_applies_an_old_set_by_hand_makes_it_the_current_one() -> None:
    world, old, new = World(), declared("a"), declared("a", expression="0 10 * * *")
    for jobs in (old, new):
        applying(world, jobs).look()
    by_hand = Scheduler("acme", jobs=old, services=world.process(), clock=world.clock)
    by_hand.carry_out(by_hand.compare_declared(old.declared(), managed_by="acme.jobs"))
    note_applied(by_hand, "acme.jobs", old)
    assert applying(world, old).look().turn is ApplyTurn.CURRENT
    assert applying(world, new).look().turn is ApplyTurn.REPLACED
    assert names(world) == {"a": "0 9 * * *"}


def test_a_worker_at_another_set_stops_when_one_is_applied_by_hand() -> None:
    """A roll-back while the workers of the new release start: all but the change that is under way stays as it was."""
    world, old, new = World(), declared("a", "b", "c"), declared("a", "b", "c", expression="0 10 * * *")
    applying(world, old).look()
    by_hand = Scheduler("acme", jobs=old, services=world.process(), clock=world.clock)
    news: list[bool] = []
    faults = Faults().at("arm", before=lambda: news.append(note_applied(by_hand, "acme.jobs", old)))
    assert applying(world, new, "w2", faults).look().turn is ApplyTurn.ELSEWHERE
    assert sorted(names(world).values()) == ["0 10 * * *", "0 9 * * *", "0 9 * * *"]
    assert (news, note_applied(by_hand, "acme.jobs", old)) == ([True], False)
    assert applying(world, new, "w2").look().turn is ApplyTurn.REPLACED


def test_applying_by_hand_leaves_no_record_where_workers_do_not_apply() -> None:
    world, jobs, faults = World(), declared("a"), Faults()
    scheduler = Scheduler("acme", jobs=jobs, services=world.process(faults), clock=world.clock)
    note_applied(scheduler, "acme.jobs", jobs)
    assert faults.verbs() == ["record"]


def test_what_another_owner_has_is_left_and_named() -> None:
    world = World()
    world.jobs.job("b")(world.note)
    world.scheduler.create_schedule("b", "b", "0 1 * * *")
    jobs = declared("a", "b")
    schedule("0 9 * * *", name="orphan", registry=jobs)(_orphan)
    report = applying(world, jobs).look()
    assert report.changed == ["a"]
    assert set(report.left) == {"b", "orphan"}
    assert report.left["b"] == "it has no owner; --adopt makes it yours"
    assert applying(world, jobs).look().turn is ApplyTurn.CURRENT, "it would be left again"


def _orphan(ctx: Context, payload: object) -> None: ...


_orphan.__module__ = "acme.jobs"


# Who dies, and who comes meanwhile.

VERBS = ("record", "write_record", "page", "head", "register", "arm")


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("skip", range(4))
def test_a_worker_may_die_at_every_call_and_the_next_finishes(verb: str, moment: str, skip: int) -> None:
    world, jobs = World(), declared("a", "b", "c")
    faults = Faults().at(verb, **{moment: crash}, skip=skip)
    try:
        applying(world, jobs, "w1", faults).look()
    except Crash:
        other = applying(world, jobs, "w2").look()
        if other.turn is ApplyTurn.ELSEWHERE:
            assert other.until is not None
            world.clock.reach(other.until)
            other = applying(world, jobs, "w2").look()
        assert other.turn in (ApplyTurn.APPLIED, ApplyTurn.CURRENT)
    assert set(names(world)) == {"a", "b", "c"}
    assert applying(world, jobs, "w3").look().turn is ApplyTurn.CURRENT
    assert [head.revision for head in world.memory.heads()] == [1, 1, 1], "each was created once"


@pytest.mark.parametrize("verb", ["page", "arm"])
def test_after_a_failure_anybody_continues_at_once(verb: str) -> None:
    world, jobs = World(), declared("a", "b")
    with pytest.raises(Unavailable):
        applying(world, jobs, "w1", Faults().at(verb, before=fails, times=None)).look()
    assert applying(world, jobs, "w2").look().turn is ApplyTurn.APPLIED
    assert set(names(world)) == {"a", "b"}


def test_of_two_at_once_one_applies_and_the_other_waits_for_it() -> None:
    world, jobs, turns = World(), declared("a", "b"), list[str]()
    other = applying(world, jobs, "w2")
    faults = Faults().at("arm", before=lambda: turns.append(other.look().turn))
    assert applying(world, jobs, "w1", faults).look().turn is ApplyTurn.APPLIED
    assert turns == ["elsewhere"]
    assert other.look().turn is ApplyTurn.CURRENT


def test_a_claim_that_is_lost_in_a_race_is_looked_at_again() -> None:
    world, jobs = World(), declared("a")
    faults = Faults().at("write_record", before=lambda: applying(world, jobs, "w2").look())
    assert applying(world, jobs, "w1", faults).look().turn is ApplyTurn.CURRENT


def test_a_worker_that_stalls_changes_nothing_once_another_may_have_its_claim() -> None:
    """It compares, sleeps, and finds that the newer set was applied meanwhile."""
    world, old, new = World(), declared("a", "b"), declared("a", "b", expression="0 10 * * *")
    newer = applying(world, new, "w2")

    def stall() -> None:
        world.clock.reach(world.clock() + CLAIM + 60_000)
        assert newer.look().turn is ApplyTurn.APPLIED

    faults = Faults().at("revisions", before=stall)
    applying(world, declared("a", "b", expression="0 8 * * *"), "w0").look()
    assert applying(world, old, "w1", faults).look().turn is ApplyTurn.ELSEWHERE
    assert names(world) == {"a": "0 10 * * *", "b": "0 10 * * *"}
    assert applying(world, new, "w3").look().turn is ApplyTurn.CURRENT


def test_a_long_application_renews_its_claim() -> None:
    world, jobs = World(), declared(*(f"s{number}" for number in range(30)))
    faults = Faults().at("arm", before=lambda: world.clock.reach(world.clock() + 20_000), times=None)
    other = applying(world, jobs, "w2")
    faults.at("arm", before=lambda: _is_elsewhere(other), times=None)
    assert applying(world, jobs, "w1", faults).look().turn is ApplyTurn.APPLIED
    assert len(names(world)) == 30


def _is_elsewhere(other: StartApplication) -> None:
    assert other.look().turn is ApplyTurn.ELSEWHERE


def test_what_an_owner_changes_meanwhile_is_compared_again() -> None:
    world, old, new = World(), declared("a"), declared("a", expression="0 10 * * *")
    applying(world, old).look()
    faults = Faults().at("arm", before=lambda: world.scheduler.update_schedule("a", description="mine"))
    assert applying(world, new, "w2", faults).look().changed == ["a"]
    assert names(world) == {"a": "0 10 * * *"}


# Sets.


def test_a_set_is_what_it_makes() -> None:
    base = digest_of(declared("a", "b").declared(), declared("a", "b"))
    assert base == digest_of(declared("b", "a").declared(), declared("b", "a"))
    others = [
        declared("a"),
        declared("a", "b", expression="0 9 * * MON"),
        declared("a", "b", payload={"x": 1}),
        declared("a", "b", timezone="Europe/Paris"),
        declared("a", "b", description="d"),
        declared("a", "b", tags={"t": "1"}),
        declared("a", "b", catch_up="all"),
        declared("a", "b", timeout=5),
    ]
    assert len({base, *(digest_of(jobs.declared(), jobs) for jobs in others)}) == 1 + len(others)
    exact = declared("a", "b")
    exact._jobs["a"] = exact._jobs["a"].__class__(
        **vars(exact._jobs["a"]) | {"policies": declared_policies(exact, "exact")}
    )
    assert digest_of(exact.declared(), exact) != base, "a schedule has its job's start"


def declared_policies(jobs: Registry, start: str) -> Any:
    from dataclasses import replace

    from quarterjack.domain.policies import Start

    job = jobs.get("a")
    assert job is not None
    return replace(job.policies, start=Start(start))


def test_a_package_has_its_modules_declarations() -> None:
    jobs = declared("a", module="acme.jobs.reports")
    assert [one.place for one in declared_in("acme.jobs", jobs)] == [one.place for one in jobs.declared()]
    assert declared_in("acme.job", jobs) == declared_in("other", jobs) == []


def test_a_package_has_its_pipelines() -> None:
    jobs = Registry()
    module = {"__name__": "acme.jobs.reports", "jobs": jobs, "pipeline": pipeline}
    code = "for shop in 'ab':\n    with pipeline(f'of-{shop}', registry=jobs) as p:\n        p.task('x')\n"
    for _ in range(2):  # imported again it replaces them
        exec(code, module)
    assert [one.name for one in declared_in("acme.jobs", jobs)] == ["of-a", "of-b"]
    assert declared_in("acme.jobs.report", jobs) == []
    jobs.job("x")(lambda ctx, payload: None)
    assert sorted(applying(World(), jobs).look().changed) == ["of-a", "of-b"]


# The worker.


def test_a_worker_applies_in_a_thread_and_waits_for_who_is_at_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "quarterjack")
    jobs = declared("a")
    memory = Memory(system_clock, idle=lambda seconds: threading.Event().wait(0.02))
    applier = DeclarationApplier(memory.connect(), ["acme.jobs"], jobs, tenant="acme", by="w1", clock=system_clock)
    done = threading.Event()

    def alongside(stop: threading.Event) -> None:
        applier.run(stop)
        done.set()

    stop = threading.Event()
    process = WorkerProcess(memory.connect(), jobs, alongside=alongside)
    running = threading.Thread(target=process.run, kwargs={"stop": stop, "grace": 0.0})
    running.start()
    assert done.wait(30)
    stop.set()
    running.join(30)
    assert [head.name for head in memory.heads()] == ["a"]
    (line,) = [record for record in caplog.records if record.message == "declarations.applied"]
    assert (vars(line)["package"], vars(line)["schedules"]) == ("acme.jobs", 1)


class Waits(threading.Event):
    """An event that is waited for in simulated time."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world, self.waited = world, list[float]()

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.waited.append(timeout)
        self.world.wait(timeout)
        return len(self.waited) > 10


def applier_of(world: World, jobs: Registry, faults: Faults | None = None, by: str = "w1") -> DeclarationApplier:
    return DeclarationApplier(world.process(faults), ["acme.jobs"], jobs, tenant="acme", by=by, clock=world.clock)


def test_a_worker_that_waits_for_one_that_died_takes_over() -> None:
    world, jobs = World(), declared("a", "b")
    with pytest.raises(Crash):
        applying(world, jobs, "w0", Faults().at("arm", before=crash, skip=1)).look()
    stop = Waits(world)
    applier_of(world, jobs).run(stop)
    assert set(names(world)) == {"a", "b"}
    assert len(stop.waited) == 1


def test_an_outage_is_waited_for() -> None:
    world, jobs = World(), declared("a")
    stop = Waits(world)
    applier_of(world, jobs, Faults().at("record", before=fails, times=4)).run(stop)
    assert set(names(world)) == {"a"}
    assert stop.waited == [30.0, 30.0]


@pytest.mark.parametrize("problem", [Misconfigured("no permission"), ZeroDivisionError("a defect")])
def test_what_cannot_be_applied_is_said_and_the_worker_works_on(
    problem: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    world, jobs = World(), declared("a")

    def refuse() -> None:
        raise problem

    stop = Waits(world)
    applier_of(world, jobs, Faults().at("page", before=refuse, times=None)).run(stop)
    assert stop.waited == []
    assert [record.message for record in caplog.records if "declarations" in record.message] == [
        "declarations.not_applied"
    ]


def test_a_replaced_set_says_how_it_comes_back(caplog: pytest.LogCaptureFixture) -> None:
    world, old = World(), declared("a")
    for jobs in (old, declared("a", expression="0 10 * * *")):
        applying(world, jobs).look()
    applier_of(world, old).run(Waits(world))
    (record,) = [record for record in caplog.records if record.message == "declarations.replaced"]
    assert "quarterjack apply PACKAGE" in vars(record)["remedy"]


def test_a_worker_without_a_package_has_nothing_to_apply() -> None:
    with pytest.raises(InvalidInput, match="name a package with --jobs"):
        DeclarationApplier(World().process(), [], Registry(), tenant="acme", by="w", clock=system_clock)
