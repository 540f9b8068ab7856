"""What is kept of a deleted schedule: everything for a retention and while anything refers to it, then the numbering alone."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from quarterjack import Rule, RunState, ScheduleState
from quarterjack.domain.audit import AuditAct
from quarterjack.domain.payload import owner_of_object
from quarterjack.domain.run import AgendaEntry, EntryKind
from quarterjack.domain.times import DAY, HOUR, SECOND, to_ms
from quarterjack.errors import AlreadyExists, NotFound
from quarterjack.fires.claim import FireClaim, materialise
from quarterjack.fires.context import FireContext
from quarterjack.state.backfill import ENDED
from quarterjack.stores.tables import REVISIONS, RUNS, SCHEDULES
from quarterjack.testing import Crash
from quarterjack.why.answer import Answer, Verdict

from tests.support.scenes.world import OWNER, Faults, World, at
from tests.support.units import counted

RETENTION = 90 * DAY // SECOND
LARGE = {"text": "x" * 70_000}
TEXTS = ("marker-description", "marker-tag", "marker-payload", "marker-note", "marker-tool")


def a_deleted_schedule(world: World, *, payload: object = "marker-payload") -> None:
    """Two revisions, a run, a pause, the deletion."""
    owner = world.scheduler
    words: Any = {"description": TEXTS[0], "tags": {"k": TEXTS[1]}, "managed_by": TEXTS[4]}
    owner.upsert_schedule("s", "note", "0 * * * *", payload=payload, **words)
    owner.update_schedule("s", expression="*/30 * * * *")
    world.live(3_600)
    owner.pause_schedule("s", reason=TEXTS[3])
    owner.delete_schedule("s")


def pass_days(world: World, days: float) -> None:
    world.wait(days * 86_400)
    world.memory.expire()


def audited(world: World, hook: Faults | None = None) -> tuple[int, int, int]:
    report = world.audit(world.process(hook) if hook else None, segments=1, removes=True)
    assert report.failed == 0
    return report.retired, report.revisions, report.removed


def said(answer: Answer) -> str:
    return " ".join(sentence.text for sentence in answer.sentences)


def stored(world: World) -> str:
    """Everything in tables and bucket but the audit, as text."""
    kept = [world.memory._tables[table] for table in (SCHEDULES, REVISIONS, RUNS)]
    return repr([[*table] for table in kept]) + repr(world.memory._payloads)


def test_after_the_retention_the_numbering_is_all_that_is_kept() -> None:
    world = World()
    a_deleted_schedule(world)
    pass_days(world, 90.9)
    assert audited(world) == (0, 0, 0), "the retention and a day"
    pass_days(world, 0.2)
    assert audited(world) == (1, 2, 0)
    (head,) = world.memory.heads()
    assert (head.state, head.revision, head.retired_at) == (ScheduleState.DELETED, 2, world.clock())
    assert not head.clearing
    assert world.memory.revisions(OWNER) == []
    assert not [text for text in TEXTS if text in stored(world)]
    assert [line.act for line in world.memory.audit_entries()][-1] == AuditAct.RETIRE
    assert audited(world) == (0, 0, 0)
    assert world.memory.heads() == [head], "an audit after it has nothing to do"


def test_the_owner_sees_nothing_of_it_any_more() -> None:
    world = World()
    a_deleted_schedule(world)
    assert world.scheduler.list_schedules(state="DELETED").items
    pass_days(world, 92)
    deleted_at = world.memory.heads()[0].updated_at
    audited(world)
    owner = world.scheduler
    assert not owner.list_schedules(state="DELETED").items
    assert not owner.list_backfills("s")
    for call in (
        owner.get_schedule,
        owner.delete_schedule,
        owner.trigger,
        owner.describe_schedule,
        owner.resume_schedule,
    ):
        with pytest.raises(NotFound, match="no schedule of that name"):
            call("s")
    answer = owner.why("s", at(10**6))
    assert (answer.verdict, "its definition was removed" in said(answer)) == (Verdict.DELETED, True)
    earlier = owner.why("s", at(deleted_at // SECOND - to_ms(at(0), "at") // SECOND - 60))
    assert (earlier.verdict, "not known any more" in said(earlier)) == (Verdict.UNKNOWN, True)


def test_a_schedule_of_the_name_goes_on_with_the_numbering() -> None:
    world = World()
    a_deleted_schedule(world)
    pass_days(world, 92)
    audited(world)
    created = world.scheduler.create_schedule("s", "note", "0 * * * *", payload="new")
    assert (created.revision, created.state) == (3, ScheduleState.ACTIVE)
    (head,) = world.memory.heads()
    assert (head.retired_at, head.clearing) == (None, False)
    world.started.clear()
    world.live(3_600)
    assert [start.payload for start in world.started] == ["new"]
    answer = world.scheduler.why("s", world.now() - timedelta(days=10, minutes=world.now().minute))
    assert answer.verdict is Verdict.NOT_CREATED
    world.scheduler.delete_schedule("s")
    pass_days(world, 92)
    assert audited(world) == (1, 1, 0)
    assert world.scheduler.create_schedule("s", "note", "0 * * * *").revision == 4


@pytest.mark.parametrize("what", ["active", "paused", "completed", "deleted yesterday"])
def test_nothing_else_is_touched(what: str) -> None:
    world = World()
    rule = Rule(expression="0 * * * *", end=world.now() + timedelta(hours=2) if what == "completed" else None)
    world.scheduler.create_schedule("s", "note", rule)
    world.scheduler.update_schedule("s", payload=1)
    if what == "paused":
        world.scheduler.pause_schedule("s")
    if what == "completed":
        world.live(3 * 3_600)
    pass_days(world, 400)
    if what == "active":
        world.live(60)
    if what.startswith("deleted"):
        world.scheduler.delete_schedule("s")
        pass_days(world, 1)
    assert audited(world)[:2] == (0, 0)
    assert len(world.memory.revisions(OWNER)) == 2
    if what == "paused":
        assert world.scheduler.resume_schedule("s").revision == 3


def test_a_run_in_the_ledger_keeps_all_of_it_and_can_be_replayed() -> None:
    """As long as its row is there: one that is dead can be redriven, one that has ended replayed and explained."""
    world = World()
    world.scheduler.create_schedule("s", "bad", "0 * * * *", payload=LARGE)
    world.live(3_600 + 600)
    world.scheduler.delete_schedule("s")
    world.wait(95 * 86_400)  # DynamoDB removes a row within days after its expiry
    assert audited(world) == (0, 0, 0)
    (run,) = world.memory.runs(OWNER)
    again = world.scheduler.redrive(str(run.ref)).runs
    assert len(again) == 1
    world.started.clear()
    world.work()
    assert world.started[0].payload == LARGE
    world.memory.expire()
    assert audited(world) == (1, 1, 1), "the payload of the schedule"
    (redriven,) = (run for run in world.memory.runs() if run.replay_of)
    assert world.scheduler.get_run(str(redriven.ref)).payload == LARGE, "a replay's is its own"


def test_an_open_backfill_keeps_all_of_it() -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "0 * * * *")
    world.live(2 * 3_600)
    backfill = world.scheduler.backfill("s", at(-7_200), at(0), current=True, dry_run=False)
    world.scheduler.pause_backfill("s", str(backfill.id))
    for run in world.memory.runs(OWNER):
        world.memory.remove_row(run.ref)
    world.scheduler.delete_schedule("s")
    pass_days(world, 92)
    assert audited(world)[:2] == (0, 0)
    world.scheduler.cancel_backfill("s", str(backfill.id))
    assert world.scheduler.get_backfill("s", str(backfill.id)).state in ENDED
    assert audited(world)[:2] == (1, 1)


def test_an_audit_on_some_machine_retires_nothing() -> None:
    """Its settings may say another retention."""
    world = World()
    a_deleted_schedule(world)
    pass_days(world, 92)
    assert world.audit().retired == 0
    assert len(world.memory.revisions(OWNER)) == 2


# Races and crashes.

VERBS = ("has_runs", "records", "register", "close", "removable_revisions", "remove_revision")


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("skip", [0, 1])
def test_an_auditor_that_dies_at_any_request_is_followed_by_one_that_goes_on(verb: str, moment: str, skip: int) -> None:
    world = World()
    a_deleted_schedule(world)
    pass_days(world, 92)

    def die() -> None:
        raise Crash

    dying = Faults().at(verb, skip=skip, **{moment: die})
    try:
        audited(world, dying)
    except Crash:
        pass
    else:
        assert dying.rules[0].times == 1, "it did not reach the request"
    revisions = [revision.number for revision in world.memory.revisions(OWNER)]
    assert revisions in ([1, 2], [2], []), "oldest first"
    audited(world)
    (head,) = world.memory.heads()
    assert (head.revision, head.clearing, world.memory.revisions(OWNER)) == (2, False, [])
    assert world.scheduler.create_schedule("s", "note", "0 * * * *").revision == 3


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("skip", [0, 1])
def test_a_schedule_created_anew_at_any_moment_is_whole(verb: str, moment: str, skip: int) -> None:
    world = World()
    a_deleted_schedule(world, payload=LARGE)
    pass_days(world, 92)

    def create() -> None:
        created = world.scheduler.create_schedule("s", "note", "0 * * * *", payload=LARGE | {"new": True})
        assert created.revision == 3

    audited(world, Faults().at(verb, skip=skip, **{moment: create}))
    if len(world.memory.heads()[0].job) == 0:
        create()
    (head,) = world.memory.heads()
    assert (head.state, head.revision, head.retired_at) == (ScheduleState.ACTIVE, 3, None)
    world.started.clear()
    world.live(3_600)
    assert [start.payload for start in world.started] == [LARGE | {"new": True}]
    for _ in range(15):
        pass_days(world, 7)
        audited(world)
    assert world.scheduler.get_schedule("s").payload == LARGE | {"new": True}


@pytest.mark.parametrize("verb", ["head", "revisions", "put", "arm"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_schedule_that_is_created_while_its_predecessor_is_retired(verb: str, moment: str) -> None:
    """The audit happens in the middle of the call."""
    world = World()
    a_deleted_schedule(world, payload=LARGE)
    pass_days(world, 92)
    owner = world.owner(Faults().at(verb, **{moment: lambda: audited(world)}))
    assert owner.create_schedule("s", "note", "0 * * * *", payload=LARGE).revision == 3
    assert world.scheduler.get_schedule("s").payload == LARGE
    assert [revision.number for revision in world.memory.revisions(OWNER)][-1] == 3


def test_what_a_stalled_process_still_does_for_an_old_revision_starts_nothing() -> None:
    """A message, an entry of the agenda, a claim: the number is nobody's any more, also when the name has a schedule again."""
    world = World()
    a_deleted_schedule(world)
    old = world.memory.revisions(OWNER)[-1]
    pass_days(world, 92)
    audited(world)
    world.scheduler.create_schedule("s", "note", "0 0 1 1 *", payload="new")
    world.started.clear()
    late = world.clock() + 60 * SECOND
    entry = AgendaEntry(shard=0, due=late, kind=EntryKind.CHAIN, id=old.id, after=late - HOUR)
    assert world.services.agenda.put([entry])
    world.live(600)
    assert world.memory.runs(OWNER) == []
    assert not [each for each in world.memory.entries() if each.id == old.id]
    stalled = FireContext(services=world.services, clock=world.clock)
    materialise([FireClaim(old, late)], stalled)  # with the open revision in its memory
    world.live(1_200)
    (run,) = world.memory.runs(OWNER)
    assert run.state is RunState.DEAD
    assert world.started == []


