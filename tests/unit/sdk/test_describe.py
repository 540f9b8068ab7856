"""Describe: definition, history, fires, runs, and whether a schedule goes on by itself."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from quarterjack import Retry, Rule, RunState
from quarterjack.domain.run import AgendaEntry, EntryKind
from quarterjack.errors import Conflict
from quarterjack.sdk.schedule_views import ScheduleDescription

from tests.support.scenes.world import OWNER, START, Faults, World, at


def scheduled(expression: Any = "* * * * *", **options: Any) -> World:
    world = World()
    world.scheduler.create_schedule("s", "note", expression, **options)
    return world


def described(world: World, hook: Faults | None = None) -> ScheduleDescription:
    return world.owner(hook).describe_schedule("s")


def chain(world: World) -> tuple[str, datetime | None]:
    found = described(world).chain
    assert (found.remedy is None) == (found.state in ("ok", "not needed"))
    return found.state, found.due


def take(world: World) -> AgendaEntry:
    """Lose the chain's entry."""
    (entry,) = world.entries(EntryKind.CHAIN)
    world.services.agenda.remove([entry])
    return entry


# All that is known.


def test_a_description_says_what_there_is() -> None:
    rule = Rule(expression="*/10 * * * *", timezone="Asia/Kolkata", exclude=("weekends",))
    world = scheduled(rule, payload={"n": 1}, tags={"a": "b"}, retry=Retry(max_attempts=2), timeout=9, catch_up="none")
    world.live(1_900)
    found = described(world)
    assert (found.schedule.name, found.schedule.payload, found.schedule.tags) == ("s", {"n": 1}, {"a": "b"})
    definition = found.definition
    assert (definition.job, definition.rule, definition.payload) == ("note", rule, {"n": 1})
    assert definition.policies == {"retry": {"max_attempts": 2}, "timeout": 9}
    assert definition.options == {"catch_up": "none"}
    assert [fire.isoformat() for fire in found.next_fires[:2]] == [
        "2026-05-04T18:10:00+05:30",
        "2026-05-04T18:20:00+05:30",
    ]
    assert len(found.next_fires) == 10
    assert [(run.due, run.state, run.lateness) for run in found.last_runs] == [
        (at(second), RunState.SUCCEEDED, timedelta(0)) for second in (1_800, 1_200, 600)
    ]
    assert found.chain.state == "ok"


def test_the_last_runs_are_ten_and_those_ahead_are_none_of_them() -> None:
    world = scheduled()
    world.live(1_200)
    assert [run.due for run in described(world).last_runs] == [at(second) for second in range(1_200, 600, -60)]


def test_the_history_says_what_changed_when_and_why_it_ended() -> None:
    world = scheduled(payload=1)
    world.wait(60)
    world.scheduler.update_schedule("s", expression="0 9 * * *", timezone="Europe/Berlin", timeout=5)
    world.wait(60)
    world.scheduler.pause_schedule("s")
    world.wait(60)
    world.scheduler.resume_schedule("s")
    world.scheduler.update_schedule("s", payload=2, overlap="skip")
    told = [(r.number, r.active_from, r.active_until, r.closed_by, list(r.changed)) for r in described(world).revisions]
    assert told == [
        (4, at(180), None, None, ["payload", "overlap"]),
        (3, at(180), at(180), "replaced", []),
        (2, at(60), at(120), "paused", ["expression", "timezone", "timeout"]),
        (1, at(0), at(60), "replaced", []),
    ]


def test_of_a_long_history_the_newest_twenty_are_shown_each_with_what_it_changed() -> None:
    world = scheduled("0 9 * * *")
    for number in range(30):
        world.scheduler.update_schedule("s", payload=number)
    revisions = described(world).revisions
    assert [revision.number for revision in revisions] == list(range(31, 11, -1))
    assert {tuple(revision.changed) for revision in revisions} == {("payload",)}


@pytest.mark.parametrize("act", ["pause", "complete"])
def test_what_is_over_needs_no_chain(act: str) -> None:
    world = scheduled("at(2026-05-04T12:01:00)")
    if act == "pause":
        world.scheduler.pause_schedule("s")
    else:
        world.live(120)
    assert chain(world) == ("not needed", None)
    assert described(world).next_fires == []


# Others change it meanwhile.


def replace_it(world: World) -> Callable[[], None]:
    def change() -> None:
        world.scheduler.update_schedule("s", expression="*/3 * * * *")

    return change


@pytest.mark.parametrize("verb", ["revisions", "latest", "history", "due"])
def test_all_of_a_description_is_of_one_instant(verb: str) -> None:
    """Its revision ends between any two of its reads: once the schedule was ACTIVE, with a current revision that had ended."""
    world = scheduled()
    world.wait(60)
    found = described(world, Faults().at(verb, before=replace_it(world)))
    assert (found.schedule.revision, found.schedule.state) == (2, "ACTIVE")
    assert [(one.number, one.active_until) for one in found.revisions] == [(2, None), (1, at(60))]
    assert (found.next_fires[0], found.chain.state) == (at(180), "ok")


