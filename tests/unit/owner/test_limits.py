"""Limits of tenants at the doors: what is refused and delayed, by whose limit, and what it costs those who have none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from quarterjack import Scheduler
from quarterjack.domain.policies import Retry
from quarterjack.domain.tenants.profile import INSTALLATION
from quarterjack.domain.times import from_ms
from quarterjack.errors import InvalidInput, LimitExceeded, Throttled, Unavailable
from quarterjack.sdk.session import over
from quarterjack.timing import Rule

from tests.support.scenes.limited import impatient, limit
from tests.support.scenes.world import Faults, World, fails


def of_beta(world: World, faults: Faults | None = None) -> Scheduler:
    """Another tenant's owner."""
    services = world.process(faults)
    return Scheduler("beta", jobs=world.jobs, strict=True, services=services, clock=world.clock)


# Schedules and their fires.


def test_a_tenant_has_so_many_schedules() -> None:
    world = World()
    limit(world, schedules=2)
    owner = world.scheduler
    owner.create_schedule("a", "note", "0 9 * * *")
    owner.create_schedule("b", "note", "0 9 * * *")
    with pytest.raises(LimitExceeded, match="schedules=3: tenant 'acme' may have 2") as refused:
        owner.create_schedule("c", "note", "0 9 * * *")
    problem = refused.value
    assert (problem.limit, problem.tenant, problem.value, problem.most) == ("schedules", "acme", 3, 2)
    assert problem.command == "quarterjack tenants set acme --limit schedules=3"
    assert "quarterjack" not in str(problem)
    assert {head.name for head in world.memory.heads()} == {"a", "b"}
    owner.update_schedule("a", expression="0 10 * * *")  # not one more
    owner.pause_schedule("a")
    with pytest.raises(LimitExceeded):
        owner.create_schedule("c", "note", "0 9 * * *")  # a paused one is one
    owner.delete_schedule("a")
    owner.create_schedule("c", "note", "0 9 * * *")  # at once, and
    with pytest.raises(LimitExceeded):
        owner.create_schedule("a", "note", "0 9 * * *")  # its successor is one more again
    of_beta(world).create_schedule("c", "note", "0 9 * * *")


def test_the_fires_of_all_schedules_are_added_up() -> None:
    world = World()
    limit(world, fires_per_hour=70)
    owner = world.scheduler
    owner.create_schedule("a", "note", "* * * * *")
    with pytest.raises(LimitExceeded, match="fires_per_hour=72: tenant 'acme' may have 70"):
        owner.create_schedule("b", "note", "*/5 * * * *")
    owner.create_schedule("b", "note", "*/6 * * * *")
    with pytest.raises(LimitExceeded, match="fires_per_hour=72"):
        owner.update_schedule("b", expression="*/5 * * * *")
    owner.update_schedule("b", payload=1)
    owner.update_schedule("b", expression="*/10 * * * *")
    owner.pause_schedule("a")
    with pytest.raises(LimitExceeded, match="fires_per_hour=78"):
        owner.create_schedule("c", "note", "*/5 * * * *")
    owner.resume_schedule("a")  # for which nobody has taken its place meanwhile
    count = world.services.usage.count("acme")
    assert count is not None
    assert (count.schedules, count.fires_per_hour) == (2, 66)


def test_what_completed_by_itself_frees_its_fires() -> None:
    world = World()
    limit(world, fires_per_hour=1)
    world.scheduler.create_schedule("a", "note", "at(2026-05-04T12:03:00)")
    with pytest.raises(LimitExceeded):
        world.scheduler.create_schedule("b", "note", "0 9 * * *")
    world.live(240)
    world.scheduler.create_schedule("b", "note", "0 9 * * *")
    with pytest.raises(LimitExceeded):
        world.scheduler.update_schedule("a", expression="0 9 * * *")


