"""Whether the ticker keeps up, and what keeps runs from starting, as the SDK tells it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from quarterjack.owner.ticker_health import TickerState, state_of
from quarterjack.testing import Harness
from quarterjack.ticker.tick import tick

from tests.support.api import NOON, greeting_jobs


def harness() -> Harness:
    made = Harness(greeting_jobs(), at=NOON)
    made.scheduler.create_schedule("a", "greet", "0 * * * *", payload={"to": "Ada"})
    return made


def pass_without_ticks(made: Harness, by: timedelta) -> None:
    made.clock.advance(by)


@pytest.mark.parametrize(
    ("minutes", "state", "behind"),
    [
        (30, TickerState.ON_TIME, 0),
        (59, TickerState.ON_TIME, 0),
        (60, TickerState.SILENT, 0),
        (61, TickerState.SILENT, 60),
        (63, TickerState.LATE, 180),
    ],
)
def test_a_ticker_that_stopped_is_silent_and_then_late(minutes: int, state: TickerState, behind: int) -> None:
    made = harness()
    pass_without_ticks(made, timedelta(minutes=minutes))
    found = made.scheduler.ticker()
    assert (found.state, found.behind) == (state, timedelta(seconds=behind))
    assert found.late == (minutes >= 60)


def test_a_ticker_that_comes_back_is_on_time() -> None:
    made = harness()
    pass_without_ticks(made, timedelta(minutes=65))
    assert made.scheduler.ticker().state is TickerState.LATE
    tick(made.memory.connect(), clock=made.clock, holder="t")
    assert made.scheduler.ticker().state is TickerState.ON_TIME


def test_states_have_the_doctors_bounds() -> None:
    assert state_of(behind=120_000, silent=150_000) is TickerState.ON_TIME
    assert state_of(behind=0, silent=150_001) is TickerState.SILENT
    assert state_of(behind=120_001, silent=0) is TickerState.LATE


def test_a_freeze_tells_until_when_since_when_why_and_by_whom() -> None:
    made = harness()
    assert not made.scheduler.holds()
    made.scheduler.acting_as("bob@acme").freeze(NOON + timedelta(hours=4), reason="the database moves")
    found = made.scheduler.holds()
    assert found
    assert found.freeze is not None
    assert (found.freeze.until, found.freeze.since) == (NOON + timedelta(hours=4), NOON)
    assert (found.freeze.reason, found.freeze.actor) == ("the database moves", "app:bob@acme")
    made.scheduler.thaw()
    assert not made.scheduler.holds()


def test_a_suspension_tells_why() -> None:
    made = harness()
    made.tenants.suspend("default", reason="unpaid")
    suspended: Any = made.scheduler.holds().suspended
    assert "unpaid" in suspended
