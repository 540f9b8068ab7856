"""The state machine, exhaustively: every transition on every situation, and any sequence of them."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from quarterjack.domain.run import TERMINAL, Failure, RunState
from quarterjack.state import before_start, ending, lease
from quarterjack.state import lease as leasing
from quarterjack.state.transition import ERROR_TEXT, Once, Plus, holds
from quarterjack.state.waits import park as waiting
from quarterjack.testing.memory.tables import changed_row

from tests.support.builders import NOON, OWNER
from tests.support.rows import EXPIRES, HELD, NOW, SITUATIONS, Row, made

ALL = made()


def test_every_transition_is_here() -> None:
    constructors = {
        function
        for module in (before_start, leasing, ending, waiting)
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__
        if function.__annotations__["return"] == "Transition" and not name.startswith("_")
    }
    assert {function.__name__.rstrip("_") for function in constructors} == {t.name for t, _ in ALL.values()}


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_transition_applies_exactly_where_it_should(name: str, situation: str) -> None:
    transition, where = ALL[name]
    assert holds(transition.guard, SITUATIONS[situation]) == (situation in where)


SPOILT: list[tuple[str, dict[str, Any]]] = [
    ("take over queued", {"revision": 2}),
    ("take over refused", {"revision": 2}),
    ("refuse", {"revision": 1}),
    ("take back", {"revision": 1}),
    ("skip queued", {"revision": 1}),
    ("skip refused", {"revision": 1}),
    ("recount", {"seen_skipped": 6}),
    ("recount", {"seen_until": NOON}),
    ("shadow", {"revision": 1}),
    ("shadow", {"revision": 3}),
    ("shadow", {"now": NOON - 1}),
    ("line up", {"revision": 1}),
    ("pass over", {"revision": 1}),
    ("pass over", {"revision": 3}),
    ("terminate", {"revision": 1}),
    ("terminate", {"revision": 3}),
    ("give up", {"revision": 1}),
    ("give up", {"revision": 3}),
    ("lease", {"revision": 1}),
    ("lease", {"revision": 3}),
    ("lease", {"now": NOON - 1}),
    ("lease, no steal", {"now": NOON - 1}),
    ("lease, first", {"revision": 1}),
    ("lease, first", {"revision": 3}),
    ("lease, first", {"now": NOON - 1}),
    ("renew", {"fence": 2}),
    ("renew", {"fence": 4}),
    ("succeed", {"fence": 2}),
    ("continue", {"fence": 2}),
    ("park", {"fence": 2}),
    ("wake", {"number": 1}),
    ("wake", {"number": 3}),
    ("prolong", {"number": 1}),
    ("prolong", {"now": 2 * NOW}),
    ("cancelled", {"fence": 2}),
    ("retry", {"fence": 2}),
    ("release", {"fence": 2}),
    ("die", {"fence": 2}),
    ("expire", {"revision": 1}),
    ("exhaust", {"fence": 2}),
    ("exhaust", {"max_attempts": 3}),
    ("lose", {"token": "t9"}),
    ("bury", {"fence": 2}),
    ("bury", {"fence": 4}),
]


@pytest.mark.parametrize(("name", "spoilt"), SPOILT)
def test_no_transition_applies_that_was_meant_for_another(name: str, spoilt: dict[str, Any]) -> None:
    transition, _ = made(**spoilt)[name]
    assert not any(holds(transition.guard, row) for row in SITUATIONS.values())


@pytest.mark.parametrize(("attempts", "allowed"), [(1, False), (2, False), (3, True)])
def test_a_lease_needs_an_attempt_that_is_left(attempts: int, allowed: bool) -> None:
    transition, _ = made(max_attempts=attempts)["lease"]
    assert holds(transition.guard, SITUATIONS["retrying"]) == allowed
    assert holds(transition.guard, SITUATIONS["queued"])


@pytest.mark.parametrize("name", ALL)
def test_a_lost_answer_is_recognised(name: str) -> None:
    """What a write leaves says that it was made; and nothing says so of one that was not."""
    transition, where = ALL[name]
    for situation in where:
        after = changed_row(SITUATIONS[situation], transition.changes)
        assert holds(transition.already, after)
        if transition.to is not None:
            assert after["state"] == transition.to
    for situation in set(SITUATIONS) - where:
        row = SITUATIONS[situation]
        if holds(transition.already, row):
            assert transition.to is None or row["state"] == transition.to, "or somebody else made the same"


@pytest.mark.parametrize(
    "name",
    [
        "lease",
        "succeed",
        "retry",
        "release",
        "continue",
        "park",
        "wake",
        "die",
        "take over queued",
        "refuse",
        "skip queued",
        "shadow",
    ],
)
def test_no_transition_counts_twice(name: str) -> None:
    transition, where = ALL[name]
    for situation in where:
        assert not holds(transition.guard, changed_row(SITUATIONS[situation], transition.changes))


@pytest.mark.parametrize("name", ALL)
def test_what_a_transition_writes_fits_the_state(name: str) -> None:
    transition, where = ALL[name]
    for situation in where:
        row = changed_row(SITUATIONS[situation], transition.changes)
        _check(row | {"due": SITUATIONS[situation]["due"]} if name == "reschedule" else row)


def _check(row: Row) -> None:
    """What holds of every row."""
    state = RunState(row["state"])
    assert ("lease_until" in row) == ("lease_token" in row) == (state is RunState.RUNNING)
    assert ("ttl" in row) == (state in TERMINAL) == ("ended_at" in row)
    assert row["fence"] >= row["attempt"] >= 0
    unbegun = (
        row["attempt"] <= 1 and "started_at" not in row
    )  # leased ahead of its instant, and given back or taken back
    assert ("started_at" in row) == (row["fence"] > 0) or unbegun or state in (RunState.DEAD, RunState.SHADOWED)
    if "unstarted" in row:
        assert row["fence"] == 0
        assert state in (RunState.CANCELLED, RunState.SUPERSEDED)
    assert all(row[name] == SITUATIONS["queued"][name] for name in ("owner", "key", "due"))


# Sequences.

LIFE = [
    "take over queued",
    "take over refused",
    "refuse",
    "skip queued",
    "skip refused",
    "shadow",
    "give up",
    "lease",
    "renew",
    "succeed",
    "continue",
    "cancelled",
    "retry",
    "release",
    "die",
    "cancel",
    "request cancel",
    "hasten",
    "reassign",
    "wait for version",
    "expire",
    "exhaust",
    "lose",
    "cancel waiting",
    "bury",
]
steps = st.lists(st.tuples(st.sampled_from(LIFE), st.integers(-2, 2), st.integers(0, 200_000)), max_size=25)


@given(steps)
def test_no_sequence_of_transitions_breaks_a_row(taken: list[tuple[str, int, int]]) -> None:
    row: Row = dict(SITUATIONS["queued"])
    now, ended_by = NOW, ""
    for name, off, later in taken:
        now += later
        fitting = {"now": now, "fence": row["fence"] + off, "revision": row["rev"] + max(off, 0), "token": f"t{now}"}
        if name == "lose":
            fitting["token"] = row.get("lease_token", "")
        transition, _ = made(**fitting)[name]
        if not holds(transition.guard, row):
            continue
        before, row = row, changed_row(row, transition.changes)
        _check(row)
        assert row["fence"] == before["fence"] + (name == "lease")
        assert row["rev"] >= before["rev"]
        assert row.get("started_at", before.get("started_at")) == before.get("started_at", row.get("started_at"))
        if ended_by:
            assert (name, ended_by) in {
                ("take over refused", "refuse"),
                ("skip refused", "refuse"),
                ("bury", "die"),
                ("bury", "exhaust"),
                ("bury", "give up"),
                ("bury", "bury"),
            }
        ended_by = name if RunState(row["state"]) in TERMINAL else ""


@given(steps)
def test_a_fence_is_held_by_one(taken: list[tuple[str, int, int]]) -> None:
    """Whoever holds an older fence writes nothing, whatever happened since."""
    row: Row = dict(SITUATIONS["queued"])
    now, fences = NOW, [0]
    for name, off, later in taken:
        now += later
        fitting = {"now": now, "fence": row["fence"] + off, "revision": row["rev"], "token": f"t{now}"}
        transition, _ = made(**fitting)[name]
        if holds(transition.guard, row):
            row = changed_row(row, transition.changes)
            fences.append(row["fence"])
        for stale in fences:
            if stale < row["fence"]:
                held = made(fence=stale)
                assert not any(holds(held[n][0].guard, row) for n in ("renew", "succeed", "retry", "release", "die"))
    assert fences == sorted(fences)


# What is written.


def test_a_heartbeat_writes_what_there_is_to_say() -> None:
    assert set(leasing.renew(fence=1, now=NOW).changes) == {"lease_until"}
    assert leasing.renew(fence=1, now=NOW, progress=0.1234).changes["progress"] == 123
    assert leasing.renew(fence=1, now=NOW, stage="x").changes["stage"] == "x"


def test_a_run_stays_under_a_kilobyte() -> None:
    """An update bills the whole row."""
    huge = Failure(kind="E" * 5_000, message="m" * 5_000, code="c" * 5_000)
    dead = lease.die(fence=3, now=NOW, expires=EXPIRES, reason="failed 3 times", failure=huge)
    row = changed_row(SITUATIONS["running"] | {"owner": OWNER, "stage": "s" * 100}, dead.changes)
    assert sum(len(name) + len(str(value)) for name, value in row.items()) < 1_300
    assert len(row["error_type"]) == len(row["error"]) == ERROR_TEXT


def test_changes_that_depend_on_the_row_are_few_and_known() -> None:
    dependent = {
        (transition.name, name)
        for transition, _ in ALL.values()
        for name, change in transition.changes.items()
        if isinstance(change, (Plus, Once))
    }
    assert {name for name, _ in dependent} == {"lease", "release", "continue", "park", "bury"}


def test_those_that_hold_a_lease_are_those_that_run() -> None:
    assert {name for name, row in SITUATIONS.items() if row["state"] == "RUNNING"} == HELD