def test_schedules_from_before_the_limit_count() -> None:
    world = World()
    for name in ("a", "b", "c"):
        world.scheduler.create_schedule(name, "note", "0 9 * * *", tags={"x": "y" * 200})
    dates = tuple(f"2026-12-{day:02}" for day in range(1, 29))
    long = Rule(expression="0 9 * * *", also=tuple(f"{minute} 9 * * *" for minute in range(1, 20)), exclude=dates)
    world.scheduler.create_schedule("long", "note", long)
    limit(world, schedules=5, fires_per_hour=24)
    world.wait(10)
    world.scheduler.create_schedule("d", "note", "0 9 * * *")
    count = world.services.usage.count("acme")
    assert count is not None
    assert (count.schedules, count.fires_per_hour) == (5, 24)
    with pytest.raises(LimitExceeded):
        world.scheduler.create_schedule("e", "note", "0 9 * * *")


def test_of_two_owners_at_once_one_gets_the_last_place() -> None:
    """The other's transaction is refused, though it had seen a place."""
    world, faults = World(), Faults()
    limit(world, schedules=2)
    world.scheduler.create_schedule("a", "note", "0 9 * * *")
    faults.at("arm", before=lambda: world.scheduler.create_schedule("b", "note", "0 9 * * *"))
    with pytest.raises(LimitExceeded):
        world.owner(faults).create_schedule("c", "note", "0 9 * * *")
    assert {head.name for head in world.memory.heads()} == {"a", "b"}


def test_a_count_does_not_overlook_what_is_armed_while_it_reads() -> None:
    world, faults = World(), Faults()
    limit(world, schedules=3)
    world.scheduler.create_schedule("a", "note", "0 9 * * *")
    world.wait(3_700)  # it is taken anew by the next act
    faults.at("put_count", before=lambda: world.scheduler.create_schedule("b", "note", "0 9 * * *"))
    world.owner(faults).create_schedule("c", "note", "0 9 * * *")
    count = world.services.usage.count("acme")
    assert count is not None
    assert count.schedules == 3


def test_at_the_limit_all_who_count_at_once_are_told_of_the_limit() -> None:
    """Each time one of them would store its count, another one has stored its own."""
    world, faults = World(), Faults()
    limit(world, schedules=2)
    world.scheduler.create_schedule("a", "note", "0 9 * * *")
    world.scheduler.create_schedule("b", "note", "0 9 * * *")

    def another() -> None:
        with pytest.raises(LimitExceeded):
            world.scheduler.create_schedule("d", "note", "0 9 * * *")

    faults.at("put_count", before=another, times=None)
    with pytest.raises(LimitExceeded, match="schedules=3: tenant 'acme' may have 2"):
        world.owner(faults).create_schedule("c", "note", "0 9 * * *")


def test_a_place_that_is_free_is_taken_although_others_count_at_once() -> None:
    world, faults = World(), Faults()
    limit(world, schedules=3, fires_per_hour=100)
    world.scheduler.create_schedule("a", "note", "0 9 * * *")
    world.wait(3_700)

    def another() -> None:
        with pytest.raises(LimitExceeded, match="fires_per_hour"):
            world.scheduler.create_schedule("d", "note", "rate(10 seconds)")

    faults.at("put_count", before=another, times=None)
    world.owner(faults).create_schedule("c", "note", "0 9 * * *")
    assert {head.name for head in world.memory.heads()} == {"a", "c"}


def test_a_count_that_is_too_low_is_right_within_the_hour() -> None:
    """As after an act of a process that did not know of the limit yet."""
    world = World()
    limit(world, schedules=2)
    world.scheduler.create_schedule("a", "note", "0 9 * * *")
    world.scheduler.create_schedule("b", "note", "0 9 * * *")
    count = world.services.usage.count("acme")
    assert count is not None
    lost = type(count)(
        tenant="acme", schedules=0, fires_per_hour=0, version=count.version + 1, counted_at=world.clock()
    )
    assert world.services.usage.put_count(lost)
    world.wait(3_600)
    with pytest.raises(LimitExceeded):
        world.scheduler.create_schedule("c", "note", "0 9 * * *")


