"""A tenant's jobs: what is taken from it starts no more within five seconds, on no way to a start, and goes on when it is given back."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import pytest
from quarterjack import Context, Registry, Retry, RunState, Scheduler
from quarterjack.domain.policies import StartWord
from quarterjack.domain.run import RunRow
from quarterjack.domain.tenants.access import KIND, NOT_GRANTED
from quarterjack.domain.tenants.profile import INSTALLATION, TenantProfile
from quarterjack.domain.times import MINUTE, SECOND
from quarterjack.errors import Continue
from quarterjack.ready_jobs.command import command_job
from quarterjack.ready_jobs.http import http_job
from quarterjack.testing import Crash
from quarterjack.testing.process import Hand, bury_all
from quarterjack.worker import pipeline
from quarterjack.worker.admission.admit import admit
from quarterjack.worker.admission.tenant_state import FRESH
from quarterjack.worker.context import WorkerContext
from quarterjack.worker.stages import Outcome, ReadyRun, ReceivedMessage

from tests.support.scenes.world import NOON, OWNER, Faults, World, crash, fails

WITHIN = 5 * SECOND  # of the removal of a grant, in which a start may still follow


def allow(world: World, *jobs: str, tenant: str = "acme") -> int:
    """Let the tenant run these jobs and no others; when (UTC ms)."""
    store = world.services.tenants
    present = store.profile(tenant)
    profile = TenantProfile(tenant=tenant, jobs=jobs)
    assert store.put(profile, expected=0 if present is None else present.version)
    return world.clock()


def dead_of(world: World, owner: str | None = OWNER) -> list[RunRow]:
    return [run for run in world.memory.runs(owner) if run.state is RunState.DEAD]


def refused(run: RunRow) -> bool:
    return run.reason == NOT_GRANTED and run.failure is not None and run.failure.kind == KIND


# The measure: seconds from the removal to the last start.


def steps(world: World, dice: random.Random, until: int, hands: list[Hand]) -> None:
    """Time passes by less than a second at once; a tick a minute, and workers that stay."""
    while world.clock() < until:
        before = world.clock()
        for hand in dice.sample(hands, len(hands)):
            hand.work()
        bury_all(world.services, world.clock)
        world.reach(max(world.clock(), before + dice.randrange(20, 900)))
        if before // MINUTE != world.clock() // MINUTE:
            world.tick()


@pytest.mark.parametrize("seed", range(25))
def test_no_run_starts_later_than_five_seconds_after_its_job_was_taken_away(seed: int) -> None:
    dice, world = random.Random(seed), World()
    hands = [Hand(worker=world.worker(name=f"w{n}"), together=dice.random() < 0.7) for n in range(2)]
    starts: dict[str, StartWord] = {"s": "prompt", "e": "exact"}
    for name, start in starts.items():
        world.scheduler.create_schedule(name, "note", dice.choice(["rate(2 seconds)", "rate(7 seconds)"]), start=start)
    world.tick()
    steps(world, dice, NOON + dice.randrange(60, 100) * SECOND, hands)
    taken = allow(world, "other")
    steps(world, dice, taken + dice.randrange(20, 60) * SECOND, hands)
    given = allow(world, "other", "note")
    steps(world, dice, given + 40 * SECOND, hands)
    began = [start.at for start in world.started]
    assert any(begin < taken for begin in began)
    assert [begin for begin in began if taken + WITHIN < begin < given] == []
    assert any(begin > given for begin in began)
    between = [run for run in world.memory.runs() if taken + WITHIN < run.due < given - SECOND]
    assert between
    assert all(refused(run) for run in between)


def test_it_is_known_on_each_run_why_and_what_gives_it() -> None:
    world = World()
    allow(world, "other")
    world.scheduler._sources.grants.problem = lambda tenant, job: None  # type: ignore[method-assign]  # before it was taken
    world.scheduler.create_schedule("s", "note", "rate(60 seconds)")
    world.live(61)
    (run,) = dead_of(world)
    assert run.failure is not None
    assert run.failure.message == ("tenant 'acme' may not run job 'note'; ask an operator of the installation for it")
    (dead,) = world.scheduler.list_dead(error_type=KIND).items
    assert (dead.id, dead.reason) == (str(run.ref), NOT_GRANTED)


# Which ways lead to a start. Each tells how a run came to be before the job was taken away, and is to be refused.


def of_a_schedule(world: World) -> None:
    world.scheduler.create_schedule("s", "note", "rate(60 seconds)")


def of_an_exact_schedule(world: World) -> None:
    world.scheduler.create_schedule("s", "note", "rate(60 seconds)", start="exact")


def of_a_shadow(world: World) -> None:
    world.scheduler.create_schedule("s", "note", "rate(60 seconds)", shadow=True)


def of_a_slot(world: World) -> None:
    world.scheduler.create_schedule("s", "note", "rate(60 seconds)", overlap="skip")


def of_a_submission(world: World) -> None:
    world.scheduler.submit("note", delay=60)


def of_a_delivery_at_most_once(world: World) -> None:
    world.scheduler.submit("once", delay=60)


def of_a_trigger(world: World) -> None:
    world.scheduler.create_schedule("s", "note", "0 0 1 1 *")
    world.scheduler.trigger("s")


def of_a_backfill(world: World) -> None:
    world.scheduler.create_schedule("s", "note", "0 * * * *")
    day = timedelta(days=1)
    world.scheduler.backfill("s", world.now() - day, world.now(), current=True, dry_run=False)


def of_a_replay(world: World) -> None:
    world.scheduler.replay_run(ended(world))


def of_a_redrive(world: World) -> None:
    run = world.scheduler.submit("bad", retry=Retry(max_attempts=1))
    world.live(1)
    world.started.clear()
    world.scheduler.redrive(run.id)


def of_a_reschedule(world: World) -> None:
    run = world.scheduler.submit("note", delay=3_600)
    world.scheduler.reschedule(run.id, delay=60)


def of_a_retry(world: World) -> None:
    world.scheduler.submit("bad")
    world.live(1)
    assert len(world.started) == 1
    world.started.clear()


def of_a_checkpoint(world: World) -> None:
    def sliced(ctx: Context) -> None:
        ctx.checkpoint({"at": 1})
        raise Continue

    world.during = sliced
    world.scheduler.submit("note")
    Hand(worker=world.worker()).work(most=1)
    assert len(world.started) == 1
    world.started.clear()


def of_a_worker_that_vanished(world: World) -> None:
    world.scheduler.submit("note")
    vanish(world)
    assert len(world.started) == 1
    world.started.clear()


def vanish(world: World) -> None:
    """A worker begins with what is there, and dies before it has settled it."""
    with pytest.raises(Crash):
        Hand(worker=world.worker(Faults().at("succeed", before=crash))).work()


def of_a_resumed_schedule(world: World) -> None:
    world.scheduler.create_schedule("s", "note", "rate(60 seconds)")
    world.scheduler.pause_schedule("s", until=world.now() + timedelta(seconds=30))


def ended(world: World) -> str:
    run = world.scheduler.submit("note")
    world.live(1)
    world.started.clear()
    return run.id


WAYS = [
    of_a_schedule,
    of_an_exact_schedule,
    of_a_shadow,
    of_a_slot,
    of_a_submission,
    of_a_delivery_at_most_once,
    of_a_trigger,
    of_a_backfill,
    of_a_replay,
    of_a_redrive,
    of_a_reschedule,
    of_a_retry,
    of_a_checkpoint,
    of_a_worker_that_vanished,
    of_a_resumed_schedule,
]


@pytest.mark.parametrize("together", [False, True], ids=["alone", "together"])
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_on_every_way_to_a_start(way: Any, together: bool) -> None:
    world = World()
    hand = Hand(worker=world.worker(), together=together)
    way(world)
    allow(world, "other")
    world.wait(WITHIN / SECOND)
    for _ in range(30):
        world.tick()
        hand.work()
        bury_all(world.services, world.clock)
        world.wait(10)
    assert world.started == []
    assert [run for run in world.memory.runs() if refused(run)]
    assert not [run for run in world.memory.runs() if run.state in (RunState.RUNNING, RunState.SHADOWED)]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_on_every_way_it_goes_on_once_it_is_given_back(way: Any) -> None:
    world = World()
    way(world)
    allow(world, "other")
    world.live(120)
    world.started.clear()
    allow(world, "note", "once", "bad")
    done = world.scheduler.redrive(error_type=KIND)
    assert done.count > 0
    assert not done.failed
    world.live(120)
    started = {start.run_id for start in world.started}
    assert {dead.redriven_as for dead in done.runs} <= started


def test_the_job_that_is_told_of_an_incident_is_asked_for_as_well() -> None:
    world = World()
    world.jobs.job("told")(world.note)
    world.scheduler.create_schedule("s", "bad", "rate(60 seconds)", retry=Retry(max_attempts=1), on_failure="job:told")
    allow(world, "bad")
    world.live(180)
    (notice,) = [run for run in world.memory.runs() if run.job == "told"]
    assert refused(notice)
    allow(world, "told")
    assert world.scheduler.redrive(str(notice.ref)).count == 1


# What it leaves alone.


def test_other_tenants_and_an_installation_without_profiles_go_on() -> None:
    world = World()
    other = Scheduler("globex", jobs=world.jobs, services=world.process(), clock=world.clock)
    mine, theirs = world.scheduler.submit("note"), other.submit("note")
    allow(world, "other")
    world.live(60)
    assert [start.run_id for start in world.started] == [theirs.id]
    assert world.scheduler.get_run(mine.id).state is RunState.DEAD


def test_what_runs_goes_on() -> None:
    world = World()
    run = world.scheduler.submit("note")

    def during(_: Context) -> None:
        allow(world, "other")
        world.wait(30)

    world.during = during
    world.live(60)
    assert world.scheduler.get_run(run.id).state is RunState.SUCCEEDED


def test_a_tenant_without_jobs_of_its_own_has_those_of_the_installation() -> None:
    """Also one that has a profile for another reason: to suspend it must not widen what it may run."""
    world = World()
    run = world.scheduler.submit("note")
    allow(world, "other", tenant=INSTALLATION)
    assert world.services.tenants.put(TenantProfile(tenant="acme", description="a customer"), expected=0)
    world.live(60)
    assert world.scheduler.get_run(run.id).state is RunState.DEAD
    allow(world, "no*", tenant=INSTALLATION)
    world.wait(WITHIN / SECOND)
    world.scheduler.redrive(run.id)
    world.live(60)
    assert len(world.started) == 1


def test_an_incident_begins_and_no_schedule_is_paused_for_it() -> None:
    """Its job did not fail: it has to go on by itself when the job is given back."""
    world = World()
    world.scheduler.create_schedule("s", "note", "rate(60 seconds)", pause_on_failure=2)
    allow(world, "other")
    world.live(400)
    schedule = world.scheduler.get_schedule("s")
    assert (schedule.state, schedule.incident is not None) == ("ACTIVE", True)
    allow(world, "note")
    world.live(200)
    assert world.started
    assert world.scheduler.get_schedule("s").incident is None


def test_an_at_most_once_run_whose_worker_vanished_stays_lost() -> None:
    """A DEAD one would be redriven with all the others, and run a second time. Its message came back: it was not deleted."""
    world = World()
    run = world.scheduler.submit("once")
    dying = Faults().at("succeed", before=crash).at("delete", before=fails, times=None)
    with pytest.raises(Crash):
        Hand(worker=world.worker(dying)).work()
    allow(world, "other")
    world.wait(600)
    (outcome,) = Hand(worker=world.worker()).work()
    assert (outcome.state, len(world.started)) == (RunState.LOST, 1)
    assert world.scheduler.get_run(run.id).state is RunState.LOST


def test_a_refused_run_frees_its_place() -> None:
    world = World()
    world.jobs.job("other")(world.note)
    world.scheduler.create_schedule("s", "note", "rate(60 seconds)", overlap="buffer_all")
    world.live(61)
    allow(world, "other")
    world.live(60)
    world.scheduler._sources.grants.problem = lambda tenant, job: None  # type: ignore[method-assign]
    world.scheduler.update_schedule("s", job="other")
    world.live(120)
    assert [start.at > NOON + 120 * SECOND for start in world.started[1:]] == [True, True]


# A job that does whatever its payload says.


def by_name(world: World) -> Registry:
    command_job("command", registry=world.jobs)
    http_job("http", registry=world.jobs, networks=["127.0.0.1"])
    return world.jobs


@pytest.mark.parametrize("job", ["command", "http"])
@pytest.mark.parametrize(
    ("jobs", "may"), [(("*",), False), (("{}*",), False), (("{}",), True)], ids=["all", "begins", "named"]
)
def test_no_pattern_gives_it(job: str, jobs: tuple[str, ...], may: bool) -> None:
    world = World()
    by_name(world)
    payload = {"command": "true"} if job == "command" else {"url": "http://127.0.0.1:9/"}
    run = world.scheduler.submit(job, payload, retry=Retry(max_attempts=1))
    allow(world, *(pattern.format(job) for pattern in jobs))
    world.live(30)
    found = world.scheduler.get_run(run.id)
    assert (found.reason != NOT_GRANTED) is may
    if not may:
        assert "a pattern such as * does not give it" in (found.error or "")


# When the profile cannot be read, and how old it may be.


def test_without_a_profile_the_message_comes_back() -> None:
    """Whether it may start is not known, so it does not; and it is not dead."""
    world = World()
    world.scheduler.submit("note")
    faults = Faults().at("revisions", before=fails, times=None).at("governance", before=fails, times=None)
    outcomes = world.work(world.worker(faults))
    assert [outcome.gone for outcome in outcomes] == [False]
    assert world.started == []
    world.live(60)
    assert len(world.started) == 1


@pytest.mark.parametrize("start", ["prompt", "exact"])
@pytest.mark.parametrize("job", ["note", "once"], ids=["together", "alone"])
def test_a_worker_that_stalls_before_its_lease_asks_again(
    start: Any, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    world.scheduler.submit(job, start=start)

    def admitted(worker: WorkerContext, received: ReceivedMessage) -> ReadyRun | Outcome:
        answer = admit(worker, received)
        allow(world, "other")
        world.wait(WITHIN / SECOND)
        return answer

    monkeypatch.setattr(pipeline, "admit", admitted)
    Hand(worker=world.worker(), together=True).work()
    assert world.started == []
    assert all(map(refused, world.memory.runs()))


def test_what_took_long_to_read_is_read_again() -> None:
    """A process that stalls in the reading itself must not go by what it has read."""
    world, faults = World(), Faults()
    world.scheduler.submit("note")

    def stalled() -> None:
        allow(world, "other")
        world.wait(FRESH / SECOND + 1)

    faults.at("revisions", after=lambda: world.wait(FRESH / SECOND + 1)).at("governance", after=stalled)
    Hand(worker=world.worker(faults)).work()
    assert world.started == []
    assert all(map(refused, world.memory.runs()))
    assert faults.profile_reads == 2


def test_what_always_takes_long_to_read_starts_nothing() -> None:
    world, faults = World(), Faults()
    world.scheduler.submit("note")
    for verb in ("revisions", "governance"):
        faults.at(verb, after=lambda: world.wait(FRESH / SECOND + 1), times=None)
    outcomes = Hand(worker=world.worker(faults)).work()
    assert [(outcome.gone, outcome.why) for outcome in outcomes] == [(False, "unavailable")]
    assert world.started == []


def test_a_busy_worker_reads_a_profile_seldom() -> None:
    """With the batch that it reads anyway, and at most once in two and a half seconds."""
    world, faults = World(), Faults()
    worker = world.worker(faults)
    for _ in range(100):
        world.scheduler.submit("note")
        Hand(worker=worker).work()
        world.wait(0.1)
    assert len(world.started) == 100
    assert faults.profile_reads == 0
    profiles = [
        detail
        for _, detail in faults.calls
        if detail.verb == "revisions" and any("#profile" in str(item) for item in detail.items)
    ]
    assert len(profiles) <= 5
