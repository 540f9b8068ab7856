"""A child and an item of a map are checked, and get queue and priority of their job, as a run that a Scheduler submits."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from quarterjack import Context, Registry, Tenants
from quarterjack.daemon.worker_record import job_sets
from quarterjack.errors import InvalidInput
from quarterjack.owner.catalogue import CataloguePublisher

from tests.support.scenes.world import World

SUBMIT = {
    "child": lambda ctx, job, payload, **how: ctx.submit(job, payload, step="c", **how),
    "map": lambda ctx, job, payload, **how: ctx.map(job, [payload], **how),
}


@dataclass
class Order:
    id: str


def typed(ctx: Context, payload: Order) -> None: ...


def plain(ctx: Context, payload: object) -> None: ...


def even(payload: int) -> None:
    if payload % 2:
        raise ValueError("give an even number")


def elsewhere(world: World) -> None:
    """Jobs of another package, whose workers have published them. The worker of the test does not have them."""
    jobs = Registry()
    jobs.job("other.typed")(typed)
    jobs.job("other.slow", queue="slow", priority="low")(plain)
    CataloguePublisher(world.services, lambda now: job_sets(jobs, now)).publish(world.clock())


@pytest.mark.parametrize("submit", SUBMIT.values(), ids=SUBMIT)
@pytest.mark.parametrize(
    ("job", "payload", "how", "field"),
    [
        ("typed", {"id": 1}, {}, "{}.id"),
        ("typed", {"id": "a", "nmae": "b"}, {}, "{}.nmae"),
        ("other.typed", {"id": 1}, {}, "{}.id"),
        ("even", 3, {}, "{}"),
        ("note", 1, {"queue": "nowhere"}, "queue"),
        ("note", 1, {"priority": "high"}, "priority"),
    ],
)
def test_what_a_submission_is_refused_for_a_child_is(
    submit: Callable[..., object], job: str, payload: Any, how: dict[str, Any], field: str
) -> None:
    world, caught = World(), list[InvalidInput]()
    elsewhere(world)
    Tenants(services=world.services, clock=world.clock).create("acme", limits={"highest_priority": "normal"})
    world.jobs.job("typed")(typed)
    world.jobs.job("even", check=even)(plain)

    @world.jobs.job("parent")
    def parent(ctx: Context, given: object) -> None:
        with pytest.raises(InvalidInput) as refused:
            submit(ctx, job, payload, **how)
        caught.append(refused.value)

    run = world.scheduler.submit("parent")
    world.live(60)
    assert world.scheduler.get_run(run.id).state == "SUCCEEDED", world.scheduler.get_run(run.id).error
    assert caught[0].field == field.format("items[0]" if submit is SUBMIT["map"] else "payload")
    assert caught[0].remedy
    assert world.memory.entries() == [], "nothing of the child is left"


@pytest.mark.parametrize("submit", SUBMIT.values(), ids=SUBMIT)
@pytest.mark.parametrize("knows", [True, False], ids=["its job", "a job of other workers"])
def test_a_child_has_queue_and_priority_of_its_job(submit: Callable[..., object], knows: bool) -> None:
    world, name = World(), "other.slow"
    world.memory.add_queue("slow")
    elsewhere(world)
    if knows:
        world.jobs.job(name, queue="slow", priority="low")(plain)

    @world.jobs.job("parent")
    def parent(ctx: Context, given: object) -> None:
        submit(ctx, name, 1)

    run = world.scheduler.submit("parent")
    world.work()
    (child,) = [row for row in world.memory.runs() if row.parent is not None and row.job == name]
    assert child.parent is not None
    assert child.parent.startswith(run.id)
    assert (child.queue, json.loads(child.overrides or "{}").get("priority")) == ("slow", "low")
