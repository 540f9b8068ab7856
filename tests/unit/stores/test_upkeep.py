"""Upkeep: scans pass ended runs and other tenants by, references are found wherever they are."""

from __future__ import annotations

from quarterjack.domain.run import RunState
from quarterjack.domain.times import DAY, MINUTE
from quarterjack.ports.services import Services
from quarterjack.state.backfill import RECORD
from quarterjack.stores.records import Record
from quarterjack.testing.memory.installation import Memory

from tests.support.builders import NOON, OWNER, a_definition, a_head, a_revision, a_run, an_attempt


def test_scans_of_unfinished_runs_go_on_where_they_ended(services: Services) -> None:
    ended = a_run(state=RunState.SKIPPED)
    waiting = [a_run(NOON + minute * MINUTE) for minute in range(1, 5)]
    services.ledger.claim([ended, *waiting])
    seen, parts = list[str](), {0: "", 1: ""}
    for _ in range(9):
        found, parts = services.upkeep.unfinished(parts, segments=2, rows=2)
        assert len(found) <= 4
        seen += [str(run.ref) for run in found]
        if not parts:
            break
    assert sorted(seen) == [str(run.ref) for run in waiting]


def test_a_scan_of_one_tenant_has_its_runs_alone(services: Services) -> None:
    runs = [a_run(owner=f"{tenant}/report") for tenant in ("acm", "acme", "acme2")]
    services.ledger.claim(runs)
    services.siblings.record(an_attempt(runs[1]))
    assert list(services.upkeep.runs(segment=0, segments=1, tenant="acme")) == [runs[1]]
    assert len(list(services.upkeep.runs(segment=0, segments=1))) == 3


def test_only_a_run_that_has_ended_is_listed_again(services: Services) -> None:
    ended, waiting = a_run(state=RunState.SKIPPED), a_run(NOON + MINUTE)
    services.ledger.claim([ended, waiting])
    assert [services.upkeep.relist(run.ref, now=NOON) for run in (ended, waiting)] == [True, False]


def test_a_schedule_has_runs_or_none_and_records_are_no_runs(services: Services) -> None:
    services.records.write(Record(owner=OWNER, key="~x", version=1, body={}))
    assert not services.upkeep.has_runs(OWNER)
    services.ledger.claim([a_run()])
    assert services.upkeep.has_runs(OWNER)


def test_a_payload_is_named_by_a_backfill_a_revision_or_a_run(services: Services) -> None:
    services.records.write(Record(owner=OWNER, key=f"{RECORD}b", version=1, body={"payload_ref": "k1"}))
    definition = a_definition(payload=None, payload_ref="k2")
    services.schedules.arm(a_head(), expected=0, previous=None, revision=a_revision(definition=definition), entry=None)
    services.ledger.claim([a_run(payload_ref="k3")])
    assert services.upkeep.named(OWNER, ["k1", "k2", "k3", "k4"]) == {"k1", "k2", "k3"}


def test_revisions_are_removed_from_the_oldest_on(memory: Memory) -> None:
    for number in (1, 2, 3):
        memory.put_revision(OWNER, number, a_revision(number))
    assert memory.connect().upkeep.remove_revisions(OWNER, upto=2, most=1) == 1
    assert [revision.number for revision in memory.revisions(OWNER)] == [2, 3]
    assert memory.connect().upkeep.remove_revisions(OWNER, upto=2, most=9) == 1
    assert [revision.number for revision in memory.revisions(OWNER)] == [3]


def test_a_run_that_ended_long_ago_is_still_a_reference(services: Services) -> None:
    services.ledger.claim([a_run(NOON - 80 * DAY, state=RunState.SKIPPED, payload_ref="k")])
    assert services.upkeep.named(OWNER, ["k"]) == {"k"}