def test_refusals_of_a_large_tenant_do_not_read_all_its_schedules_each_time() -> None:
    """A millisecond for each beyond a thousand: what deletes have freed is seen 4 s later."""
    world, faults = World(), Faults()
    limit(world, schedules=5_000)
    world.scheduler.create_schedule("a", "note", "0 9 * * *")
    count = world.services.usage.count("acme")
    assert count is not None
    assert world.services.usage.put_count(
        replace(count, schedules=5_000, version=count.version + 1, counted_at=world.clock())
    )
    owner = world.owner(faults)
    for _ in range(10):
        with pytest.raises(LimitExceeded, match="schedules=5,001"):
            owner.create_schedule("b", "note", "0 9 * * *")
    assert "page" not in faults.verbs()
    world.wait(4)
    owner.create_schedule("b", "note", "0 9 * * *")
    assert faults.count("Query") == 1


def test_a_count_that_cannot_be_read_refuses_this_tenant_alone() -> None:
    world, faults = World(), Faults()
    limit(world, schedules=2)
    faults.at("schedule_count", before=fails, times=None)
    with pytest.raises(Unavailable):
        world.owner(faults).create_schedule("a", "note", "0 9 * * *")
    of_beta(world, faults).create_schedule("a", "note", "0 9 * * *")


def test_a_backfill_is_so_large() -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "*/10 * * * *")
    limit(world, backfill_fires=5)
    world.wait(7_200)
    end = world.now()
    for dry_run in (True, False):
        with pytest.raises(LimitExceeded, match="backfill_fires=6: tenant 'acme' may have 5"):
            world.scheduler.backfill("s", end - timedelta(hours=1), end, current=True, dry_run=dry_run)
    world.scheduler.backfill("s", end - timedelta(minutes=50), end, current=True, dry_run=False)


# Rates.

RUNS: dict[str, Callable[[Scheduler, dict[str, str]], object]] = {
    "submit": lambda owner, ids: owner.submit("note"),
    "trigger": lambda owner, ids: owner.trigger("s"),
    "retry_run": lambda owner, ids: owner.retry_run(ids["retrying"]),
    "replay_run": lambda owner, ids: owner.replay_run(ids["ended"]),
    "redrive": lambda owner, ids: owner.redrive(ids["dead"]),
    "redrive of all": lambda owner, ids: owner.redrive(job="bad"),
    "backfill": lambda owner, ids: owner.backfill(
        "s", owner_now(owner) - timedelta(hours=2), owner_now(owner), current=True, dry_run=False
    ),
}
CHANGES: dict[str, Callable[[Scheduler, dict[str, str]], object]] = {
    "create_schedule": lambda owner, ids: owner.create_schedule("new", "note", "0 9 * * *"),
    "upsert_schedule": lambda owner, ids: owner.upsert_schedule("new", "note", "0 9 * * *"),
    "update_schedule": lambda owner, ids: owner.update_schedule("s", payload=1),
    "resume_schedule": lambda owner, ids: owner.resume_schedule("p"),
    "skip_next": lambda owner, ids: owner.skip_next("s"),
    "reschedule": lambda owner, ids: owner.reschedule(ids["waits"], delay=60),
}
FREE: dict[str, Callable[[Scheduler, dict[str, str]], object]] = {
    "pause_schedule": lambda owner, ids: owner.pause_schedule("s"),
    "delete_schedule": lambda owner, ids: owner.delete_schedule("s"),
    "cancel_run": lambda owner, ids: owner.cancel_run(ids["waits"]),
    "purge": lambda owner, ids: owner.purge(ids["dead"]),
    "get_run": lambda owner, ids: owner.get_run(ids["waits"]),
    "dry run": lambda owner, ids: owner.backfill(
        "s", owner_now(owner) - timedelta(hours=2), owner_now(owner), current=True
    ),
    "freeze": lambda owner, ids: owner.freeze(owner_now(owner) + timedelta(hours=2)),
}


