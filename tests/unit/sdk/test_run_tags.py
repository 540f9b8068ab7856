"""Tags of runs: given at each way to a run, kept in its row and the history, listed by; and what they cost."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from quarterjack import Scheduler, Submission
from quarterjack.domain.payload import MAX_RUN_TAGS, fitting_tags, size, text_of_tags
from quarterjack.domain.run import RunState
from quarterjack.errors import InvalidInput, Unreadable
from quarterjack.state.before_start import revive, take_over
from quarterjack.stores.rows import run_of, run_row

from tests.support.builders import NOON, a_one_off, a_run
from tests.support.scenes.searched import START, World, parts
from tests.support.units import counted

TAGS = {"customer": "42", "team": "own"}


@pytest.fixture
def world() -> World:
    world = World()
    world.owner.create_schedule("billing/a", "works", "0 0 * * *", tags={"team": "red", "region": "eu"})
    return world


def _submit(owner: Scheduler) -> str:
    return owner.submit("works", tags=TAGS).id


def _submit_all(owner: Scheduler) -> str:
    (item,) = owner.submit_all([Submission("works", tags=TAGS)]).items
    return str(item.run_id)


def _trigger(owner: Scheduler) -> str:
    return owner.trigger("billing/a", tags=TAGS).id


def _replay(owner: Scheduler) -> str:
    original = owner.trigger("billing/a", tags={"customer": "7", "team": "x"})
    owner.cancel_run(original.id)
    return owner.replay_run(original.id, tags=TAGS).id


def _backfill(owner: Scheduler) -> str:
    owner.backfill(
        "billing/a", START - timedelta(days=1), START, current=True, allow_repeat=True, dry_run=False, tags=TAGS
    )
    (run,) = owner.list_runs("billing/a", upcoming=False).items
    return str(run.id)


OF_SCHEDULE = {"region": "eu"}


@pytest.mark.parametrize(
    ("way", "beside"),
    [(_submit, {}), (_submit_all, {}), (_trigger, OF_SCHEDULE), (_replay, OF_SCHEDULE), (_backfill, OF_SCHEDULE)],
    ids=["submit", "submit_all", "trigger", "replay", "backfill"],
)
def test_each_way_to_a_run_gives_it_tags_by_which_it_is_listed(
    world: World, way: Callable[[Scheduler], str], beside: dict[str, str]
) -> None:
    other = world.owner.submit("works", tags={"customer": "43"})
    run_id = way(world.owner)
    world.catch_up()
    waiting = world.owner.get_run(run_id)
    assert (waiting.state, dict(waiting.tags)) == (RunState.QUEUED, TAGS | beside)
    assert [run.id for run in world.owner.list_runs(tag=("customer", "42")).items] == [run_id]
    of_schedule = world.owner.list_runs(waiting.schedule, tag=("customer", "42")).items  # a trigger's from the ledger
    assert [run.id for run in of_schedule] == [run_id]
    world.live(2)
    assert world.owner.get_run(run_id).state is RunState.SUCCEEDED
    (ended,) = world.owner.list_runs(tag=("customer", "42")).items
    assert (ended.id, ended.state, dict(ended.tags)) == (run_id, RunState.SUCCEEDED, TAGS | beside)
    assert (
        world.owner.list_runs(tag=("team", "red"), prefix="billing/", kind="trigger").items == []
    )  # its own goes first
    assert {run.id for run in world.owner.list_runs(tag="customer", state="SUCCEEDED").items} == {run_id, other.id}


def test_a_replay_keeps_the_tags_of_the_original_and_its_schedule(world: World) -> None:
    original = world.owner.trigger("billing/a", tags={"customer": "7", "x": "y"})
    world.live()
    again = world.owner.replay_run(original.id, tags={"x": "z"})
    assert dict(again.tags) == {"customer": "7", "x": "z", "team": "red", "region": "eu"}


def test_a_replay_keeps_as_many_tags_as_fit_into_a_row() -> None:
    many = {f"k{n}": "v" * 100 for n in range(20)}
    kept = fitting_tags({"added": "1"}, {"own": "2", "k0": "mine"}, many)
    assert (kept["added"], kept["own"], kept["k0"]) == ("1", "2", "mine")
    assert len(kept) > 5
    assert size(text_of_tags(kept) or "") <= MAX_RUN_TAGS


def test_a_submission_that_replaces_another_brings_its_tags(world: World) -> None:
    first = world.owner.submit("works", delay=3_600, unique="u", tags={"a": "1", "b": "1"})
    again = world.owner.submit("works", delay=3_600, unique="u", on_duplicate="replace", tags={"a": "2"})
    assert (again.id, dict(again.tags)) == (first.id, {"a": "2"})
    bare = world.owner.submit("works", delay=3_600, unique="u", on_duplicate="replace")
    assert (bare.id, dict(bare.tags)) == (first.id, {})


def test_a_repeated_call_finds_its_run_whatever_its_tags(world: World) -> None:
    first = world.owner.submit("works", idempotency_key="k", tags={"a": "1"})
    again = world.owner.submit("works", idempotency_key="k", tags={"a": "2"})
    assert (again.id, dict(again.tags)) == (first.id, {"a": "1"})


def test_the_tags_of_a_backfill_come_and_go_with_it() -> None:
    claim = a_run(backfill="b", tags=text_of_tags(TAGS))
    assert revive(claim=claim).changes["tags"] == claim.tags
    taken = take_over(revision=2, job="report", not_before=NOON, now=NOON, seen=RunState.QUEUED, backfill="b")
    assert taken.changes["tags"] is None


def test_ended_runs_are_found_page_by_page(world: World) -> None:
    ids = {world.owner.submit("works", tags={"n": str(n % 2)}).id for n in range(9)}
    world.live()
    found = parts(world.owner, 2, tag="n")
    assert (len(found), set(found)) == (9, ids)
    assert len(parts(world.owner, 2, tag=("n", "1"))) == 4


@pytest.mark.parametrize(
    ("tags", "problem"),
    [
        ("a=b", "tags='a=b': is not a dict of fitting size"),
        ({"a": 1}, "tags={'a': 1}: is not a pair of short texts"),
        ({"": "x"}, "is not a pair of short texts"),
        ({"a": "x" * 201}, "is not a pair of short texts"),
        ({str(n): "" for n in range(51)}, "at most 50 pairs"),
        (
            {f"k{n}": "x" * 200 for n in range(5)},
            r"take 1,0\d\d bytes as JSON; use 1,000 bytes at most, or the payload",
        ),
    ],
    ids=["text", "number", "no key", "long", "many", "bytes"],
)
def test_other_tags_are_refused_before_anything_is_written(world: World, tags: Any, problem: str) -> None:
    calls: list[Callable[[], object]] = [
        lambda: world.owner.submit("works", tags=tags),
        lambda: world.owner.trigger("billing/a", tags=tags),
        lambda: world.owner.backfill("billing/a", START - timedelta(days=1), START, tags=tags),
        lambda: world.owner.replay_run("acme/~1#0~x", tags=tags),
    ]
    with counted() as written:
        for call in calls:
            with pytest.raises(InvalidInput, match=problem):
                call()
        (item,) = world.owner.submit_all([Submission("works", tags=tags)]).items
    assert problem.partition(":")[0] in str(item.error) or "tags" in str(item.error)
    assert written == {}


def test_a_run_without_tags_has_no_byte_of_them_and_tags_cost_no_call(world: World) -> None:
    assert "tags" not in run_row(a_one_off())
    with counted() as without:
        world.owner.submit("works", {"a": 1}, delay=3_600)
    with counted() as given:
        world.owner.submit("works", {"a": 1}, delay=3_600, tags=TAGS)
    assert given == without == {"runs": 1, "agenda": 1}


@pytest.mark.parametrize("text", ["{", "[1]", '{"a": 1}', "7"])
def test_a_row_with_other_tags_is_unreadable(text: str) -> None:
    row = run_row(a_one_off())
    assert run_of(row).tags is None
    with pytest.raises(Unreadable):
        run_of({**row, "tags": text})


def test_a_listing_of_one_schedule_shows_a_runs_own_tags(world: World) -> None:
    world.owner.trigger("billing/a", tags=TAGS)
    (run,) = world.owner.list_runs("billing/a").items
    assert dict(run.tags) == TAGS