# Payloads of schedules.


def payloads(world: World) -> int:
    return sum(owner_of_object(key) == OWNER for key in world.memory._payloads)


def test_payloads_of_a_living_schedule_stay_with_its_revisions_and_what_was_stored_in_vain_goes() -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "0 0 1 1 *", payload=LARGE)
    world.scheduler.update_schedule("s", payload=LARGE | {"n": 2})
    world.scheduler.upsert_schedule("s", "note", "0 0 1 1 *", payload=LARGE | {"n": 2})
    assert payloads(world) == 2, "an equal one is not stored again"
    with pytest.raises(AlreadyExists):
        world.scheduler.create_schedule("s", "note", "0 0 1 1 *", payload=LARGE | {"n": 3})
    world.services.payloads.put(OWNER, "{}")  # as if its caller had died
    there = payloads(world)
    pass_days(world, 92)
    assert audited(world) == (0, 0, there - 2)
    assert payloads(world) == 2
    assert world.scheduler.get_schedule("s").payload == LARGE | {"n": 2}


def test_the_payload_of_a_backfill_goes_when_record_and_runs_have_gone() -> None:
    world = World()
    world.scheduler.create_schedule("s", "bad", "0 * * * *")
    backfill = world.scheduler.backfill("s", at(-3_600), at(0), current=True, payload=LARGE, dry_run=False)
    world.live(900)
    assert world.scheduler.get_backfill("s", str(backfill.id)).state in ENDED
    world.scheduler.pause_schedule("s")
    world.wait(92 * 86_400)
    assert audited(world)[2] == 0, "the record and the run are there"
    record = next(iter(world.services.records.listed(OWNER, "~backfill~")))
    world.memory._tables[RUNS].delete(record.owner, record.key)
    assert audited(world)[2] == 0, "its run can be redriven"
    (run,) = world.memory.runs(OWNER)
    world.scheduler.redrive(str(run.ref))
    world.memory.remove_row(run.ref)
    assert audited(world)[2] == 1
    world.started.clear()
    world.work()
    assert world.started[0].payload == LARGE