def owner_now(owner: Scheduler) -> Any:
    return from_ms(owner.session.clock())


def prepared() -> tuple[World, dict[str, str]]:
    world = World()
    owner = world.scheduler
    owner.create_schedule("s", "note", "0 * * * *")
    owner.create_schedule("p", "note", "0 * * * *")
    owner.pause_schedule("p")
    ended, waits = owner.submit("note"), owner.submit("note", delay=30_000)
    dead = owner.submit("bad", retry=Retry(max_attempts=1))
    retrying = owner.submit("bad", retry=Retry(max_attempts=3, base=20_000.0))
    world.live(5)
    world.wait(7_200)
    return world, {"ended": ended.id, "waits": waits.id, "dead": dead.id, "retrying": retrying.id}


@pytest.mark.parametrize(
    ("name", "act"),
    [
        *((f"runs: {name}", act) for name, act in RUNS.items()),
        *((f"changes: {name}", act) for name, act in CHANGES.items()),
    ],
)
def test_each_act_takes_one_token_of_its_rate_and_none_of_the_other(
    name: str, act: Callable[[Scheduler, dict[str, str]], object]
) -> None:
    word = name.partition(":")[0]
    world, ids = prepared()
    limit(world, "acme", **{f"{word}_per_second": 0.01})
    owner = impatient(world)
    other = {"runs": RUNS, "changes": CHANGES}[word]
    first = other["submit" if word == "runs" else "resume_schedule"]
    first(owner, ids)
    before = world.memory.runs(), world.memory.heads()
    with pytest.raises(Throttled, match=f"tenant 'acme' is throttled: {word}_per_second=0.01, 1 at once") as refused:
        act(owner, ids)
    assert (world.memory.runs(), world.memory.heads()) == before, "nothing was done"
    problem = refused.value
    assert (problem.limit, problem.tenant) == (f"{word}_per_second", "acme")
    assert (problem.per_second, problem.burst, problem.seconds) == (0.01, 1, 100.0)
    world.wait(problem.seconds)
    act(impatient(world), ids)
    with pytest.raises(Throttled):
        first(impatient(world), ids)
    limit(world, "acme", **{f"{'changes' if word == 'runs' else 'runs'}_per_second": 0.01})
    world.wait(10)
    (impatient(world)).submit("note")


@pytest.mark.parametrize("name", FREE)
def test_what_takes_work_away_or_reads_is_never_throttled(name: str) -> None:
    world, ids = prepared()
    limit(world, runs_per_second=0.001, changes_per_second=0.001)
    owner = impatient(world)
    owner.submit("note")
    owner.resume_schedule("p")
    FREE[name](owner, ids)


def test_a_caller_waits_as_long_as_its_patience_lasts() -> None:
    world = World()
    limit(world, runs_per_second=0.5)
    waited = list[float]()

    def wait(seconds: float) -> None:
        waited.append(seconds)
        world.wait(seconds)

    services = replace(world.memory.connect(), wait=wait)
    owner = Scheduler("acme", jobs=world.jobs, services=services, clock=world.clock, patience=5)
    for _ in range(4):
        owner.submit("note")
    assert waited == [2.0, 2.0, 2.0]
    hasty = Scheduler("acme", jobs=world.jobs, services=services, clock=world.clock, patience=1.5)
    with pytest.raises(Throttled):
        hasty.submit("note")
    assert waited == [2.0, 2.0, 2.0], "a wait that is too long is not begun"
    with pytest.raises(InvalidInput, match="patience=-1"):
        Scheduler("acme", services=services, patience=-1)


def test_the_installation_limits_those_who_have_no_limit_of_their_own() -> None:
    world = World()
    limit(world, INSTALLATION, runs_per_second=0.01, schedules=0)
    limit(world, schedules=1)
    owner = impatient(world)
    owner.create_schedule("a", "note", "0 9 * * *")
    owner.submit("note")
    with pytest.raises(Throttled):
        owner.submit("note")
    of_beta(world).submit("note")
    with pytest.raises(LimitExceeded):
        of_beta(world).create_schedule("a", "note", "0 9 * * *")


