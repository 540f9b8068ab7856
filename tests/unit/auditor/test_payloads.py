"""Large payloads of single runs: there as long as anybody may need them, and not much longer."""

from __future__ import annotations

from datetime import timedelta

import pytest
from quarterjack import Context, Run, RunState
from quarterjack.auditor.run_walks import remove_payloads
from quarterjack.domain.names import parse_run_id
from quarterjack.domain.payload import is_in_folder_of, is_same_content, owner_of_object, payload_key
from quarterjack.domain.times import DAY, SECOND
from quarterjack.errors import AlreadyExists
from quarterjack.stores.tables import RUNS

from tests.support.scenes.world import OWNER, Faults, World

LARGE = {"text": "x" * 70_000}
RETENTION = 90 * DAY // SECOND


def days(world: World, count: int) -> None:
    """Audits of the whole ledger, one a week; nothing else happens."""
    for _ in range(count // 7):
        world.wait(7 * DAY // SECOND)
        assert world.audit(segments=1, removes=True).failed == 0


def forget(world: World, run: Run) -> None:
    """Its retention is over."""
    ref = parse_run_id(run.id)
    world.memory._tables[RUNS].delete(ref.owner, ref.key)


def keys(world: World) -> set[str]:
    return set(world.memory._payloads)


def own(world: World, run: Run) -> set[str]:
    return {key for key in keys(world) if owner_of_object(key) == parse_run_id(run.id)}


def test_the_payload_of_a_run_goes_with_its_row_and_shared_ones_stay() -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "0 0 1 1 *", payload=LARGE)
    one, other = world.scheduler.submit("note", LARGE), world.scheduler.submit("note", LARGE)
    triggered = world.scheduler.trigger("s", payload=LARGE)
    world.live(1)
    runs = (one, other, triggered)
    assert [len(own(world, run)) for run in runs] == [1, 1, 1]
    assert len(world.started) == 3
    days(world, 140)
    assert [len(own(world, run)) for run in runs] == [1, 1, 1], "they are in the ledger"
    forget(world, one)
    forget(world, triggered)
    assert world.audit(segments=1, removes=True).removed == 2
    assert [len(own(world, run)) for run in runs] == [0, 1, 0]
    assert world.scheduler.get_run(other.id).payload == LARGE
    assert world.scheduler.get_schedule("s").payload == LARGE


@pytest.mark.parametrize(("wait", "length"), [("due", 3 * 365), ("frozen", 365)])
def test_a_run_that_waits_for_years_has_its_payload(wait: str, length: int) -> None:
    world, seen = World(), list[object]()

    @world.jobs.job("late")
    def late(ctx: Context, payload: object) -> None:
        seen.append(payload)

    run = world.scheduler.submit("late", LARGE, delay=length * 86_400 if wait == "due" else 0)
    if wait == "frozen":
        world.scheduler.freeze(world.now() + timedelta(days=length))
    days(world, length)
    world.wait(8 * 86_400)
    world.audit(segments=1, removes=True)
    world.live(600)
    assert world.scheduler.get_run(run.id).state is RunState.SUCCEEDED
    assert seen == [LARGE]


def test_a_replay_has_a_payload_of_its_own() -> None:
    world = World()
    original = world.scheduler.submit("bad", LARGE)
    world.live(600)
    (dead,) = world.scheduler.list_dead().items
    world.scheduler.redrive(dead.id)
    (again,) = (run for run in map(world.scheduler.get_run, {str(r.ref) for r in world.memory.runs()}) if run.replay_of)
    days(world, 140)
    forget(world, original)
    assert world.audit(segments=1, removes=True).removed == 1
    assert (own(world, original), len(own(world, again))) == (set(), 1)
    assert world.scheduler.get_run(again.id).payload == LARGE


def test_a_repeated_call_finds_its_run_and_what_it_stored_in_vain_goes_with_it() -> None:
    world = World()
    runs = [world.scheduler.submit("note", LARGE, idempotency_key="k") for _ in range(2)]
    assert runs[0].id == runs[1].id
    with pytest.raises(AlreadyExists, match="another payload_ref"):
        world.scheduler.submit("note", {**LARGE, "more": 1}, idempotency_key="k")
    with pytest.raises(AlreadyExists, match="another payload"):
        world.scheduler.submit("note", 1, idempotency_key="k")
    assert len(own(world, runs[0])) == 3
    world.live(1)
    days(world, 140)
    forget(world, runs[0])
    assert world.audit(segments=1, removes=True).removed == 3


def test_nothing_is_removed_that_is_young_or_whose_run_was_not_read() -> None:
    world = World()
    run = world.scheduler.submit("note", LARGE)
    forget(world, run)  # as if its submitter had only begun
    world.wait(RETENTION)
    assert world.audit(segments=1, removes=True).removed == 0
    world.wait(2 * 86_400)
    unread = world.process(Faults().at("look", throttle={0}, times=None))
    assert [count for _, count in remove_payloads(unread, world.clock)] == [0]
    assert len(own(world, run)) == 1
    assert [count for _, count in remove_payloads(world.services, world.clock)] == [1]


def test_an_audit_on_some_machine_removes_nothing() -> None:
    """Its settings may name the bucket of another installation, whose runs are not in its tables."""
    world = World()
    run = world.scheduler.submit("note", LARGE)
    forget(world, run)
    world.wait(RETENTION + 2 * 86_400)
    assert world.audit(segments=1).removed == 0
    assert len(own(world, run)) == 1


def test_an_audit_without_time_goes_on_where_it_stopped() -> None:
    world = World()
    runs = [world.scheduler.submit("note", LARGE) for _ in range(250)]
    for run in runs:
        forget(world, run)
    world.wait(RETENTION + 2 * 86_400)

    def slow() -> None:
        world.wait(10)

    counts = []
    for _ in range(9):
        services = world.process(Faults().at("remove", after=slow, times=None))
        counts.append(world.audit(services, segments=1, removes=True, budget=9 * SECOND).removed)
    assert [count for count in counts if count] == [100, 100, 50]
    assert keys(world) == set()


_RUN = "acme%2F~x%23once"
HOSTILE = (
    *(f"payloads/acme/runs/{_RUN}/a/b", f"payloads/acme/runs/{_RUN}", f"payloads/acme/walks/{_RUN}/x"),
    *("payloads/acme/runs/../x", "payloads//runs/x/y", f"payloads/other/runs/{_RUN}/x", "payloads/acme/runs/garbage/x"),
)


@pytest.mark.parametrize("key", HOSTILE)
def test_a_key_that_is_not_made_here_names_no_run(key: str) -> None:
    assert owner_of_object(key) is None
    assert not is_in_folder_of(key, "acme")


def test_keys_of_runs() -> None:
    ref = parse_run_id(f"{OWNER}/a:b@c#{'0' * 15}~trigger-{'f' * 32}")
    key, again = (payload_key(ref, "text") for _ in range(2))
    assert owner_of_object(key) == owner_of_object(again) == ref
    assert key != again, "what is being removed is not what is being stored"
    assert is_same_content(key, again)
    assert is_same_content(key, payload_key(OWNER, "text"))
    assert not is_same_content(key, payload_key(ref, "other"))
    assert not is_same_content(key, None)
    assert is_in_folder_of(key, "acme")
    assert not is_in_folder_of(key, "other")
    longest = parse_run_id(f"{'t' * 64}/{'/' * 200}#{'0' * 15}~trigger-{'f' * 32}")
    assert len(payload_key(longest, "text")) <= 1_024
    assert len(payload_key(longest.owner, "text")) <= 1_024


@pytest.mark.parametrize("name", ["a", "a/b", "a:b@c.d-e_f", "schedules/x", "runs/x", "..", "%2F"[1:]])
def test_keys_of_schedules(name: str) -> None:
    key = payload_key(f"acme/{name}", "text")
    assert owner_of_object(key) == f"acme/{name}"
    assert is_in_folder_of(key, "acme")
    assert not is_in_folder_of(key, "acm")
