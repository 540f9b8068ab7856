"""Every act of the SDK by itself: done once it writes its entry, done again it changes nothing and writes none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from quarterjack import Run, Scheduler
from quarterjack.declare import declaration
from quarterjack.domain.audit import AuditAct
from quarterjack.domain.schedule import Declaration
from quarterjack.owner.app_versions import register

from tests.support.scenes.world import World, at

DAILY = "0 0 * * *"
Act = Callable[[Scheduler], object]


def entry(name: str, expression: str = DAILY) -> Declaration:
    return declaration(place=f"here:{name}", name=name, job="note", expression=expression)


@dataclass
class Scene:
    """Two schedules that run now and then, a paused one, runs that wait and runs that failed."""

    def __post_init__(self) -> None:
        self.world = World()
        owner = self.world.owner()
        self.owner = owner.acting_as("alice")
        for name in ("s1", "s2"):
            owner.create_schedule(name, "note", "rate(20 seconds)", tags={"team": "a"})
        owner.create_schedule("p", "note", DAILY)
        owner.pause_schedule("p")
        self.waiting = owner.submit("note", delay=5_000)
        self.ended = owner.submit("note")
        self.retrying = self.waits_for_its_retry()
        self.past = owner.backfill("s1", at(-3_600), at(-3_000), current=True, concurrency=1, dry_run=False)
        self.apply(owner, entry("kept"))

    def waits_for_its_retry(self) -> Run:
        run = self.world.owner().submit("bad")
        self.world.live(5)
        assert self.world.scheduler.get_run(run.id).state == "RETRYING"
        return run

    def dead(self) -> Run:
        run = self.world.owner().submit("bad")
        self.world.live(900)
        assert self.world.scheduler.get_run(run.id).state == "DEAD"
        return run

    def apply(self, owner: Scheduler, *found: Declaration) -> None:
        owner.carry_out(owner.compare_declared(found, managed_by="tests"), prune=True)

    def done_by(self, act: Act, scheduler: Scheduler) -> list[str]:
        """The acts of the entries that it adds."""
        before = len(self.world.memory.audit_entries())
        act(scheduler)
        entries = self.world.memory.audit_entries()[before:]
        assert {entry.actor for entry in entries} <= {"app:alice"}
        return [str(entry.act) for entry in entries]


def of(name: str, *given: Any, **options: Any) -> Callable[[Scene], Act]:
    return lambda _: lambda owner: getattr(owner, name)(*given, **options)


def declared(*found: Declaration) -> Callable[[Scene], Act]:
    return lambda scene: lambda owner: scene.apply(owner, *found)


def redriven(scene: Scene) -> Act:
    run = scene.dead()
    return lambda owner: owner.redrive(run.id)


def all_redriven(scene: Scene) -> Act:
    scene.dead()
    return lambda owner: owner.redrive(
        job="bad", since=at(-1), rate=1_000.0
    )  # it, and the one that waited for its retry


def purged(scene: Scene) -> Act:
    scene.dead()
    return lambda owner: owner.purge(job="bad")


def reassigned(scene: Scene) -> Act:
    register("1.0", 1.0, scene.world.services, scene.world.clock())
    return lambda owner: owner.reassign_run(scene.waiting.id, "1.0")


def thawed(scene: Scene) -> Act:
    scene.world.owner().acting_as("alice").freeze(at(9_000))
    return lambda owner: owner.thaw()


def revoked(scene: Scene) -> Act:
    link = scene.owner.signal_link(scene.waiting.id, "go", to="ada@acme", base="https://q.example")
    return lambda owner: owner.revoke_link(scene.waiting.id, link.id)


def pipelined(scene: Scene) -> Run:
    """The run of a pipeline of which one task waits."""
    tasks = {"a": {"job": "bad"}, "b": {"job": "note", "after": ["a"]}}
    scene.world.owner().upsert_schedule("tasks", "pipeline:tasks", "manual", tasks=tasks)
    run = scene.world.owner().trigger("tasks")
    scene.world.live(5)
    return run


def task_skipped(scene: Scene) -> Act:
    run = pipelined(scene)
    return lambda owner: owner.skip_task(run.id, "b")


def tasks_repeated(scene: Scene) -> Act:
    run = pipelined(scene)
    scene.world.owner().cancel_run(run.id)
    return lambda owner: owner.retry_pipeline(run.id, idempotency_key="k")


def backfilled(name: str, first: str | None = None) -> Callable[[Scene], Act]:
    def prepared(scene: Scene) -> Act:
        if first is not None:
            getattr(scene.owner, first)("s1", str(scene.past.id))
        return lambda owner: getattr(owner, name)("s1", str(scene.past.id))

    return prepared


KEPT = entry("kept")
# What it is; how it is prepared; the acts of its entries.
ACTS: dict[str, tuple[Callable[[Scene], Act], list[str]]] = {
    "create": (of("create_schedule", "new", "note", DAILY, client_token="t"), ["create"]),
    "update": (of("update_schedule", "s1", description="d", client_token="t"), ["update"]),
    "upsert creates": (of("upsert_schedule", "new", "note", DAILY), ["create"]),
    "upsert updates": (of("upsert_schedule", "s1", "note", DAILY), ["update"]),
    "pause": (of("pause_schedule", "s1"), ["pause"]),
    "resume": (of("resume_schedule", "p"), ["resume"]),
    "delete": (of("delete_schedule", "s1"), ["delete"]),
    "skip": (of("skip_next", "s1", client_token="t"), ["skip"]),
    "skip task": (task_skipped, ["skip"]),
    "retry tasks": (tasks_repeated, ["replay"]),
    "trigger": (of("trigger", "s1", idempotency_key="k"), ["trigger"]),
    "cancel": (lambda scene: lambda owner: owner.cancel_run(scene.waiting.id), ["cancel"]),
    "cancel runs": (of("cancel_runs", "s1", between=(at(-10_000), at(60))), ["cancel"] * 4),
    "retry": (lambda scene: lambda owner: owner.retry_run(scene.retrying.id), ["retry"]),
    "signal": (lambda scene: lambda owner: owner.signal(scene.waiting.id, "go", {"n": 1}), ["signal"]),
    "revoke link": (revoked, ["revoke-link"]),
    "reschedule": (lambda scene: lambda owner: owner.reschedule(scene.waiting.id, at=at(900)), ["reschedule"]),
    "requeue": (lambda scene: lambda owner: owner.requeue(scene.waiting.id, priority="low"), ["requeue"]),
    "reassign": (reassigned, ["reassign"]),
    "replay": (
        lambda scene: lambda owner: owner.replay_run(scene.ended.id, idempotency_key="k"),
        ["replay"],
    ),
    "redrive": (redriven, ["redrive"]),
    "redrive many": (all_redriven, ["redrive"] * 2),
    "purge": (purged, ["purge"]),
    "freeze": (of("freeze", at(9_000), reason="n"), ["freeze"]),
    "thaw": (thawed, ["thaw"]),
    "backfill": (
        of("backfill", "s2", at(-900), at(-600), current=True, dry_run=False, client_token="t"),
        ["backfill"],
    ),
    "pause backfill": (backfilled("pause_backfill"), ["pause-backfill"]),
    "resume backfill": (backfilled("resume_backfill", "pause_backfill"), ["resume-backfill"]),
    "cancel backfill": (backfilled("cancel_backfill"), ["cancel-backfill"]),
    "bulk pause": (of("bulk", "pause", prefix="s"), ["pause"] * 2),
    "bulk resume": (of("bulk", "resume", prefix="p"), ["resume"]),
    "bulk delete": (of("bulk", "delete", prefix="s"), ["delete"] * 2),
    "bulk retag": (of("bulk", "retag", prefix="s", tags={"team": "b"}), ["retag"] * 2),
    "bulk trigger": (of("bulk", "trigger", prefix="s", client_token="t"), ["trigger"] * 2),
    "apply creates": (declared(KEPT, entry("new")), ["create"]),
    "apply updates": (declared(entry("kept", "0 1 * * *")), ["update"]),
    "apply deletes": (declared(entry("new")), ["create", "delete"]),
    "dry runs": (
        lambda _: (
            lambda owner: (
                owner.bulk("delete", prefix="s", dry_run=True),
                owner.backfill("s2", at(-900), at(-600), current=True),
                owner.compare_declared([], managed_by="tests"),
                owner.resend(dry_run=True),
            )
        ),
        [],
    ),
}


@pytest.mark.parametrize("name", ACTS)
def test_what_changes_something_has_its_line_and_what_changes_nothing_has_none(name: str) -> None:
    scene = Scene()
    prepare, expected = ACTS[name]
    act = prepare(scene)
    assert sorted(scene.done_by(act, scene.owner)) == expected
    assert scene.done_by(act, scene.owner) == []


def test_the_table_has_every_act() -> None:
    told = {act for _, acts in ACTS.values() for act in acts}
    of_tenants = {
        act for act in map(str, AuditAct) if act.endswith(("-tenant", "-key", "-secret", "-breaker", "-version"))
    }  # see sdk/tenants, test_app_versions.py
    of_tenants |= {"grant", "revoke", "dump", "load"}  # the latter two: moving/test_round_trip.py
    by_others = {"complete", "retire", "deny"}  # the system does it, or it is no act
    # Every call sends, or makes a link, and so has its entry: runs/test_resend.py, restore/, console/test_answer_links.py.
    each_time = {"resend", "restore", "signal-link"}
    assert told == set(map(str, AuditAct)) - by_others - of_tenants - each_time