def test_a_throttled_redrive_goes_on_where_it_stopped() -> None:
    world = World()
    for _ in range(4):
        world.scheduler.submit("bad", retry=Retry(max_attempts=1))
    world.live(2)
    limit(world, runs_per_second=0.5, runs_burst=3)
    first = impatient(world).redrive(job="bad")
    assert (len(first.runs), first.failed) == (3, {})
    assert first.cursor is not None
    world.wait(2)
    second = impatient(world).redrive(job="bad", cursor=first.cursor)
    assert (len(second.runs), second.cursor) == (1, None)


def test_another_tenants_bucket_that_does_not_answer_changes_nothing() -> None:
    world, faults = World(), Faults()
    limit(world, runs_per_second=0.01)
    limit(world, "beta", runs_per_second=0.01)
    faults.at("lease_tokens", before=fails, times=20)
    down = impatient(world, faults)
    for _ in range(5):
        down.submit("note")
    beta = of_beta(world)
    beta = over(beta, replace(beta.session, patience=0.0))
    beta.submit("note")
    with pytest.raises(Throttled):
        beta.submit("note")


# Costs.

ACTS: dict[str, Callable[[Scheduler], object]] = {
    "create": lambda owner: owner.create_schedule("s", "note", "0 18 * * *"),
    "submit": lambda owner: owner.submit("note"),
    "submit a large payload": lambda owner: owner.submit("note", "x" * 70_000),
}


@pytest.mark.parametrize("limited", ["nobody", "another", "others"])
def test_a_tenant_without_limits_costs_no_request_more(limited: str) -> None:
    """Counted: the requests of an installation in which nobody has a profile, and of one in which others have all limits."""

    def requests(world: World) -> list[tuple[str, str]]:
        faults = Faults()
        owner = world.owner(faults)
        for act in ACTS.values():
            act(owner)
        owner.update_schedule("s", expression="0 19 * * *")
        owner.pause_schedule("s")
        owner.resume_schedule("s")
        return [(operation, detail.verb) for operation, detail in faults.calls]

    plain, world = World(), World()
    if limited != "nobody":
        words = ("runs_per_second", "changes_per_second", "schedules", "fires_per_hour", "waiting_runs", "kept_bytes")
        every = dict.fromkeys(words, 1)
        limit(world, "beta", **every)
    if limited == "others":
        limit(world, INSTALLATION, backfill_fires=10)
    found = requests(world)
    assert found == requests(plain)
    limiting = {
        "lease_tokens",
        "schedule_count",
        "put_count",
        "quota",
        "claim_count",
        "take_quota",
        "put_quota",
        "kept",
    }
    assert not {verb for _, verb in found} & limiting


def test_a_busy_tenant_with_all_limits_writes_once_a_second() -> None:
    world, faults = World(), Faults()
    limit(world, runs_per_second=50, changes_per_second=50, schedules=10, fires_per_hour=1_000)
    owner = world.owner(faults)
    owner.create_schedule("s", "note", "0 18 * * *")
    for _ in range(400):
        owner.submit("note", delay=4_000)
        world.wait(0.025)
    leases = [verb for verb in faults.verbs() if verb == "lease_tokens"]
    assert len(leases) <= 10 * 1.2 + 8, f"{len(leases)} for 400 runs in 10 s"


def test_a_key_that_exists_is_answered_within_the_rate() -> None:
    world = World()
    limit(world, runs_per_second=0.01, runs_burst=2)
    owner = impatient(world)
    first = owner.submit("note", idempotency_key="k")
    assert owner.submit("note", idempotency_key="k").id == first.id
    with pytest.raises(Throttled):
        owner.submit("note", idempotency_key="k")
