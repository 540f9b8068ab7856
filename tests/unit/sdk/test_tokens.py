"""Client tokens: the same call again returns what the first did, whatever happened in between, to it or to the schedule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from quarterjack import Retry, RunState, Scheduler, ScheduleState
from quarterjack.errors import AlreadyExists, InvalidInput, Unavailable
from quarterjack.testing import Crash

from tests.support.scenes.world import NOON, Faults, World, crash, fails

DAY = 86_400
Call = Callable[[Scheduler], Any]


def create(owner: Scheduler, **changes: Any) -> Any:
    retry = Retry(retry_on={OSError, ValueError})  # type: ignore[arg-type]
    given: dict[str, Any] = {"payload": {"a": 1}, "retry": retry, "client_token": "t"}
    return owner.create_schedule("s", "note", "*/30 * * * *", **(given | changes))


CHANGES: list[Call] = [
    lambda owner: owner.update_schedule("s", payload=2, client_token="u"),
    lambda owner: owner.upsert_schedule("s", "note", "0 9 * * *", client_token="u"),
    lambda owner: owner.pause_schedule("s", reason="n", client_token="u"),
    lambda owner: owner.delete_schedule("s", client_token="u"),
]


def test_a_second_creation_is_the_first_also_after_the_schedule_moved_on() -> None:
    world = World()
    first = create(world.scheduler)
    world.scheduler.update_schedule("s", payload=2)
    assert create(world.scheduler) == first
    world.scheduler.delete_schedule("s")
    assert create(world.scheduler) == first
    assert world.memory.heads()[0].state is ScheduleState.DELETED, "it was not created again"


@pytest.mark.parametrize("call", CHANGES)
def test_a_change_is_made_once(call: Call) -> None:
    world = World()
    create(world.scheduler)
    first = call(world.scheduler)
    before = world.memory.heads()
    assert call(world.scheduler) == first
    assert world.memory.heads() == before


def test_what_found_nothing_to_change_does_nothing_later_either() -> None:
    world = World()
    create(world.scheduler)
    world.scheduler.resume_schedule("s", client_token="u")
    world.scheduler.pause_schedule("s")
    world.scheduler.resume_schedule("s", client_token="u")
    assert world.scheduler.get_schedule("s").state is ScheduleState.PAUSED


@pytest.mark.parametrize(
    "other",
    [
        lambda owner: create(owner, payload={"a": 2}),
        lambda owner: create(owner, retry=None),
        lambda owner: create(owner, catch_up="none"),
        lambda owner: owner.create_schedule("other", "note", "*/30 * * * *", client_token="t"),
        lambda owner: owner.pause_schedule("s", client_token="t"),
    ],
)
def test_a_token_stands_for_one_call(other: Call) -> None:
    world = World()
    create(world.scheduler)
    before = world.memory.heads()
    with pytest.raises(AlreadyExists, match=r"client_token='t'.*create_schedule\('s'\).*use a new token"):
        other(world.scheduler)
    assert world.memory.heads() == before


@pytest.mark.parametrize("token", ["", "a b", 7, "x" * 201])
def test_a_token_is_a_short_text(token: Any) -> None:
    with pytest.raises(InvalidInput, match="client_token"):
        create(World().scheduler, client_token=token)


def test_a_token_is_forgotten_after_a_day_and_may_be_used_again() -> None:
    world = World()
    create(world.scheduler)
    world.wait(DAY - 1)
    create(world.scheduler)
    world.wait(2)
    with pytest.raises(AlreadyExists, match="has a schedule of that name"):
        create(world.scheduler)
    world.scheduler.delete_schedule("s")
    again = create(world.scheduler)
    assert again.revision == 2
    assert create(world.scheduler) == again, "its record was there still, and is replaced"


def test_tokens_are_a_tenants_own() -> None:
    world = World()
    create(world.scheduler)
    other = Scheduler("other", jobs=world.jobs, services=world.process(), clock=world.clock)
    assert create(other).tenant == "other"


def test_a_refused_call_may_be_made_again() -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "0 9 * * *")
    with pytest.raises(AlreadyExists):
        create(world.scheduler)
    world.scheduler.delete_schedule("s")
    assert create(world.scheduler).revision == 2


# Whatever happens at the transaction, the call is made once.


@pytest.mark.parametrize("verb", ["arm", "head", "record"])
@pytest.mark.parametrize("end", ["before", "after"])
@pytest.mark.parametrize("how", [crash, fails])
def test_a_creation_that_ended_anywhere_is_made_once_in_all(verb: str, end: str, how: Callable[[], None]) -> None:
    world = World()
    hook = Faults().at(verb, **{end: how}, times=None)
    with pytest.raises((Crash, Unavailable)):
        create(world.owner(hook))
    created = create(world.scheduler)
    assert (created.revision, len(world.memory.heads()), len(world.memory.revisions("acme/s"))) == (1, 1, 1)
    assert create(world.scheduler) == created


@pytest.mark.parametrize("call", CHANGES)
def test_one_that_died_before_its_sweep_is_finished_by_the_second(call: Call) -> None:
    """The first call made the change and died before it took the claimed run back; the second one does, and returns only then."""
    world = World()
    world.scheduler.create_schedule("s", "note", "* * * * *")
    world.live(1)
    assert [run.state for run in world.memory.runs()][:1] == [RunState.QUEUED]
    verb = "arm" if call in CHANGES[:2] else "close"
    with pytest.raises(Crash):
        call(world.owner(Faults().at(verb, after=crash)))
    call(world.scheduler)
    queued = [run for run in world.memory.runs() if run.state is RunState.QUEUED]
    assert [run for run in queued if run.revision == 1] == []


def test_two_with_one_token_at_once_are_one() -> None:
    world = World()
    meanwhile = Faults().at("arm", before=lambda: create(world.scheduler))
    assert create(world.owner(meanwhile)) == create(world.scheduler)
    assert len(world.memory.revisions("acme/s")) == 1
    assert world.clock() == NOON
