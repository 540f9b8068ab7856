"""The audit: who did what, newest first; what changes nothing has no entry."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from quarterjack import Scheduler, Tenants
from quarterjack.domain.history.dead_run import DeadRunRow
from quarterjack.domain.names import one_off_ref
from quarterjack.domain.times import DAY
from quarterjack.errors import InvalidInput, Unavailable
from quarterjack.testing import Crash
from quarterjack.testing.memory.installation import IDENTITY

from tests.support.scenes.world import Faults, World, at, crash, fails

DAILY = "0 0 * * *"


def acts(world: World) -> list[str]:
    return [str(entry.act) for entry in world.memory.audit_entries()]


def test_every_act_on_a_schedule_has_a_line_with_its_revisions() -> None:
    world = World()
    owner = world.owner()
    owner.create_schedule("s", "note", DAILY)
    owner.update_schedule("s", expression="0 1 * * *")
    owner.pause_schedule("s", reason="why")
    owner.resume_schedule("s")
    owner.upsert_schedule("s", "note", "0 2 * * *")
    owner.bulk("retag", prefix="s", tags={"a": "b"})
    owner.delete_schedule("s")
    owner.create_schedule("s", "note", DAILY)
    found = [(str(entry.act), entry.before, entry.after, entry.version) for entry in world.memory.audit_entries()]
    assert found == [
        ("create", None, 1, 1),
        ("update", 1, 2, 2),
        ("pause", 2, 2, 3),
        ("resume", 2, 3, 4),
        ("update", 3, 4, 5),
        ("retag", 4, 4, 6),
        ("delete", 4, 4, 7),
        ("create", 4, 5, 8),
    ]
    assert {(entry.actor, entry.identity, str(entry.via), entry.target) for entry in world.memory.audit_entries()} == {
        (IDENTITY, None, "sdk", "acme/s")
    }
    assert [entry.reason for entry in world.memory.audit_entries()][2] == "why"


def test_a_claimed_actor_stands_beside_the_identity_on_line_head_and_revision() -> None:
    world = World()
    alice = world.owner().acting_as("alice@acme", reason="INC-1", via="api")
    alice.create_schedule("s", "note", DAILY)
    (entry,) = world.memory.audit_entries()
    assert (entry.actor, entry.identity, entry.reason, str(entry.via)) == ("app:alice@acme", IDENTITY, "INC-1", "api")
    seen = world.scheduler.describe_schedule("s")
    assert (seen.schedule.actor, seen.revisions[0].actor) == ("app:alice@acme", "app:alice@acme")
    world.owner().update_schedule("s", description="d")
    seen = world.scheduler.describe_schedule("s")
    assert (seen.schedule.actor, seen.revisions[0].actor) == (IDENTITY, "app:alice@acme")


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("actor", {"actor": ""}),
        ("actor", {"actor": "a" * 253}),
        ("actor", {"actor": "a\nb"}),
        ("actor", {"actor": " alice"}),
        ("actor", {"actor": 7}),
        ("actor", {"actor": "iam:arn:aws:iam::1:root"}),
        ("actor", {"actor": "system:ticker"}),
        ("actor", {"actor": "app:oidc:alice"}),
        ("via", {"via": "system"}),
        ("via", {"via": "post"}),
        ("reason", {"reason": "x" * 1_001}),
    ],
)
def test_who_acts_is_checked(field: str, given: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as problem:
        World().scheduler.acting_as(**given)
    assert problem.value.field == field
    assert problem.value.remedy


def test_what_the_system_does_by_itself_names_its_role() -> None:
    world = World()
    world.scheduler.create_schedule("once", "note", f"at({at(30):%Y-%m-%dT%H:%M:%S})")
    world.scheduler.create_schedule("s", "note", DAILY)
    world.scheduler.pause_schedule("s", until=at(120))
    world.scheduler.create_schedule("weak", "bad", "rate(20 seconds)", pause_on_failure=1)
    world.live(240)
    entries = {
        (str(entry.act), entry.schedule): entry for entry in world.memory.audit_entries() if entry.via == "system"
    }
    assert {key: entry.actor for key, entry in entries.items()} == {
        ("complete", "once"): "system:ticker",
        ("resume", "s"): "system:ticker",
        ("pause", "weak"): "system:undertaker",
    }
    assert world.scheduler.get_schedule("weak").actor == "system:undertaker"
    assert entries["pause", "weak"].reason


def test_the_acts_of_a_bulk_call_share_its_id() -> None:
    world = World()
    for name in ("a1", "a2", "a3"):
        world.scheduler.create_schedule(name, "note", DAILY)
    world.scheduler.bulk("pause", prefix="a")
    calls = [entry.call for entry in world.memory.audit_entries()]
    assert len(set(calls[:3])) == 3
    assert len(set(calls[3:])) == 1
    page = world.scheduler.audit(call=calls[3])
    assert sorted(entry.schedule for entry in page.items) == ["a1", "a2", "a3"]


def test_a_repeated_call_has_one_line() -> None:
    world = World()
    for _ in range(2):
        world.scheduler.create_schedule("s", "note", DAILY, client_token="t")
    world.scheduler.pause_schedule("s")
    world.scheduler.pause_schedule("s")
    assert acts(world) == ["create", "pause"]


def test_every_act_on_runs_and_backfills_has_a_line() -> None:
    world = World()
    owner = world.owner().acting_as("alice")
    owner.create_schedule("s", "note", "rate(20 seconds)")
    skipped = owner.skip_next("s")
    triggered = owner.trigger("s", idempotency_key="k")
    owner.trigger("s", idempotency_key="k")
    once = owner.submit("note", delay=500)
    owner.cancel_run(once.id)
    owner.cancel_run(once.id)
    weak = owner.submit("bad")
    world.live(5)
    assert owner.retry_run(weak.id).id == weak.id
    owner.retry_run(weak.id)  # its message may not have been accepted
    replay = owner.replay_run(triggered.id, idempotency_key="r")
    owner.replay_run(triggered.id, idempotency_key="r")
    world.live(600)
    owner.redrive(weak.id)
    owner.redrive(weak.id)
    owner.purge(job="bad")
    owner.purge(job="bad")
    past = owner.backfill("s", at(-3_600), at(-3_000), current=True, concurrency=1, dry_run=False)
    for act in (owner.pause_backfill, owner.resume_backfill, owner.cancel_backfill):
        act("s", str(past.id))
        act("s", str(past.id))
    owner.cancel_runs("s", between=(at(0), at(10_000)))
    entries = [entry for entry in world.memory.audit_entries() if str(entry.via) == "sdk"]
    targets = {str(entry.act): entry.target for entry in entries}
    assert [str(entry.act) for entry in entries] == [
        *("create", "skip", "trigger", "cancel", "retry", "replay", "redrive", "purge"),
        *("backfill", "pause-backfill", "resume-backfill", "cancel-backfill"),
        *["cancel"] * (len(entries) - 12),
    ]
    assert {entry.actor for entry in entries} == {"app:alice"}
    assert targets["skip"] == skipped.id
    assert targets["trigger"] == triggered.id
    assert targets["retry"] == targets["redrive"] == weak.id
    assert targets["replay"] == triggered.id
    assert targets["backfill"] == targets["cancel-backfill"] == f"acme/s#backfill/{past.id}"
    assert targets["purge"] == "acme"
    details = {str(entry.act): entry.detail for entry in entries}
    assert details["replay"] == {"replay": replay.id}
    assert weak.id in details["purge"]["runs"]
    shown = {entry.act: entry.detail for entry in owner.audit(act="backfill").items}
    assert (shown["backfill"]["start"], shown["backfill"]["end"]) == (past.start.isoformat(), past.end.isoformat())
    for run in (skipped, triggered, once, replay):
        assert owner.get_run(run.id).actor == "app:alice"
    cancels = {entry.call for entry in entries[12:]}
    assert len(cancels) <= 1, "the runs of one call share its id"


def test_a_submitted_run_names_the_actor_that_is_claimed_and_asks_nobody() -> None:
    world = World()
    asked: list[str] = []

    def identity() -> str:
        asked.append("once more")
        return "iam:me"

    services = replace(world.process(), identity=identity)
    owner = Scheduler("acme", services=services, clock=world.clock)
    assert owner.get_run(owner.submit("note").id).actor is None
    run = owner.acting_as("alice").submit("note")
    assert owner.get_run(run.id).actor == "app:alice"
    assert (asked, world.memory.audit_rows()) == ([], [])
    owner.create_schedule("s", "note", DAILY)
    assert asked


def test_a_purge_removes_in_transactions_and_names_the_runs_it_removed() -> None:
    world = World()
    for number in range(120):
        put_dead(world, number)
    other = world.owner()
    faults = Faults().at("remove_dead", before=lambda: other.purge(error_type="E7"))
    assert world.owner(faults).purge(job="note") == 119
    entries = [entry for entry in world.memory.audit_entries() if str(entry.act) == "purge"]
    removed = [run for entry in entries for run in entry.detail["runs"]]
    assert len(removed) == len(set(removed)) == 120
    assert world.scheduler.list_dead(since=at(-1_000)).items == []


def put_dead(world: World, number: int) -> None:
    dead = DeadRunRow(
        run=one_off_ref("acme", f"d{number}"),
        job="note",
        ended_at=world.clock() - number,
        fence=1,
        attempts=1,
        reason="failed",
        error_type=f"E{number}",
        error="boom",
    )
    assert world.process().dead_index.put(dead, expires=world.clock() + DAY)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_leaves_both_or_neither(when: str) -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", DAILY)
    faults: Any = {when: crash}
    with pytest.raises(Crash):
        world.owner(Faults().at("close", **faults)).pause_schedule("s")
    paused = world.scheduler.get_schedule("s").state == "PAUSED"
    assert paused == (when == "after")
    assert acts(world) == ["create", *(["pause"] if paused else [])]


def test_a_lost_answer_makes_no_second_line() -> None:
    world = World()
    world.owner(Faults().at("arm", after=fails)).create_schedule("s", "note", DAILY)
    with pytest.raises(Unavailable):
        world.owner(Faults().at("close", after=fails, times=None)).pause_schedule("s")
    world.scheduler.pause_schedule("s")
    assert acts(world) == ["create", "pause"]


def test_lines_are_listed_newest_first_by_pages_over_days() -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", DAILY)
    world.scheduler.create_schedule("other", "note", DAILY)
    for number in range(9):
        world.clock.advance(timedelta(hours=11))
        world.scheduler.acting_as(f"u{number % 2}").update_schedule("s", description=str(number))
    pages, cursor = [], None
    while True:
        page = world.scheduler.audit(schedule="s", limit=2, cursor=cursor)
        pages.append([entry.at for entry in page.items])
        if (cursor := page.cursor) is None:
            break
    found = [moment for page in pages for moment in page]
    assert len(found) == 10
    assert found == sorted(found, reverse=True)
    assert all(len(page) == 2 for page in pages)


def test_a_listing_takes_conditions() -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", DAILY)
    world.scheduler.acting_as("alice").pause_schedule("s")
    world.scheduler.freeze(at(600), reason="move")
    who = world.scheduler.audit
    assert [entry.act for entry in who().items] == ["freeze", "pause", "create"]
    assert [entry.act for entry in who(actor="alice").items] == ["pause"]
    assert [entry.act for entry in who(actor="app:alice").items] == ["pause"]
    assert [entry.act for entry in who(actor=IDENTITY).items] == ["freeze", "pause", "create"]
    assert [entry.act for entry in who(act="create").items] == ["create"]
    assert [entry.reason for entry in who(act="freeze").items] == ["move"]
    assert who(schedule="none").items == []
    assert who(since=at(1)).items == []
    assert [entry.act for entry in who(until=at(0)).items] == ["freeze", "pause", "create"]


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("act", {"act": "dance"}),
        ("actor", {"actor": ""}),
        ("actor", {"actor": 7}),
        ("actor", {"actor": "a" * 257}),
        ("since", {"since": datetime.min.replace(tzinfo=UTC)}),
        ("until", {"until": datetime.max.replace(tzinfo=UTC)}),
        ("until", {"until": at(-(10**10))}),
        ("since", {"since": at(5), "until": at(4)}),
        ("run_id", {"run_id": "x"}),
        ("limit", {"limit": 0}),
    ],
)
def test_a_listings_arguments_are_checked(field: str, given: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as problem:
        World().scheduler.audit(**given)
    assert problem.value.field == field


def test_a_long_interval_without_lines_is_read_in_pages() -> None:
    world = World()
    reads, cursor = 0, None
    while not reads or cursor is not None:
        page = world.scheduler.audit(since=at(-300 * 86_400), cursor=cursor)
        assert page.items == []
        reads, cursor = reads + 1, page.cursor
        assert (page.searched_to is None) == (cursor is None)
    assert reads == 3  # a day takes a read unit, and a page 150


def test_another_tenant_sees_nothing_of_it() -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", DAILY)
    other = type(world.scheduler)("other", services=world.process(), clock=world.clock)
    assert other.audit().items == []


def test_the_reason_of_the_caller_is_shown_where_an_act_has_an_effect_unless_it_has_its_own() -> None:
    world = World()
    owner = world.owner().acting_as(reason="INC-1")
    for name in ("s", "t"):
        owner.create_schedule(name, "note", DAILY)
    assert owner.pause_schedule("s").reason == "INC-1"
    assert owner.pause_schedule("t", reason="moving").reason == "moving"
    owner.freeze(at(600))
    freeze = owner.holds().freeze
    assert freeze is not None
    assert freeze.reason == "INC-1"
    tenants = Tenants(services=world.services, clock=world.clock).acting_as(reason="INC-2")
    assert tenants.suspend("acme").suspension_reason == "INC-2"
    assert tenants.suspend("acme", reason="unpaid").suspension_reason == "unpaid"
    reasons = [(str(entry.act), entry.reason) for entry in world.memory.audit_entries() if entry.act != "create"]
    assert reasons == [
        ("pause", "INC-1"),
        ("pause", "INC-1; moving"),
        ("freeze", "INC-1"),
        ("suspend-tenant", "INC-2"),
        ("suspend-tenant", "INC-2; unpaid"),
    ]