@pytest.mark.parametrize("call", ["get_schedule", "preview"])
def test_a_schedule_that_is_shown_as_active_has_next_fires(call: str) -> None:
    world = scheduled()
    world.wait(60)
    found = getattr(world.owner(Faults().at("revisions", before=replace_it(world))), call)("s")
    assert found if call == "preview" else found.next_fires


def test_a_pause_between_two_reads_is_a_pause() -> None:
    world = scheduled()

    def pause() -> None:
        world.scheduler.pause_schedule("s")

    seen = world.owner(Faults().at("revisions", before=pause)).get_schedule("s")
    assert (seen.state, list(seen.next_fires)) == ("PAUSED", [])


def test_a_schedule_that_changes_faster_than_it_is_read_is_a_conflict() -> None:
    world = scheduled()
    numbers = itertools.count()

    def change() -> None:
        world.scheduler.update_schedule("s", payload=next(numbers))

    with pytest.raises(Conflict, match=r"name='s': others changed it 5 times while it was read; try again"):
        described(world, Faults().at("history", before=change, times=99))


def test_a_schedule_whose_rows_contradict_each_other_is_shown_as_it_is() -> None:
    """The auditor reports it; owners must see it."""
    world = scheduled()
    head = world.memory.heads()[0]
    world.scheduler.pause_schedule("s")
    world.services.schedules.close(replace(head, version=3), expected=2, revision=None)
    assert (world.scheduler.get_schedule("s").state, described(world).revisions[0].closed_by) == ("ACTIVE", "paused")


# The chain.


@pytest.mark.parametrize(
    "expression",
    [
        "* * * * *",
        "rate(1 second)",
        "rate(7 seconds)",
        "0 9 1 1 *",
        "*/7 * * * *",
        Rule(expression="0 * * * *", window=600),
    ],
)
def test_a_chain_that_goes_on_is_found(expression: Any) -> None:
    world = scheduled(expression)
    for _ in range(12):
        assert chain(world) == ("ok", at(world.chain()[0]))
        world.tick()
        world.wait(37)


@pytest.mark.parametrize("policy", ["all", "latest", "none"])
@pytest.mark.parametrize("hours", [1, 30])
def test_a_chain_that_is_behind_or_passed_fires_over_is_found(policy: str, hours: int) -> None:
    world = scheduled(catch_up=policy)
    world.tick()
    world.wait(hours * 3_600)
    for _ in range(3):
        assert chain(world)[0] == "ok"
        world.tick()


def test_a_chain_among_many_of_the_same_instant_is_found() -> None:
    world = World()
    for number in range(300):
        world.scheduler.create_schedule(f"s{number}", "note", "0 18 * * *")
    faults = Faults()
    for name in ("s0", "s1", "s150", "s299"):
        assert world.owner(faults).describe_schedule(name).chain.state == "ok"
    assert faults.verbs().count("due") == 4, "one read finds it"


def test_a_description_meets_a_chain_in_the_middle_of_a_step() -> None:
    """The entry moves on after the ledger was read, before the agenda is."""
    world = scheduled("rate(5 seconds)")
    world.wait(500)

    def step() -> None:
        world.tick()
        world.wait(200)
        world.tick()

    assert described(world, Faults().at("due", before=step)).chain.state == "ok"


def test_a_missing_chain_is_told_and_the_audit_puts_it_back() -> None:
    world = scheduled("0 * * * *")
    world.tick()
    lost = take(world)
    assert chain(world) == ("missing", None)
    assert "quarterjack audit" in str(described(world).chain.remedy)
    assert world.audit().rearmed == 1
    assert chain(world) == ("ok", at((lost.due - int(START.timestamp() * 1_000)) // 1_000))


def test_an_entry_of_an_older_revision_is_none_of_the_present_one() -> None:
    world = scheduled("0 * * * *")
    world.scheduler.update_schedule("s", payload=1)
    (entry,) = [entry for entry in world.entries(EntryKind.CHAIN) if entry.id == f"{OWNER}#2"]
    world.services.agenda.remove([entry])
    assert chain(world) == ("missing", None)


def test_an_entry_that_was_moved_aside_is_told() -> None:
    world = scheduled("0 * * * *")
    world.services.agenda.quarantine(world.entries(EntryKind.CHAIN)[0], reason="broken", now=0)
    assert chain(world) == ("quarantined", datetime(2026, 5, 4, 13, tzinfo=UTC))


def test_a_backlog_too_large_to_look_through_is_told() -> None:
    world = scheduled("0 * * * *")
    take(world)
    backlog = [
        AgendaEntry(shard=0, due=1_000_000 + number, kind=EntryKind.CHAIN, id=f"acme/x{number}#1")
        for number in range(10_001)
    ]
    world.services.agenda.put(backlog)
    assert chain(world) == ("unknown", None)
