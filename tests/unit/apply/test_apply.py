"""Declarations against a whole installation in memory: what is shown, what is written, what is left alone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from quarterjack import Registry, Rule, Scheduler, ScheduleState
from quarterjack.apply.document import DeclarationFile, read, write
from quarterjack.apply.fields import read_words
from quarterjack.apply.plan import ApplyAction, ApplyPlan
from quarterjack.declare import declaration, schedule
from quarterjack.domain.schedule import Declaration
from quarterjack.errors import ExpressionError, InvalidInput, TooNew
from quarterjack.stores.tables import REVISIONS, SCHEDULES, TableDefinition
from quarterjack.testing import Crash

from tests.support.scenes.world import START, Faults, World, at

MINE = "acme.jobs"
WRITES = (
    *("TransactWriteItems", "PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "BatchExecuteStatement"),
    *("SendMessageBatch", "SendMessage", "PutObject"),
)


def declared(name: str, expression: str = "0 18 * * *", **words: Any) -> Declaration:
    return declaration(place=f"here:{name}", name=name, job=words.pop("job", "note"), expression=expression, **words)


def compared(scheduler: Scheduler, *found: Declaration, **options: Any) -> ApplyPlan:
    return scheduler.compare_declared(found, **{"managed_by": MINE, **options})


def applied(world: World, *found: Declaration, prune: bool = False, **options: Any) -> dict[str, str]:
    """Compare and carry out; what failed."""
    plan = compared(world.scheduler, *found, **options)
    return dict(world.scheduler.carry_out(plan, prune=prune).failed)


def acts(plan: ApplyPlan) -> dict[str, str]:
    return {change.name: str(change.act) for change in plan.changes}


# The diff.


def test_it_creates_updates_and_then_has_nothing_to_do() -> None:
    world = World()
    assert acts(compared(world.scheduler, declared("a"), declared("b"))) == {"a": "create", "b": "create"}
    applied(world, declared("a"), declared("b", tags={"team": "x"}))
    plan = compared(world.scheduler, declared("a", "0 19 * * *", payload=[1]), declared("b", tags={"team": "x"}))
    assert acts(plan) == {"a": "update", "b": "unchanged"}
    (change,) = plan.of(ApplyAction.UPDATE)
    assert change.fields == {"expression": ("0 18 * * *", "0 19 * * *"), "payload": (None, [1])}
    world.scheduler.carry_out(plan)
    found = world.scheduler.get_schedule("a")
    assert (found.expression, found.payload, found.managed_by, found.revision) == ("0 19 * * *", [1], MINE, 2)
    assert world.scheduler.get_schedule("b").revision == 1


def test_what_is_left_out_goes_back_to_its_default() -> None:
    world = World()
    full: dict[str, Any] = {
        "payload": {"a": 1},
        "description": "words",
        "tags": {"team": "x"},
        "timeout": 5,
        "catch_up": "latest",
        "timezone": "Europe/Paris",
    }
    applied(world, declared("a", **full))
    plan = compared(world.scheduler, declared("a"))
    assert set(plan.changes[0].fields) == set(full)
    world.scheduler.carry_out(plan)
    assert acts(compared(world.scheduler, declared("a"))) == {"a": "unchanged"}


@pytest.mark.parametrize(
    "rule",
    [
        Rule(expression="0 9 * * *", jitter=600),
        Rule(expression="rate(1 hour)", max_fires=5),
        Rule(expression="0 9 * * *", also=("0 10 * * *",), exclude=("weekends",), window=60, gap="skip"),
        Rule(expression="0 9 * * *", start=START, end=at(9_000_000)),
    ],
)
def test_what_a_revision_works_out_for_itself_is_no_difference(rule: Rule) -> None:
    world = World()
    found = declaration(place="here", name="a", job="note", expression=rule)
    applied(world, found)
    assert acts(compared(world.scheduler, found)) == {"a": "unchanged"}


def test_numbers_that_python_takes_for_equal_are_different_payloads() -> None:
    world = World()
    applied(world, declared("a", payload={"n": 1}))
    assert acts(compared(world.scheduler, declared("a", payload={"n": True}))) == {"a": "update"}
    assert acts(compared(world.scheduler, declared("a", payload={"n": 1.0}))) == {"a": "update"}


def test_a_large_payload_is_compared_without_being_stored_or_fetched() -> None:
    world, faults = World(), Faults()
    applied(world, declared("a", payload="x" * 100_000))
    plan = compared(world.owner(faults), declared("a", payload="x" * 100_000))
    assert acts(plan) == {"a": "unchanged"}
    assert faults.count("PutObject", "GetObject") == 0
    plan = compared(world.owner(faults), declared("a", payload="y" * 100_000), declared("b", payload="z" * 100_000))
    assert acts(plan) == {"a": "update", "b": "create"}
    assert faults.count(*WRITES) == 0
    world.scheduler.carry_out(plan)
    assert world.scheduler.get_schedule("a").payload == "y" * 100_000


def test_comparing_and_what_is_unchanged_write_nothing() -> None:
    world, faults = World(), Faults()
    found = [declared(f"s{number:03}") for number in range(250)]
    applied(world, *found)
    world.tick()
    plan = compared(world.owner(faults), *found)
    assert plan.count(ApplyAction.UNCHANGED) == 250
    world.owner(faults).carry_out(plan, prune=True)
    assert faults.count(*WRITES) == 0
    assert len(faults.calls) <= 5, "heads in one query, revisions a hundred at a time"


# Whose they are.


def test_what_somebody_else_manages_is_named_and_left_alone() -> None:
    world = World()
    applied(world, declared("theirs"), managed_by="other.jobs")
    world.scheduler.create_schedule("by-hand", "note", "0 18 * * *")
    before = world.memory.heads()
    plan = compared(world.scheduler, declared("theirs", "0 1 * * *"), declared("by-hand", "0 1 * * *"))
    assert acts(plan) == {"theirs": "not owned", "by-hand": "not owned"}
    assert [change.why for change in plan.changes] == [
        "it has no owner; --adopt makes it yours",
        "it is managed by other.jobs",
    ]
    world.scheduler.carry_out(plan, prune=True)
    assert world.memory.heads() == before


def test_what_nobody_manages_is_taken_over_if_asked_what_others_manage_never() -> None:
    world = World()
    world.scheduler.create_schedule("by-hand", "note", "0 18 * * *")
    applied(world, declared("theirs"), managed_by="other.jobs")
    both = [declared("by-hand"), declared("theirs")]
    plan = compared(world.scheduler, *both, adopt=True)
    assert acts(plan) == {"by-hand": "update", "theirs": "not owned"}
    world.scheduler.carry_out(plan)
    assert world.scheduler.get_schedule("by-hand").managed_by == MINE
    assert world.scheduler.get_schedule("by-hand").revision == 1, "its definition stays"
    assert acts(compared(world.scheduler, *both))["by-hand"] == "unchanged"


def test_only_what_is_owned_and_no_longer_declared_is_pruned_and_only_if_asked() -> None:
    world = World()
    applied(world, declared("a"), declared("old"))
    applied(world, declared("theirs"), managed_by="other.jobs")
    world.scheduler.create_schedule("by-hand", "note", "0 18 * * *")
    plan = compared(world.scheduler, declared("a"))
    assert acts(plan) == {"a": "unchanged", "old": "prune"}
    world.scheduler.carry_out(plan)
    assert world.scheduler.get_schedule("old").state is ScheduleState.ACTIVE
    world.scheduler.carry_out(plan, prune=True)
    left = {head.name for head in world.memory.heads() if head.state is not ScheduleState.DELETED}
    assert left == {"a", "theirs", "by-hand"}
    assert acts(compared(world.scheduler, declared("a"))) == {"a": "unchanged"}


def test_a_deleted_schedule_is_created_again() -> None:
    world = World()
    applied(world, declared("a"))
    world.scheduler.delete_schedule("a")
    assert acts(compared(world.scheduler, declared("a"))) == {"a": "create"}
    assert applied(world, declared("a")) == {}
    assert world.scheduler.get_schedule("a").revision == 2


def test_without_an_owner_nothing_is_ever_pruned() -> None:
    world = World()
    applied(world, declared("a"), managed_by=None)
    assert acts(compared(world.scheduler, managed_by=None)) == {}
    assert acts(compared(world.scheduler, declared("a", "0 1 * * *"), managed_by=None)) == {"a": "update"}


# What cannot be.


def test_a_job_that_is_not_registered_is_named_is_not_pruned_and_stops_nobody() -> None:
    world = World()
    jobs = Registry()
    applied(world, declared("gone"))

    @schedule("0 9 * * *", registry=jobs)
    def orphan(ctx: object, payload: object) -> None: ...

    found = [declared("gone", job="no.such.job"), *jobs.declared(), declared("fine"), declared("q", queue="no-queue")]
    plan = compared(world.scheduler, *found)
    refused = {change.name: change.why for change in plan.of(ApplyAction.REFUSED)}
    assert set(refused) == {"gone", jobs.declared()[0].place, "q"}
    assert "job='no.such.job': is not registered" in refused["gone"]
    assert "is not registered as a job" in refused[jobs.declared()[0].place]
    assert "queue='no-queue': is not declared" in refused["q"]
    done = world.scheduler.carry_out(plan, prune=True)
    assert (done.done, done.failed) == (1, {})
    assert {head.name for head in world.memory.heads() if head.state is ScheduleState.ACTIVE} == {"gone", "fine"}


def test_two_declarations_of_one_name_are_refused() -> None:
    world = World()
    plan = compared(world.scheduler, declared("a"), declared("a", "0 1 * * *"))
    assert acts(plan) == {"a": "refused"}


def test_one_that_fails_does_not_stop_the_others() -> None:
    world = World()
    failed = applied(world, declared("past", "at(2020-01-01T00:00:00)"), declared("z"))
    assert set(failed) == {"past"}
    assert "nothing is due" in failed["past"]
    assert world.scheduler.get_schedule("z").state is ScheduleState.ACTIVE


# Paused.


def test_what_is_declared_paused_never_starts_from_its_first_instant_on() -> None:
    world = World()
    applied(world, declared("a", "* * * * *", paused=True))
    assert world.scheduler.get_schedule("a").state is ScheduleState.PAUSED
    world.live(300)
    assert world.started == []
    assert world.memory.entries() == []
    assert acts(compared(world.scheduler, declared("a", "* * * * *", paused=True))) == {"a": "unchanged"}
    assert not any(vars(world.audit()).values())


def test_whether_it_is_paused_is_its_owners_business_unless_it_is_declared() -> None:
    world = World()
    applied(world, declared("a", "* * * * *"))
    world.scheduler.pause_schedule("a")
    assert acts(compared(world.scheduler, declared("a", "* * * * *"))) == {"a": "unchanged"}
    applied(world, declared("a", "*/2 * * * *"))
    assert world.scheduler.get_schedule("a").state is ScheduleState.PAUSED
    applied(world, declared("a", "*/2 * * * *", paused=False))
    assert world.scheduler.get_schedule("a").state is ScheduleState.ACTIVE
    applied(world, declared("a", "*/3 * * * *", paused=True))
    found = world.scheduler.get_schedule("a")
    assert (found.state, found.expression) == (ScheduleState.PAUSED, "*/3 * * * *")
    assert acts(compared(world.scheduler, declared("a", "*/3 * * * *", paused=False))) == {"a": "update"}


# Races and crashes.


def test_who_comes_between_the_diff_and_the_change_wins_and_is_named() -> None:
    world = World()
    applied(world, declared("a"), declared("old"), declared("b"))
    plan = compared(world.scheduler, declared("a", "0 1 * * *"), declared("b", "0 1 * * *"), declared("new"))
    world.scheduler.update_schedule("a", expression="0 2 * * *")
    world.scheduler.update_schedule("old", expression="0 2 * * *")
    world.scheduler.create_schedule("new", "note", "0 2 * * *")
    done = world.scheduler.carry_out(plan, prune=True)
    assert set(done.failed) == {"a", "old", "new"}
    assert "revision 2 is current" in done.failed["a"]
    expressions = {name: world.scheduler.get_schedule(name).expression for name in ("a", "old", "b", "new")}
    assert expressions == {"a": "0 2 * * *", "old": "0 2 * * *", "b": "0 1 * * *", "new": "0 2 * * *"}


def test_what_another_did_by_the_same_plan_meanwhile_has_not_failed() -> None:
    world = World()
    applied(world, declared("a"), declared("old"))
    wanted = (declared("a", "0 1 * * *", payload=[1]), declared("new"))
    plan = compared(world.scheduler, *wanted)
    assert applied(world, *wanted, prune=True) == {}
    before = world.memory.heads()
    done = world.scheduler.carry_out(plan, prune=True)
    assert dict(done.failed) == {}
    assert world.memory.heads() == before


def test_two_that_apply_at_once_both_succeed() -> None:
    world = World()
    wanted = [declared(f"s{number}") for number in range(20)]
    plans = [compared(world.scheduler, *wanted) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(world.scheduler.carry_out, plans))
    assert [dict(one.failed) for one in done] == [{}] * 4
    assert sum(one.done for one in done) == 20
    assert {head.revision for head in world.memory.heads()} == {1}


def test_the_same_again_finishes_what_a_crash_left_wherever_it_struck() -> None:
    before = [declared("a", "* * * * *"), declared("b"), declared("old")]
    after = [declared("a", "*/2 * * * *", paused=True), declared("b", "0 1 * * *"), declared("c", paused=True)]
    calls = Faults()
    world = World()
    applied(world, *before)
    world.owner(calls).carry_out(compared(world.scheduler, *after), prune=True)
    steps = len(calls.calls)
    wanted = _told(world)
    assert steps > 10
    for step in range(steps):
        for when in ("before", "after"):
            world = World()
            applied(world, *before)
            faults = _at_call(step, when)
            plan = compared(world.scheduler, *after)
            with pytest.raises(Crash):
                world.owner(faults).carry_out(plan, prune=True)
            applied(world, *after, prune=True)
            assert _told(world) == wanted, f"{when} call {step}"
            assert set(acts(compared(world.scheduler, *after)).values()) == {"unchanged"}


def _told(world: World) -> list[tuple[str, str, str, str | None]]:
    return [(head.name, head.state, head.expression, head.managed_by) for head in world.memory.heads()]


class _Dies(Faults):
    def __init__(self, step: int, when: str) -> None:
        super().__init__()
        self.left, self.when = step, when

    def before_call(self, operation: str, detail: Any) -> Any:
        if self.left == 0 and self.when == "before":
            raise Crash
        return super().before_call(operation, detail)

    def after_call(self, operation: str, detail: Any) -> None:
        self.left -= 1
        if self.left == -1 and self.when == "after":
            raise Crash


def _at_call(step: int, when: str) -> Faults:
    return _Dies(step, when)


# Export.


def test_what_is_exported_is_applied_without_a_change() -> None:
    world = World()
    world.scheduler.create_schedule("by-hand", "note", ["0 9 * * *", "0 10 * * *"], payload={"on": "on", "n": [1, 2.5]})
    rule = Rule(expression="0 9 * * *", timezone="Europe/Paris", jitter=60, end=at(9_000_000), exclude=("weekends",))
    found = [
        declaration(
            place="x", name="a", job="note", expression=rule, tags={"b": "1", "a": "2"}, retry=None, timeout=5.5
        ),
        declared("b", payload="multi\nline\n  text\n", description="a: b # c", overlap="skip", start="exact"),
        declared("c", paused=True, payload=None, catch_up_window=60),
        declared("d", payload={"n": 1e300, "s": "1e3", "t": "2026-01-01", "u": "é\u2028ü", "big": "x" * 70_000}),
    ]
    applied(world, *found)
    applied(world, declared("theirs"), managed_by="other.jobs")
    world.scheduler.create_schedule("soon", "note", "at(2026-05-04T12:00:30)")
    world.live(120)
    assert world.scheduler.get_schedule("soon").state is ScheduleState.COMPLETED
    text = write(
        DeclarationFile(declarations=(), managed_by=owner, words=words)
        for owner, words in world.scheduler.export_declared().items()
    )
    documents = read(text, "export.yaml")
    assert [document.managed_by for document in documents] == [None, MINE, "other.jobs"]
    for document in documents:
        plan = compared(world.scheduler, *document.declarations, managed_by=document.managed_by)
        assert set(acts(plan).values()) == {"unchanged"}, list(plan.changes)
    assert sum(len(document.declarations) for document in documents) == 7


def test_an_export_of_a_prefix() -> None:
    world = World()
    applied(world, declared("team/a"), declared("other"))
    assert list(world.scheduler.export_declared(prefix="team/")[MINE]) == ["team/a"]


def test_words_that_are_read_say_what_was_written() -> None:
    words = {"job": "j", "expression": "0 9 * * *", "timezone": "UTC", "rule": {"start": "2026-01-01T00:00:00.500Z"}}
    found = read_words("a", words, "here")
    assert found.rule.start is not None
    assert found.rule.start.microsecond == 500_000
    with pytest.raises(InvalidInput, match=r"rule\.start='tomorrow': is not a date and time"):
        read_words("a", words | {"rule": {"start": "tomorrow"}}, "here")
    with pytest.raises(ExpressionError, match=r"rule\.window"):
        read_words("a", words | {"rule": {"window": -1}}, "here")


# What a later release wrote.


TENANT = World().scheduler.tenant
NEWER: dict[str, tuple[TableDefinition, tuple[str, str | int]]] = {
    "head": (SCHEDULES, (TENANT, "b")),
    "revision": (REVISIONS, (f"{TENANT}/b", 1)),
}


def with_a_newer(what: str) -> World:
    """Three schedules, of which a later release wrote the head or the revision of ``b``."""
    world = World()
    applied(world, declared("a"), declared("b"), declared("c"))
    table, key = NEWER[what]
    rows = world.memory._tables[table]
    row = rows.get(*key)
    assert row is not None
    rows.put(*key, row | {"v": 2})
    return world


@pytest.mark.parametrize("what", NEWER)
def test_an_export_leaves_nothing_out(what: str) -> None:
    world = with_a_newer(what)
    with pytest.raises(
        TooNew, match=f"1 schedules cannot be read: {'schedule' if what == 'head' else what} {TENANT}/b"
    ):
        world.scheduler.export_declared()
    assert list(world.scheduler.export_declared(prefix="a")[MINE]) == ["a"]


@pytest.mark.parametrize("what", NEWER)
def test_a_comparison_refuses_what_it_cannot_read_and_the_rest_goes_on(what: str) -> None:
    world = with_a_newer(what)
    plan = compared(world.scheduler, declared("a", "0 19 * * *"), declared("b"))
    assert acts(plan) == {"a": "update", "b": "refused", "c": "prune"}
    assert f"{TENANT}/b" in str(plan.changes[1].why)
    assert "reads up to 1" in str(plan.changes[1].why)


def test_a_listing_names_what_it_cannot_read() -> None:
    world = with_a_newer("head")
    page = world.scheduler.list_schedules()
    assert ([found.name for found in page.items], list(page.unreadable)) == (["a", "c"], ["b"])
    first = world.scheduler.list_schedules(limit=1)
    assert ([found.name for found in first.items], list(first.unreadable)) == (["a"], [])
    rest = world.scheduler.list_schedules(limit=1, cursor=first.cursor)
    assert ([found.name for found in rest.items], list(rest.unreadable)) == (["c"], ["b"])
