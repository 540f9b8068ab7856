"""What owners and policies do to runs that are parked: overlap, caps, limits, deadlines, cancellation, pauses, freezes, deliveries."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from quarterjack import Context, Registry, RunState, Tenants
from quarterjack.domain.run import EntryKind
from quarterjack.domain.times import DAY, SECOND
from quarterjack.errors import Conflict, Throttled
from quarterjack.fires.flow.wait_queue import permits_of
from quarterjack.testing import Harness
from quarterjack.worker.execution.settle import release_run

from tests.support.open_breakers import open_breaker
from tests.support.scenes.parking import HOUR, Parking
from tests.support.scenes.world import NOON, START, Faults

MINUTES: dict[str, Any] = {"expression": "rate(1 minute)", "payload": 150}


def outcomes(world: Parking, upto: int) -> list[str]:
    """States of the fires that were due up to then (seconds after NOON)."""
    return [str(state) for second, state in world.states() if second <= upto]


# Overlap.


@pytest.mark.parametrize(
    ("options", "states"),
    [
        ({"overlap": "skip"}, ["SUCCEEDED", "SKIPPED", "SKIPPED", "PARKED", "SKIPPED"]),
        ({"overlap": "buffer_one"}, ["SUCCEEDED", "PARKED", "SKIPPED", "QUEUED", "SKIPPED"]),
        ({"overlap": "buffer_all"}, ["SUCCEEDED", "PARKED", "QUEUED", "QUEUED", "QUEUED"]),
        ({"max_running": 2}, ["SUCCEEDED", "SUCCEEDED", "PARKED", "PARKED", "QUEUED"]),
        ({"overlap": "cancel_other"}, ["CANCELLED", "CANCELLED", "CANCELLED", "CANCELLED", "PARKED"]),
        ({"overlap": "terminate_other"}, ["CANCELLED", "CANCELLED", "CANCELLED", "CANCELLED", "PARKED"]),
    ],
    ids=lambda given: next(iter(given.values())) if isinstance(given, dict) else "",
)
def test_a_parked_run_keeps_its_turn(options: dict[str, Any], states: list[str]) -> None:
    """Runs are due each minute and sleep for 150 s."""
    world = Parking()
    world.scheduler.create_schedule("s", "nap", **MINUTES, **options)
    world.live(330)
    assert outcomes(world, 300) == states


# Caps and limits.


def test_a_parked_run_holds_no_permit_and_takes_one_again() -> None:
    world = Parking()
    Tenants(services=world.services, clock=world.clock).set("acme", limits={"concurrent_runs": 1})
    asks = [world.parked("ask") for _ in range(2)]
    assert not any(each.used() for each in permits_of("acme", world.services).values())
    note = world.scheduler.submit("note")
    world.live(60)
    assert world.state(note) == "SUCCEEDED"
    for run in asks:
        world.scheduler.signal(run.id, "go", 1)
    world.live(120)
    assert [world.state(run) for run in asks] == ["SUCCEEDED", "SUCCEEDED"]


def test_a_woken_run_waits_in_the_queue_of_its_cap() -> None:
    world = Parking()
    Tenants(services=world.services, clock=world.clock).set("acme", limits={"concurrent_runs": 1})
    run, seen = world.parked("ask"), list[str]()

    def meanwhile(ctx: Context) -> None:
        world.scheduler.signal(run.id, "go", 1)
        world.work(world.worker(name="other"))
        seen.append(world.state(run))

    world.during = meanwhile
    world.scheduler.submit("note")
    world.live(120)
    assert seen == ["CONTINUED"]
    assert world.state(run) == "SUCCEEDED"


def test_parked_runs_count_as_waiting_runs() -> None:
    registry = Registry()
    registry.job("ask")(lambda ctx, payload: ctx.wait_for("go"))
    harness = Harness(registry, at=START, tenant="acme")
    harness.tenants.set("acme", limits={"waiting_runs": 2})
    first, _ = (harness.scheduler.submit("ask") for _ in range(2))
    harness.advance(hours=2)
    with pytest.raises(Throttled, match="waiting_runs=2, and as many of its runs have not ended"):
        harness.scheduler.submit("ask")
    harness.scheduler.cancel_run(first.id)
    harness.advance(minutes=5)
    harness.scheduler.submit("ask")


def test_the_history_lists_parked_runs_of_every_kind() -> None:
    registry = Registry()
    registry.job("ask")(lambda ctx, payload: ctx.wait_for("go"))
    registry.job("note")(lambda ctx, payload: None)
    harness = Harness(registry, at=START, tenant="acme")
    one_off, scheduler = harness.scheduler.submit("ask"), harness.scheduler
    scheduler.create_schedule("s", "ask", "rate(1 hour)")
    scheduler.submit("note")
    harness.advance(hours=2, minutes=5)
    fires = [run.id for run in harness.runs() if run.schedule and run.state == "PARKED"]
    assert len(fires) == 2
    assert {run.id for run in scheduler.list_runs(state="PARKED").items} == {one_off.id, *fires}
    assert {run.id for run in scheduler.list_runs("s", state="PARKED").items} == set(fires)
    scheduler.signal(fires[0], "go", 1)
    harness.advance(minutes=5)
    assert fires[0] not in {run.id for run in scheduler.list_runs(state="PARKED").items}
    days = scheduler.stats(job="ask", since=START, until=harness.clock.now())
    assert [dict(day.outcomes) for day in days] == [{"SUCCEEDED": 1}]


# Deadlines.


@pytest.mark.parametrize(("job", "payload"), [("nap", 5_000), ("nap", 800), ("ask", None)])
def test_a_deadline_that_passes_in_a_wait_ends_it_then(job: str, payload: Any) -> None:
    world = Parking()
    run = world.parked(job, payload, deadline=600)
    world.live(599)
    assert world.state(run) == "PARKED"
    world.live(5)
    row = world.row(run.id)
    assert (row.state, row.reason) == (RunState.EXPIRED, "deadline passed")
    assert 600 < ((row.ended_at or 0) - NOON) / 1_000 <= 602
    assert world.called == [job]


def test_the_parent_of_a_child_whose_deadline_passes_is_told() -> None:
    world = Parking()

    def hurried(ctx: Context, payload: Any) -> Any:
        child = ctx.submit("nap", 5_000, step="a", deadline=600)
        (end,) = ctx.gather([child], return_exceptions=True)
        return str(end)

    world.jobs.job("hurried")(hurried)
    run = world.parked("hurried")
    world.live(610)
    assert "EXPIRED" in str(world.scheduler.get_run(run.id).result)


# Ends.


def test_a_cancelled_run_does_not_come_back_at_the_end_of_its_wait() -> None:
    world = Parking()
    runs = [world.parked("nap", 300), world.parked("nap"), world.parked("ask", 600)]
    for run in runs:
        assert world.scheduler.cancel_run(run.id).state == "CANCELLED"
    world.live(2 * HOUR)
    assert [world.state(run) for run in runs] == ["CANCELLED"] * 3
    assert world.called == ["nap", "nap", "ask"]
    with pytest.raises(Conflict, match="CANCELLED"):
        world.scheduler.signal(runs[2].id, "go", 1)


def test_a_run_that_is_cancelled_while_its_worker_parks_it_is_cancelled() -> None:
    world = Parking()
    run = world.scheduler.submit("ask")

    def cancels() -> None:
        world.scheduler.cancel_run(run.id)

    world.work(world.worker(Faults().at("park", before=cancels)))
    assert world.state(run) == "CANCELLED"
    world.live(HOUR)
    assert world.called == ["ask"]


def test_a_cancellation_reaches_children_of_the_slice_that_runs() -> None:
    """No row names them yet: the worker that ends the run knows them."""
    world = Parking()
    worker = world.worker()

    def submits(ctx: Context, payload: Any) -> None:
        ctx.submit("ask", step="a")
        world.work(world.worker(name="other"))
        world.scheduler.cancel_run(ctx.run_id)
        worker.heartbeat.beat(world.clock())
        ctx.raise_if_cancelled()

    world.jobs.job("submits")(submits)
    run = world.scheduler.submit("submits")
    world.work(worker)
    (child,) = (one for one in world.memory.runs(None) if one.parent == run.id)
    assert (world.state(run), child.state, world.called) == ("CANCELLED", RunState.CANCELLED, ["ask"])


# Schedules.


@pytest.mark.parametrize("drain", [False, True])
def test_a_pause_leaves_a_parked_run_and_it_goes_on(drain: bool) -> None:
    world = Parking()
    world.scheduler.create_schedule("s", "ask", "rate(10 minutes)")
    world.live(610)
    world.scheduler.pause_schedule("s", drain=drain)
    run = str(world.run(600).ref)
    assert world.state(run) == "PARKED"
    world.scheduler.signal(run, "go", 1)
    world.live(HOUR)
    assert outcomes(world, 2 * HOUR) == ["SUCCEEDED"]


def test_a_deletion_and_a_change_leave_a_parked_run_and_it_goes_on() -> None:
    for act in ("delete", "update"):
        world = Parking()
        world.scheduler.create_schedule("s", "ask", "rate(10 minutes)")
        world.live(610)
        if act == "delete":
            world.scheduler.delete_schedule("s")
        else:
            world.scheduler.update_schedule("s", job="note")
        run = str(world.run(600).ref)
        world.scheduler.signal(run, "go", act)
        world.live(30)
        assert world.scheduler.get_run(run).result == act
        assert world.called == ["ask", "ask"]


def test_a_triggered_and_a_backfilled_run_park_and_go_on() -> None:
    world = Parking()
    world.scheduler.create_schedule("s", "nap", "rate(1 hour)", payload=300)
    trigger = world.scheduler.trigger("s", payload=400)
    world.live(2 * HOUR + 30)
    assert world.state(trigger) == "SUCCEEDED"
    backfill = world.scheduler.backfill(
        "s", world.at + timedelta(hours=-3), world.at, current=True, dry_run=False, concurrency=1
    )
    world.live(HOUR)
    assert world.scheduler.get_backfill("s", backfill.id or "").state == "DONE"
    filled = [run for run in world.memory.runs() if run.backfill]
    assert {run.state for run in filled} == {RunState.SUCCEEDED}
    ends = sorted((run.started_at or 0, run.ended_at or 0) for run in filled)
    assert all(end <= begin for (_, end), (begin, _) in pairwise(ends)), "one at a time"


# Tenants.


def test_a_freeze_holds_the_runs_that_are_woken() -> None:
    world = Parking()
    ask, nap = world.parked("ask"), world.parked("nap", 120)
    world.scheduler.freeze(world.now() + timedelta(hours=1))
    world.scheduler.signal(ask.id, "go", 1)
    world.live(600)
    assert (world.state(ask), world.state(nap), len(world.called)) == ("CONTINUED", "PARKED", 2)
    world.live(HOUR)
    assert (world.state(ask), world.state(nap)) == ("SUCCEEDED", "SUCCEEDED")


def test_a_suspension_holds_the_runs_that_are_woken() -> None:
    world = Parking()
    ask, nap = world.parked("ask"), world.parked("nap", 120)
    tenants = Tenants(services=world.services, clock=world.clock)
    tenants.suspend("acme", reason="unpaid")
    assert world.state(ask) == "PARKED"
    world.live(600)
    assert len(world.called) == 2
    tenants.resume("acme")
    world.scheduler.signal(ask.id, "go", 1)
    world.live(HOUR)
    assert (world.state(ask), world.state(nap)) == ("SUCCEEDED", "SUCCEEDED")


def test_an_open_breaker_holds_the_run_that_is_woken() -> None:
    world = Parking()
    Tenants(services=world.services, clock=world.clock).set("acme", limits={"breaker_percent": 90})
    run = world.parked("ask")
    open_breaker("acme", "ask", world.services, world.clock())
    world.scheduler.signal(run.id, "go", 1)
    world.live(1)
    assert world.state(run) in {"CONTINUED", "SUCCEEDED"}  # the probe, if it is this one
    world.live(HOUR)
    assert world.state(run) == "SUCCEEDED"


# Deliveries.


def test_a_run_at_most_once_parks_and_its_watch_leaves_it() -> None:
    world = Parking()
    ask, nap = world.parked("ask-once"), world.parked("nap-once", 600)
    assert world.entries(EntryKind.WATCH)
    world.live(500)
    assert (world.state(ask), world.state(nap), world.entries(EntryKind.WATCH)) == ("PARKED", "PARKED", [])
    world.scheduler.signal(ask.id, "go", 1)
    world.live(200)
    assert (world.state(ask), world.state(nap)) == ("SUCCEEDED", "SUCCEEDED")
    assert world.called == ["ask-once", "nap-once", "ask-once", "nap-once"]


@pytest.mark.parametrize("seconds", [200, 2_000])
def test_an_exact_run_is_woken_at_its_instant(seconds: int) -> None:
    world = Parking()
    run = world.scheduler.submit("nap-exact", seconds, delay=10)
    world.live(HOUR)
    assert world.row(run.id).leased_at == NOON + (10 + seconds) * 1_000


@pytest.mark.parametrize("size", [60_000, 200_000])
def test_a_woken_run_has_its_payload_from_beside_the_row_or_the_bucket(size: int) -> None:
    world = Parking()

    def careful(ctx: Context, payload: dict[str, str]) -> int:
        ctx.sleep(HOUR)
        return len(payload["text"])

    world.jobs.job("careful")(careful)
    run = world.scheduler.submit("careful", {"text": "x" * size})
    world.live(2 * HOUR)
    assert world.scheduler.get_run(run.id).result == size


def test_a_replay_and_a_redrive_ask_anew_with_children_of_their_own() -> None:
    world = Parking()
    run = world.parked("family", ["ask", "note"])
    for child in [one for one in world.memory.runs(None) if one.parent == run.id and one.job == "ask"]:
        world.scheduler.signal(str(child.ref), "go", 1)
    world.live(30)
    again = world.scheduler.replay_run(run.id)
    world.work()
    row = world.row(again.id)
    assert (row.state, row.wait_no, row.parent) == (RunState.PARKED, 1, None)
    own = [one for one in world.memory.runs(None) if one.parent == again.id]
    assert sorted(one.job for one in own) == ["ask", "note"]


# The audit.


def test_the_auditor_leaves_parked_runs_and_sends_for_those_that_are_overdue() -> None:
    world = Parking()
    ask, nap = world.parked("ask", 5_000), world.parked("nap")
    world.live(60)
    assert world.audit().resent == 0
    for entry in world.entries(EntryKind.RUN):  # as if the timers were lost
        world.services.agenda.remove([entry])
    world.wait(2 * DAY // SECOND)
    assert world.audit(segments=1).overdue == 2
    world.live(60)
    assert world.state(nap) == "SUCCEEDED"
    assert "no signal 'go' came" in (world.scheduler.get_run(ask.id).error or "")


@pytest.mark.parametrize("job", ["ask", "nap", "ask-once"])
def test_a_worker_that_is_told_to_stop_while_a_run_parks_gives_it_back_or_has_parked_it(job: str) -> None:
    world = Parking()
    released = list[bool]()

    def stops() -> None:
        released.extend(release_run(worker, ticket) for ticket in worker.heartbeat.all())

    faults = Faults().at("park", before=stops)
    worker = world.worker(faults)
    run = world.scheduler.submit(job)
    world.work(worker)
    world.scheduler.signal(run.id, "go", 1)
    world.live(2 * HOUR)
    assert released == [job != "ask-once"]
    assert world.state(run) == "SUCCEEDED"


def test_a_timer_stays_while_its_run_has_not_parked_yet() -> None:
    """A worker may be slow between its timer and its park."""
    world = Parking()
    run = world.scheduler.submit("ask")

    def slowly() -> None:
        world.wait(90)
        world.tick()
        left.extend(str(entry.run) for entry in world.entries(EntryKind.RUN))

    left = list[str]()
    world.work(world.worker(Faults().at("park", before=slowly)))
    assert (left, world.state(run)) == ([run.id], "PARKED")


def test_a_tick_says_how_long_the_runs_that_it_checks_have_waited() -> None:
    world, ages = Parking(), list[tuple[str, int]]()
    world.parked("ask")
    world.parked("nap")  # nobody checks it
    world.parked("family", ["ask"])
    for _ in range(3 * HOUR // 60):
        world.wait(60)
        ages += world.tick().handled.waits.checks
        world.work()
    assert {kind for kind, _ in ages} == {"signal", "children"}
    assert max(age for _, age in ages) > 2 * HOUR * SECOND
    assert len([age for kind, age in ages if kind == "children" and age > 2 * HOUR * SECOND]) in (0, 1), "once an hour"


def test_the_cancellation_of_a_backfill_ends_its_parked_runs_and_a_pause_leaves_them() -> None:
    world = Parking()
    world.scheduler.create_schedule("s", "ask", "rate(1 hour)")
    filled = world.scheduler.backfill(
        "s", world.at + timedelta(hours=-2), world.at, current=True, dry_run=False, concurrency=5
    )
    world.live(130)
    runs = [str(run.ref) for run in world.memory.runs() if run.backfill]
    assert [world.state(run) for run in runs] == ["PARKED", "PARKED"]
    world.scheduler.pause_backfill("s", filled.id or "")
    world.scheduler.signal(runs[0], "go", 1)
    world.live(60)
    assert [world.state(run) for run in runs] == ["SUCCEEDED", "PARKED"]
    world.scheduler.cancel_backfill("s", filled.id or "")
    assert [world.state(run) for run in runs] == ["SUCCEEDED", "CANCELLED"]
