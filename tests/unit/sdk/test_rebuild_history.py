"""``rebuild_history`` fills the history from the ledger."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from quarterjack import Scheduler, Settings
from quarterjack.domain.run import RunState
from quarterjack.domain.times import DAY
from quarterjack.errors import InvalidInput, Misconfigured
from quarterjack.historian.follow import StreamFollower
from quarterjack.state.before_start import refuse, take_over
from quarterjack.testing import ManualClock, Memory

from tests.support.builders import a_run

START = datetime(2036, 5, 4, 12, 0, tzinfo=UTC)


def test_runs_of_a_time_without_a_historian_are_listed_afterwards() -> None:
    clock = ManualClock(START)
    memory = Memory(clock)
    owners = [Scheduler(name, services=memory.connect(), clock=clock) for name in ("acme", "other")]
    runs = [owner.submit("job", delay=60).id for owner in owners for _ in range(3)]
    owners[0].cancel_run(runs[0])
    assert owners[0].list_runs().items == []
    done = owners[0].rebuild_history(since=START - timedelta(hours=1))
    assert (done.runs, done.added, done.corrected, done.stopped) == (3, 3, 0, False)
    assert {run.id for run in owners[0].list_runs().items} == set(runs[:3])
    assert owners[1].list_runs().items == []
    assert owners[0].rebuild_history(since=START - timedelta(hours=1), all_tenants=True).added == 3
    assert {run.id for run in owners[1].list_runs().items} == set(runs[3:])
    assert owners[0].rebuild_history(since=START + timedelta(hours=1)).added == 0


def test_an_end_that_holds_no_more_is_withdrawn() -> None:
    """The historian saw the end of a run, and not that it was taken over."""
    clock = ManualClock(START)
    memory = Memory(clock)
    services = memory.connect()
    owner = Scheduler("acme", services=services, clock=clock)
    run, now = a_run(clock()), clock()
    services.ledger.claim([run])
    refusal = refuse(to=RunState.CANCELLED, revision=1, now=now, expires=now + DAY, reason="paused")
    services.ledger.move(run.ref, refusal)
    while StreamFollower(services, clock).poll().has_more:
        pass
    assert [each.state for each in owner.list_runs().items] == ["CANCELLED"]
    over = take_over(revision=2, job="report", not_before=now, now=now, seen=RunState.CANCELLED)
    assert services.ledger.move(run.ref, over).applied
    assert owner.rebuild_history(since=START - timedelta(hours=1)).corrected == 1
    assert owner.list_runs().items == []


def test_bad_calls_are_refused() -> None:
    clock = ManualClock(START)
    owner = Scheduler("acme", services=Memory(clock).connect(), clock=clock)
    with pytest.raises(InvalidInput, match=r"since=.*: leaves an empty interval"):
        owner.rebuild_history(since=START, until=START - timedelta(days=1))
    off = Scheduler("acme", settings=Settings(history=False), services=Memory(clock).connect(), clock=clock)
    with pytest.raises(Misconfigured, match="QUARTERJACK_HISTORY=off"):
        off.rebuild_history(since=START)
