"""Outages of schedules with ``automatic_backfill``: all that was missed is run, once, however late; of very much, the last fires."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from quarterjack import RunState, Scheduler
from quarterjack.auditor.audit import audit
from quarterjack.domain.options import CatchUp, Options
from quarterjack.domain.schedule import Revision
from quarterjack.domain.times import HOUR, MINUTE, SECOND
from quarterjack.fires.context import FireContext
from quarterjack.fires.plan import LARGEST, plan_chain, timetable_of
from quarterjack.state.catch_up import LARGEST_GAP, MOST_BACKFILLED, skipped_fires
from quarterjack.stores.tables import RUNS
from quarterjack.testing import Crash, Memory
from quarterjack.ticker.tick import dispatch

from tests.support.builders import a_definition, a_revision
from tests.support.histories.crash_points import Plan
from tests.support.histories.outages import Outages
from tests.support.histories.simulator import HOSTILE, ROUGH, WILD, Faults, Stage
from tests.support.parts import in_parts
from tests.support.scenes.outage import Dying, divided
from tests.support.scenes.world import NOON, World

OUTAGE = 3 * 3_600  # seconds, six times the default window
SHORT = 3_600  # seconds, of which a tick makes up in several requests too
PARTS = 6


def every(seconds: int, catch_up: CatchUp = CatchUp.ALL, *, automatic: bool = True) -> Revision:
    options = Options(catch_up=catch_up, catch_up_window=60.0, automatic_backfill=automatic)
    return a_revision(definition=a_definition(f"rate({seconds} seconds)", options=options))


def backfilled(expression: str = "* * * * *", *, outage: int = OUTAGE, **options: object) -> World:
    """A schedule that has run for two minutes, and an outage of three hours, or of ``outage`` seconds, since."""
    world = World()
    world.scheduler.create_schedule("s", "note", expression, automatic_backfill=True, **options)  # type: ignore[arg-type]
    world.live(120)
    world.wait(outage)
    return world


def test_every_fire_of_an_outage_is_run_once_however_long_ago_it_was_due() -> None:
    world = backfilled()
    world.live(60)
    assert sorted(world.began()) == list(range(60, OUTAGE + 181, 60))
    runs, gaps = divided(world.memory, "acme/s")
    assert gaps == []
    missed = {fire for fire, run in runs.items() if run.missed}
    assert min(missed) < NOON + 30 * MINUTE < max(missed), "those claimed ahead of the outage were in time"


def test_without_it_the_window_bounds_an_outage() -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "* * * * *")
    world.live(120)
    world.wait(OUTAGE)
    world.live(60)
    _, (gap,) = divided(world.memory, "acme/s")
    assert gap.reason == "missed: catch_up=all, catch_up_window=1800"
    assert min(fire for fire in world.began() if fire > 1_000) >= OUTAGE - 1_800


@pytest.mark.parametrize(("policy", "late"), [("latest", 1), ("none", 0)])
def test_catch_up_still_says_which_missed_fires_run(policy: str, late: int) -> None:
    world = backfilled("*/5 * * * *", catch_up=policy)
    world.live(60)
    runs, (gap,) = divided(world.memory, "acme/s")
    before = 1  # claimed before the outage, started after it
    assert sum(run.missed for run in runs.values()) == before + late
    assert gap.reason == f"missed: catch_up={policy}, catch_up_window=1800"


def test_an_outage_in_which_the_schedule_changed_is_backfilled_by_the_definition_of_each_time() -> None:
    world = backfilled("*/10 * * * *")
    world.scheduler.update_schedule("s", payload="later")
    world.wait(OUTAGE)
    world.live(60)
    assert sorted(world.began()) == list(range(600, 2 * OUTAGE + 181, 600))
    runs, gaps = divided(world.memory, "acme/s")
    assert gaps == []
    assert {run.revision for fire, run in runs.items() if fire <= NOON + OUTAGE * SECOND} == {1}


def test_a_pause_longer_than_the_window_is_backfilled_whole() -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "*/5 * * * *", automatic_backfill=True)
    world.scheduler.pause_schedule("s")
    world.wait(OUTAGE)
    world.scheduler.resume_schedule("s")
    world.live(10)
    assert sorted(world.began()) == list(range(300, OUTAGE + 1, 300))


def test_the_auditor_claims_a_lost_fire_that_is_older_than_the_window() -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "*/20 * * * *", automatic_backfill=True, catch_up_window=60)
    world.live(3_700)
    lost, *_ = world.memory.runs("acme/s")
    world.memory._tables[RUNS].delete(*lost.ref)
    assert audit(world.services, clock=world.clock).unclaimed == 1
    runs, gaps = divided(world.memory, "acme/s")
    assert (gaps, runs[lost.due].state) == ([], RunState.QUEUED)


# Crashes and races.


@in_parts(PARTS)
def test_a_ticker_that_dies_at_any_write_loses_and_doubles_nothing(part: int) -> None:
    plan = Plan()
    backfilled_with(plan)
    assert len(plan.apart()) > 12
    for point in plan.apart()[part::PARTS]:
        world = backfilled_with(Plan([point]))
        world.live(120)
        due = list(range(60, SHORT + 121, 60))
        assert [second for second in sorted(world.began()) if second <= due[-1]] == due, point
        assert divided(world.memory, "acme/s")[1] == [], point


def backfilled_with(plan: Plan) -> World:
    """The ticker of the first tick after the outage may die."""
    world = backfilled(outage=SHORT)
    try:
        world.tick(world.process(plan))
    except Crash:
        world.wait(5)
    return world


SKEW = 10_000
TOGETHER = Faults(crash=0.0, fail=0.0, lose=0.0, throttle=0.0, stall=0.0, skew=SKEW)
TROUBLED = Faults(crash=0.01, fail=0.02, lose=0.02, throttle=0.02, stall=0.0, skew=SKEW)


@pytest.mark.parametrize("faults", [TOGETHER, TROUBLED], ids=["together", "with faults"])
def test_tickers_at_once_with_other_clocks_claim_every_fire(faults: Faults) -> None:
    for seed in range(8):
        memory, now = raced(seed, faults)
        runs, gaps = divided(memory, "acme/s")
        assert gaps == [], seed
        assert {NOON + second * SECOND for second in range(30, (now - NOON) // SECOND + 1, 30)} <= set(runs), seed


def raced(seed: int, faults: Faults) -> tuple[Memory, int]:
    stage = Stage(seed, NOON, TOGETHER)
    owner = Scheduler("acme", services=stage.memory.connect(), clock=lambda: stage.now)
    owner.create_schedule("s", "note", "rate(30 seconds)", automatic_backfill=True, catch_up_window=60)
    stage.now += (3_000 + stage.random.randrange(60)) * SECOND
    stage.faults = faults

    def work(services: FireContext) -> None:
        for shard in range(2):
            page = services.services.agenda.due(shard, upto=services.clock(), after=None, limit=100)
            dispatch(page.entries, services)

    for _ in range(3):
        stage.process("ticker", lambda process: work(FireContext(services=process.services, clock=process.clock)))
    while stage.step():
        pass
    stage.faults = TOGETHER
    for _ in range(3):
        work(FireContext(services=stage.memory.connect(), clock=lambda: stage.now))
    return stage.memory, stage.now


PARTS = 4  # `make test` plays one, `make check` all


@in_parts(PARTS)
def test_histories_full_of_outages_backfill_all_that_was_missed(part: int) -> None:
    late = 0
    for number, faults in enumerate((ROUGH, HOSTILE, WILD, TOGETHER)[part::PARTS]):
        history = Outages(10 * part + number, faults)
        assert history.judged() == []
        late += sum(run.missed for run in history.stage.memory.runs())
    assert late > 0


# The bound.


@settings(deadline=None, max_examples=50)
@given(
    period=st.sampled_from([1, 7, 60, 3_600]), behind=st.integers(0, 30 * HOUR), upto=st.none() | st.integers(0, HOUR)
)
def test_all_missed_fires_but_the_last_ones_are_skipped(period: int, behind: int, upto: int | None) -> None:
    revision = every(period)
    now = revision.active_from + behind
    bound = now if upto is None else min(now, revision.active_from + upto)
    table = timetable_of(revision)
    skipped, fire = skipped_fires(table, table.next(revision.active_from), bound, now, revision.definition.options)
    due = range(revision.active_from + period * SECOND, bound + 1, period * SECOND)
    missed = [at for at in due if now - at > MINUTE]
    assert skipped == missed[: -MOST_BACKFILLED or None][:LARGEST_GAP]
    assert fire == (skipped[-1] if skipped else revision.active_from) + period * SECOND


def test_the_last_ten_thousand_are_run_and_the_earlier_ones_are_one_gap() -> None:
    revision = every(1)
    now = revision.active_from + (MOST_BACKFILLED + 500) * SECOND + MINUTE
    step = plan_chain(revision, after=revision.active_from, now=now, oldest=0)
    assert (len(step.passed), len(step.fires), step.cut) == (499, LARGEST, True)
    assert step.following is not None
    rest = plan_chain(revision, after=step.following.after, now=now, oldest=0)
    assert (rest.passed, rest.fires[0]) == ((), step.fires[-1] + SECOND), "the next steps skip nothing more"


def test_so_many_that_one_plan_only_skips_are_skipped_in_pieces() -> None:
    revision = every(1)
    now = revision.active_from + (LARGEST_GAP + MOST_BACKFILLED + 10) * SECOND + MINUTE
    step = plan_chain(revision, after=revision.active_from, now=now, oldest=0)
    assert (len(step.passed), step.fires, step.cut) == (LARGEST_GAP, (), True)
    assert step.following is not None
    rest = plan_chain(revision, after=step.following.after, now=now, oldest=0)
    assert (len(rest.passed), rest.fires[0]) == (9, rest.passed[-1] + SECOND)


def test_what_was_left_out_says_so() -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "rate(1 second)", automatic_backfill=True)
    world.wait(MOST_BACKFILLED + 2_000)
    with pytest.raises(Crash):
        world.tick(world.process(Dying(40)))
    (gap,) = divided(world.memory, "acme/s")[1]
    assert (gap.state, gap.reason) == (
        RunState.SKIPPED,
        "missed: catch_up=all, automatic_backfill of the last 10,000",
    )