def test_a_revision_that_cannot_be_read_keeps_its_payload() -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "0 0 1 1 *", payload=LARGE)
    row = world.memory._tables[REVISIONS].get(OWNER, 1)
    assert row is not None
    world.memory._tables[REVISIONS].put(OWNER, 1, row | {"v": 999})
    pass_days(world, 92)
    assert world.audit(segments=1, removes=True).removed == 0
    assert payloads(world) == 1


# Bounds and cost.


def test_what_an_audit_has_no_time_for_the_next_ones_do() -> None:
    world = World()
    for n in range(40):
        world.scheduler.create_schedule(f"s{n:02d}", "note", "0 0 1 1 *")
        world.scheduler.delete_schedule(f"s{n:02d}")
    pass_days(world, 92)

    def slow() -> None:
        world.wait(1)

    done = list[int]()
    while sum(done) < 40:
        services = world.process(Faults().at("has_runs", after=slow, times=None))
        done.append(world.audit(services, segments=0, removes=True, budget=10 * SECOND).retired)
        assert 0 < done[-1] <= 11


def test_a_schedule_of_many_revisions_goes_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quarterjack.auditor.chain_walk._REVISIONS", 4)
    world = World()
    world.scheduler.create_schedule("s", "note", "0 0 1 1 *")
    for n in range(9):
        world.scheduler.update_schedule("s", payload=n)
    world.scheduler.delete_schedule("s")
    pass_days(world, 92)
    assert [audited(world)[:2] for _ in range(4)] == [(1, 4), (0, 4), (0, 2), (0, 0)]


def test_the_cost_of_one_retirement() -> None:
    world = World()
    a_deleted_schedule(world)
    pass_days(world, 92)
    world.audit(segments=0)
    without, hook = Faults(), Faults()
    world.audit(world.process(without), segments=0)
    with counted() as units:
        world.audit(world.process(hook), segments=0, removes=True)
    progress, names = 1, 1  # the record of where audits stand; the tenant's name among those of the day
    assert (units["schedules"], units["revisions"]) == (2 + 2, 2), (
        "two transactions; a unit for each revision below 1 KB"
    )
    assert units["audit"] == 4 + names
    assert units["runs"] == progress
    more = [verb for verb in hook.verbs() if verb in VERBS and verb != "records"]
    assert more.count("close") == 2
    assert len(hook.calls) - len(without.calls) <= 8
    again = Faults()
    world.audit(world.process(again), segments=0, removes=True)
    assert len(again.calls) == len(without.calls), "one that is retired costs nothing but the read of its head"
