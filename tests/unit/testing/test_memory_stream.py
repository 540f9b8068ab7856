"""The stream of an installation in memory: what a run goes through, in order, with both images, for a day."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from quarterjack.domain.names import RunRef
from quarterjack.domain.run import RunState
from quarterjack.jobs import Registry
from quarterjack.ports.run_stream import StreamTrimmed
from quarterjack.testing import Harness, ManualClock, Memory

from tests.support.builders import a_run

AT = datetime(2026, 5, 4, 8, 30, tzinfo=UTC)
QUEUED, RUNNING, SUCCEEDED = RunState.QUEUED, RunState.RUNNING, RunState.SUCCEEDED


def test_a_runs_changes_come_in_order_with_both_images() -> None:
    jobs = Registry()
    jobs.job("greet")(lambda ctx, payload: None)
    harness = Harness(jobs, at=AT)
    harness.scheduler.create_schedule("hello", "greet", "0 * * * *")
    harness.advance(hours=1)
    changes = [change for change in harness.memory.changes() if change.ref.instant == 1_777_885_200_000]
    states = [(change.old and change.old.state, change.new and change.new.state) for change in changes]
    assert states == [(None, QUEUED), (QUEUED, RUNNING), (RUNNING, SUCCEEDED)]
    assert [earlier.new for earlier in changes[:-1]] == [later.old for later in changes[1:]]
    assert [change.sequence for change in changes] == sorted({change.sequence for change in changes})
    later = harness.memory.changes(changes[1].sequence)
    assert changes[2] in later
    assert changes[1] not in later


def test_expiry_is_marked_and_a_write_that_changes_nothing_is_no_change() -> None:
    clock = ManualClock(AT)
    memory = Memory(clock)
    row = {"owner": "acme/report", "key": "001777883400000", "state": "QUEUED", "rev": 1, "due": 1, "not_before": 1}
    ref = RunRef("acme/report", "001777883400000")
    memory.put_row(ref, {**row, "job": "j", "fence": 0, "attempt": 0, "ttl": clock() // 1_000 + 60})
    memory.put_row(ref, memory.row(ref) or {})
    clock.advance(timedelta(minutes=2))
    memory.expire()
    assert [(change.new is None, change.expired) for change in memory.changes()] == [(False, False), (True, True)]


def test_shards_part_the_changes_by_owner_and_a_position_goes_on_where_it_was() -> None:
    memory = Memory(ManualClock(AT))
    memory.stream_shards = 3
    services = memory.connect()
    runs = [a_run(owner=f"acme/s{n}") for n in range(20)]
    services.ledger.claim(runs)
    pages = {shard.id: services.stream.read(shard.id, None) for shard in services.stream.shards()}
    assert sorted(change.ref for page in pages.values() for change in page.changes) == sorted(run.ref for run in runs)
    assert min(len(page.changes) for page in pages.values()) > 0
    services.ledger.claim([a_run(owner=run.ref.owner, fire=1) for run in runs])
    again = {shard: services.stream.read(shard, page.position) for shard, page in pages.items()}
    assert sum(len(page.changes) for page in again.values()) == 20
    assert {change.ref.instant for page in again.values() for change in page.changes} == {1}


def test_a_day_later_the_changes_are_gone_and_a_position_before_them_is_refused() -> None:
    clock = ManualClock(AT)
    memory = Memory(clock)
    services = memory.connect()
    services.ledger.claim([a_run()])
    position = services.stream.read("0000", None).position
    services.ledger.claim([a_run(fire=1)])
    clock.advance(timedelta(hours=25))
    services.ledger.claim([a_run(fire=2)])
    assert [change.ref.instant for change in memory.changes()] == [2]
    with pytest.raises(StreamTrimmed):
        services.stream.read("0000", position)
    assert len(services.stream.read("0000", None).changes) == 1
