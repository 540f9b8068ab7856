"""``rebuild_history`` fills the history from the ledger."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from minutehand import Scheduler, Settings
from minutehand.errors import InvalidInput, Misconfigured
from minutehand.testing import ManualClock, Memory

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


def test_bad_calls_are_refused() -> None:
    clock = ManualClock(START)
    owner = Scheduler("acme", services=Memory(clock).connect(), clock=clock)
    with pytest.raises(InvalidInput, match=r"since=.*: leaves an empty interval"):
        owner.rebuild_history(since=START, until=START - timedelta(days=1))
    off = Scheduler("acme", settings=Settings(history=False), services=Memory(clock).connect(), clock=clock)
    with pytest.raises(Misconfigured, match="MINUTEHAND_HISTORY=off"):
        off.rebuild_history(since=START)
