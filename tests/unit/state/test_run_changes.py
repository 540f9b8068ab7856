"""Which transition a change of a row was: every transition on every situation, and any sequence of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from quarterjack.domain.history.run_change import RunChange
from quarterjack.domain.history.transition_line import TransitionKind, TransitionLine, line_of, parse_line
from quarterjack.domain.names import aside_ref, fire_ref, one_off_ref
from quarterjack.domain.run import RunRow, RunState
from quarterjack.errors import Unreadable
from quarterjack.state.before_start import reschedule
from quarterjack.state.history.run_changes import transition_of
from quarterjack.state.transition import Transition, holds
from quarterjack.stores.rows import run_of
from quarterjack.testing.memory.tables import changed_row

from tests.support.builders import BOOM, NOON, OWNER, a_one_off, a_run
from tests.support.rows import NOW, SITUATIONS, Row, made

ALL = made()

# What the archive says of each transition; None: nothing. An end is named for its state.
EXPECTED: dict[str, TransitionKind | None] = {
    "take_over": TransitionKind.TAKEN_OVER,
    "revive": TransitionKind.REVIVED,
    "refuse": TransitionKind.CANCELLED,
    "take_back": TransitionKind.CANCELLED,
    "skip": TransitionKind.SKIPPED,
    "recount": TransitionKind.RECOUNTED,
    "shadow": TransitionKind.SHADOWED,
    "reschedule": TransitionKind.TAKEN_OVER,  # of a fire, which is never rescheduled; of a one-off see below
    "wait_for_turn": TransitionKind.QUEUED,
    "pass_over": TransitionKind.SKIPPED,
    "terminate": TransitionKind.CANCELLED,
    "give_up": TransitionKind.DEAD,
    "lease": TransitionKind.LEASED,
    "renew": None,
    "succeed": TransitionKind.SUCCEEDED,
    "continue": TransitionKind.CONTINUED,
    "park": TransitionKind.PARKED,
    "wake": TransitionKind.WOKEN,
    "unpark": TransitionKind.WOKEN,
    "prolong": None,
    "resubmit": TransitionKind.TAKEN_OVER,  # as reschedule
    "requeue": TransitionKind.TAKEN_OVER,  # likewise
    "cancelled": TransitionKind.CANCELLED,
    "retry": TransitionKind.RETRIED,
    "release": TransitionKind.RELEASED,
    "die": TransitionKind.DEAD,
    "cancel": TransitionKind.CANCELLED,
    "request_cancel": TransitionKind.CANCEL_REQUESTED,
    "hasten": TransitionKind.HASTENED,
    "reassign": None,
    "wait_for_version": TransitionKind.QUEUED,
    "expire": TransitionKind.EXPIRED,
    "exhaust": TransitionKind.DEAD,
    "lose": TransitionKind.LOST,
    "cancel_waiting": TransitionKind.CANCELLED,
    "inter": TransitionKind.BURIED,
    "bury": TransitionKind.DEAD,  # of a run that had not ended; else BURIED
}


def seen(old: Row | None, new: Row | None, *, sequence: int = 1, expired: bool = False) -> TransitionLine | None:
    rows = [None if row is None else run_of(row) for row in (old, new)]
    ref = next(row.ref for row in rows if row is not None)
    return transition_of(RunChange(ref=ref, sequence=sequence, at=NOW, old=rows[0], new=rows[1], expired=expired))


def expected(transition: Transition, before: Row) -> TransitionKind | None:
    return (
        TransitionKind.BURIED if transition.name == "bury" and before["state"] == "DEAD" else EXPECTED[transition.name]
    )


@pytest.mark.parametrize("name", ALL)
def test_every_transition_is_recognised(name: str) -> None:
    transition, where = ALL[name]
    for situation in where - {"running, cancel asked", "abandoned, cancel asked"}:
        before = SITUATIONS[situation]
        line = seen(before, changed_row(before, transition.changes))
        assert (line and line.kind) == expected(transition, before)


def test_a_one_off_that_was_moved_says_to_when() -> None:
    before = SITUATIONS["queued"] | {"owner": "acme/~one", "key": "once", "rev": 0}
    line = seen(before, changed_row(before, reschedule(revision=0, due=NOW).changes))
    assert line is not None
    assert (line.kind, line.due, line.not_before, line.revision) == (TransitionKind.RESCHEDULED, NOW, NOW, 1)


def test_a_second_request_to_cancel_is_none() -> None:
    before = SITUATIONS["running, cancel asked"]
    assert seen(before, changed_row(before, ALL["request cancel"][0].changes)) is None


@given(st.lists(st.tuples(st.sampled_from(sorted(ALL)), st.integers(-2, 2), st.integers(0, 200_000)), max_size=25))
def test_any_sequence_is_told_as_it_was(taken: list[tuple[str, int, int]]) -> None:
    row: Row = dict(SITUATIONS["queued"])
    now, state = NOW, RunState.QUEUED
    for name, off, later in taken:
        now += later
        fitting = {"now": now, "fence": row["fence"] + off, "revision": row["rev"] + max(off, 0), "token": f"t{now}"}
        transition, _ = made(**fitting)[name]
        if not holds(transition.guard, row):
            continue
        before, row = row, changed_row(row, transition.changes)
        line = seen(before, row, sequence=now)
        if line is None:
            assert before.get("cancel_requested") or before == row or _says_nothing(transition, before, row)
            continue
        assert line.kind == expected(transition, before)
        assert (line.before, line.after) == (state, RunState(row["state"]))
        assert (line.fence, line.attempt, line.revision) == (row["fence"], row["attempt"], row["rev"])
        assert parse_line(line_of(line)) == line
        state = RunState(row["state"])


def _says_nothing(transition: Transition, before: Row, after: Row) -> bool:
    same_reason = transition.name == "wait_for_turn" and before.get("reason") == after["reason"]
    same_time = transition.name == "hasten" and before["not_before"] == after["not_before"]
    is_told = before["state"] == "QUEUED" and before.get("reason") != after.get("reason")
    unserved = transition.name == "wait_for_version" and not is_told
    return transition.name in ("renew", "reassign") or same_reason or same_time or unserved


@pytest.mark.parametrize(
    ("run", "kind"),
    [
        (a_run(), TransitionKind.CLAIMED),
        (a_run(backfill="b"), TransitionKind.CLAIMED),
        (a_one_off(), TransitionKind.SUBMITTED),
        (a_run(ref=aside_ref(OWNER, NOON, "trigger-1")), TransitionKind.SUBMITTED),
        (a_run(ref=aside_ref(OWNER, NOON, "gap"), state=RunState.SKIPPED, skipped=3), TransitionKind.SKIPPED),
        (a_run(state=RunState.SKIPPED), TransitionKind.SKIPPED),
        (a_run(state=RunState.RUNNING, fence=1), TransitionKind.REBUILT),
        (a_run(state=RunState.SUCCEEDED, fence=1), TransitionKind.REBUILT),
    ],
)
def test_the_first_line_says_how_the_run_came(run: RunRow, kind: TransitionKind) -> None:
    line = transition_of(RunChange(ref=run.ref, sequence=1, at=NOW, old=None, new=run))
    assert line is not None
    assert (line.kind, line.before, line.after) == (kind, None, run.state)
    assert (line.tenant, line.schedule) == ("acme", None if run.ref.is_one_off else "report")


def test_what_expires_is_not_reported_and_what_is_deleted_is() -> None:
    row = SITUATIONS["succeeded"]
    assert seen(row, None, expired=True) is None
    line = seen(row, None)
    assert line is not None
    assert (line.kind, line.before, line.after) == (TransitionKind.REMOVED, RunState.SUCCEEDED, None)


def test_an_error_of_an_earlier_attempt_is_not_that_of_a_success() -> None:
    running = SITUATIONS["running"] | {"error_type": BOOM.kind, "error": BOOM.message}
    for name, kind in (("succeed", None), ("die", "ValueError"), ("retry", "ValueError")):
        line = seen(running, changed_row(running, ALL[name][0].changes))
        assert line is not None
        assert line.error_type == kind


def test_a_line_holds_no_payload_no_result_and_no_message() -> None:
    secret = {"payload": '"s3cret"', "result": '"s3cret"', "error_type": "E", "error": "s3cret", "stage": "s3cret"}
    before = SITUATIONS["running"] | secret
    line = seen(before, changed_row(before, ALL["die"][0].changes) | {"error": "s3cret"})
    assert line is not None
    assert "s3cret" not in line_of(line)


def test_lines_of_a_later_release_are_read_as_far_as_they_are_known() -> None:
    line = seen(None, SITUATIONS["queued"], sequence=10**30)
    assert line is not None
    text = line_of(line)
    assert parse_line(text[:-1] + ',"later":{"x":1}}') == line
    assert parse_line(text.encode()) == line


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"run":"x"}', "null", '"text"'])
def test_a_line_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(Unreadable, match="line of the archive cannot be read"):
        parse_line(text)


def test_an_unknown_kind_is_refused() -> None:
    line: Any = seen(None, SITUATIONS["queued"] | {"owner": "acme/~one", "key": "once"})
    with pytest.raises(Unreadable):
        parse_line(line_of(line).replace("submitted", "teleported"))


def test_lines_sort_by_time() -> None:
    made_lines = [
        TransitionLine(
            ref=ref, kind=TransitionKind.CLAIMED, sequence=sequence, at=at, job="j", revision=1, fence=0, attempt=0
        )
        for at, sequence, ref in (
            (1_000, 9, fire_ref(OWNER, NOON)),
            (1_000, 10, fire_ref(OWNER, NOON)),
            (2_000, 1, one_off_ref("acme", "a")),
        )
    ]
    assert sorted(made_lines, key=lambda line: line.order) == made_lines
