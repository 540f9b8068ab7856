"""``@job(check=...)``: a payload that the job could not work with is refused at the call, and nothing is written."""

from __future__ import annotations

from typing import Any

import pytest
from quarterjack import Registry, Scheduler
from quarterjack.errors import InvalidInput

from tests.support.scenes.world import START, World


def needs_a_name(payload: Any) -> None:
    if not isinstance(payload, dict) or "name" not in payload:
        raise ValueError("name is missing")


@pytest.fixture
def world() -> World:
    made = World(at=START)
    made.jobs = Registry()
    made.jobs.job("greet", check=needs_a_name)(made.note)
    made.jobs.job("any")(made.note)
    return made


def test_every_way_in_asks_the_job(world: World) -> None:
    owner = world.owner()
    owner.create_schedule("s", "greet", "* * * * *", payload={"name": "Ada"})
    owner.create_schedule("other", "any", "* * * * *")
    before = (world.memory.heads(), world.memory.entries(), world.memory.runs())
    for call in (
        lambda: owner.submit("greet", {}),
        lambda: owner.submit("greet"),
        lambda: owner.create_schedule("t", "greet", "* * * * *"),
        lambda: owner.upsert_schedule("s", "greet", "* * * * *", payload={}),
        lambda: owner.update_schedule("s", payload=None),
        lambda: owner.update_schedule("other", job="greet", payload=7),
    ):
        with pytest.raises(InvalidInput, match=r"payload=.*name is missing"):
            call()
    assert (world.memory.heads(), world.memory.entries(), world.memory.runs()) == before
    owner.update_schedule("s", expression="0 * * * *")  # it says nothing of the payload
    owner.update_schedule("s", payload={"name": "Alan"})
    assert owner.get_schedule("s").payload == {"name": "Alan"}


def test_who_does_not_know_the_job_cannot_ask_it(world: World) -> None:
    stranger = Scheduler("acme", jobs=Registry(), services=world.services, clock=world.clock)
    assert stranger.submit("greet", {}).state == "QUEUED"


def test_a_check_that_is_broken_itself_is_not_a_refusal(world: World) -> None:
    world.jobs.job("broken", check=lambda payload: payload["x"])(world.note)
    with pytest.raises(TypeError):
        world.owner().submit("broken")
    assert world.memory.runs() == []
