"""Reads of the ledger: bounds, order, paging, cursors; sibling rows are never taken for runs."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest
from quarterjack.domain.run import RunRow, RunState
from quarterjack.domain.times import MINUTE
from quarterjack.ports.services import Services
from quarterjack.state.lease import succeed

from tests.support.builders import NOON, OWNER, a_one_off, a_run, an_attempt
from tests.support.lease_steps import HOUR, lease_of

FIRES = [NOON + i * MINUTE for i in range(12)]


@pytest.fixture
def runs(services: Services) -> list[RunRow]:
    """A dozen runs, one a minute, some attempts beside them, and runs of a neighbour whose name begins alike."""
    made = [a_run(fire) for fire in FIRES]
    services.ledger.claim([*made, a_run(NOON, owner=OWNER + "2"), a_run(NOON, owner="acme/repor")])
    for number in (1, 2):
        services.siblings.record(an_attempt(made[3], number=number))
    return made


def page(services: Services, **changes: Any) -> tuple[list[int], str | None]:
    given: dict[str, Any] = {"after": None, "upto": None, "limit": 100, "cursor": None, "newest_first": False}
    found = services.ledger.page(OWNER, **(given | changes))
    return [run.due for run in found.items], found.cursor


def test_all_runs_of_one_schedule_and_no_others(services: Services, runs: list[RunRow]) -> None:
    assert page(services) == (FIRES, None)
    assert page(services, newest_first=True) == (FIRES[::-1], None)


def test_bounds_are_open_below_and_closed_above(services: Services, runs: list[RunRow]) -> None:
    assert page(services, after=FIRES[2], upto=FIRES[5])[0] == FIRES[3:6]
    assert page(services, after=FIRES[2] - 1, upto=FIRES[5] - 1)[0] == FIRES[2:5]
    assert page(services, after=FIRES[5], upto=FIRES[2]) == ([], None)
    assert page(services, after=FIRES[-1]) == ([], None)


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize("limit", [1, 5, 6, 11, 12, 13])
def test_pages_follow_each_other_without_gap_or_repetition(
    services: Services, runs: list[RunRow], limit: int, newest_first: bool
) -> None:
    seen: list[int] = []
    cursor: str | None = None
    while True:
        dues, cursor = page(services, limit=limit, cursor=cursor, newest_first=newest_first)
        assert len(dues) <= limit
        seen += dues
        if cursor is None:
            break
    assert seen == (FIRES[::-1] if newest_first else FIRES)


def test_a_full_last_page_has_no_cursor(services: Services, runs: list[RunRow]) -> None:
    assert page(services, limit=12)[1] is None


def test_the_last_runs_of_several_schedules(services: Services, runs: list[RunRow]) -> None:
    found = services.ledger.last_runs([OWNER, OWNER + "2", "acme/none"], upto=FIRES[5], limit=3)
    assert {owner: [run.due for run in some] for owner, some in found.items()} == {
        OWNER: FIRES[5:2:-1],
        OWNER + "2": [NOON],
        "acme/none": [],
    }
    assert services.ledger.last_runs([], upto=NOON, limit=3) == {}


def test_never_leased_finds_what_waits(services: Services, runs: list[RunRow]) -> None:
    lease_of(services, runs[1])
    lease_of(services, runs[4])
    services.ledger.move(runs[4].ref, succeed(fence=1, now=NOON, expires=NOON + HOUR))
    waiting = [fire for i, fire in enumerate(FIRES) if i not in (1, 4)]
    assert [run.due for run in services.ledger.never_leased(OWNER, after=None)] == waiting
    some = services.ledger.never_leased(OWNER, after=FIRES[0])
    assert [run.due for run in some] == [fire for fire in waiting if fire > FIRES[0]]
    assert list(services.ledger.never_leased("acme/nobody", after=None)) == []


def test_never_leased_pages_past_what_it_skips(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quarterjack.testing.memory.tables.PAGE", 3)
    made = [a_run(NOON + i * MINUTE, owner="acme/many") for i in range(30)]
    services.ledger.claim(made)
    for run in made[2:20]:
        lease_of(services, run)
    assert len(list(services.ledger.never_leased("acme/many", after=None))) == 12


def test_a_window_holds_runs_in_every_state(services: Services, runs: list[RunRow]) -> None:
    lease_of(services, runs[3])
    found = list(services.ledger.window(OWNER, after=FIRES[1], upto=FIRES[4]))
    assert [run.due for run in found] == FIRES[2:5]
    assert [run.state for run in found] == [RunState.QUEUED, RunState.RUNNING, RunState.QUEUED]


def test_the_latest_come_first_and_only_as_far_as_asked(services: Services, runs: list[RunRow]) -> None:
    assert [run.due for run in islice(services.ledger.latest(OWNER, upto=FIRES[9]), 3)] == FIRES[9:6:-1]
    assert [run.due for run in services.ledger.latest(OWNER, upto=FIRES[9])] == FIRES[9::-1]
    assert list(services.ledger.latest(OWNER, upto=NOON - 1)) == []


# Attempts.


def test_attempts_come_back_oldest_first_and_whole(services: Services, runs: list[RunRow]) -> None:
    kept = [an_attempt(runs[3], number=number) for number in (1, 2)]
    assert list(services.siblings.attempts(runs[3].ref)) == kept
    assert list(services.siblings.attempts(runs[4].ref)) == []


def test_a_last_attempt_has_no_next(services: Services) -> None:
    last = an_attempt(a_one_off(), number=3, next_attempt_at=None)
    services.siblings.record(last)
    assert list(services.siblings.attempts(last.run)) == [last]


def test_ten_attempts_are_in_order(services: Services) -> None:
    run = a_one_off("many")
    for number in range(12, 0, -1):
        services.siblings.record(an_attempt(run, number=number))
    assert [attempt.number for attempt in services.siblings.attempts(run.ref)] == list(range(1, 13))


@pytest.mark.parametrize("rows", [1, 4, 100])
def test_pages_of_unfinished_runs_are_bounded_and_go_on_where_they_ended(
    services: Services, runs: list[RunRow], rows: int
) -> None:
    lease_of(services, runs[0])
    services.ledger.move(runs[0].ref, succeed(fence=1, now=NOON, expires=NOON + HOUR))
    parts, seen, calls = dict.fromkeys(range(2), ""), list[RunRow](), 0
    while parts:
        found, parts = services.upkeep.unfinished(parts, segments=2, rows=rows)
        assert len(found) <= 2 * rows
        seen, calls = [*seen, *found], calls + 1
    assert {run.ref for run in seen} == {run.ref for run in services.upkeep.runs(segment=0, segments=1)} - {runs[0].ref}
    assert len(seen) == len({run.ref for run in seen}) == 13
    assert calls >= 12 // (2 * rows)
