"""The drawing of the state machine says what the transitions' guards allow: no arrow more, none less."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from quarterjack.domain.run import TERMINAL, RunState
from quarterjack.state.lease import LEASE, SKEW
from quarterjack.state.transition import EndWords, Row, Transition, holds
from quarterjack.state.waits.park import WaitSpec

from docs.generators import api
from tests.support.builders import BOOM, NOON, a_run
from tests.support.doc_pages import page

Arrow = tuple[str, str, str]  # from, to, transition
RUNS = page("docs/explanation/runs.md")

GIVEN: dict[str, Any] = {
    "revision": 2,
    "claim": a_run(revision=2, backfill="b"),
    "job": "report",
    "now": NOON,
    "not_before": NOON,
    "instant": NOON,
    "due": NOON,
    "expires": NOON,
    "reason": "r",
    "failure": BOOM,
    "fence": 1,
    "number": 1,
    "wake_at": NOON + 2,
    "wait": WaitSpec(awaits="sleep", reason="r", wake_at=NOON, not_before=NOON),
    "parked": False,
    "queue": "bulk",
    "overrides": None,
    "order": a_run(payload="1"),
    "token": "t",
    "version": "1",
    "served_by": "1",
    "worker": "w",
    "max_attempts": 3,
    "act": "a",
    "skipped": 9,
    "until": NOON + 1,
    "seen_skipped": 7,
    "seen_until": NOON,
}
# What a constructor is asked for besides: every alternative that it knows.
CHOICES: dict[str, list[dict[str, Any]]] = {
    "resubmit": [{"parked": False}, {"parked": True}],
    "take_over": [{"seen": state} for state in (RunState.QUEUED, RunState.CANCELLED)],
    "refuse": [{"to": RunState.SUPERSEDED}, {"to": RunState.CANCELLED}],
    "skip": [{"queued": True}, {"queued": False}],
    "pass_over": [{"to": RunState.SKIPPED}, {"to": RunState.CANCELLED}],
    "lease": [{"steal": True}, {"steal": False}],  # first= allows less
    "inter": [{"state": RunState.LOST}, {"state": RunState.EXPIRED}],
}


def made(name: str) -> Iterator[Transition]:
    make = api.transition_makers()[name]
    parameters = inspect.signature(make).parameters
    required = {n for n, p in parameters.items() if p.default is p.empty} - {"end"}
    required |= set(EndWords.__annotations__) if "end" in parameters else set()
    for choice in CHOICES.get(name, [{}]):
        yield make(**{n: (GIVEN | choice)[n] for n in required})


def rows(state: RunState) -> Iterator[Row]:
    """Rows in a state with everything else that a guard may ask for, one way and the other."""
    refused = state in (RunState.SUPERSEDED, RunState.CANCELLED)  # the only states that a run is refused into
    for revision, attempt, cancelled, lease_until, unstarted, begun in product(
        (1, 2), (1, 3), (False, True), (NOON + LEASE, NOON - SKEW - 1), (False, True), (False, True)
    ):
        row: dict[str, int | str | bool] = {
            "state": state,
            "rev": revision,
            "attempt": attempt,
            "fence": 1,
            "not_before": NOON,
            "lease_until": lease_until,
            "lease_token": "t",
            "leased_at": NOON,
            **({"started_at": NOON} if begun else {}),
            "skipped": 7,
            "skipped_until": NOON,
            "wait_no": 1,
            "app_version": "1",
            "wake_at": NOON + 1,
        }
        row |= {"cancel_requested": True} if cancelled else {}
        yield row | ({"unstarted": True} if unstarted and refused else {})


def allowed(name: str) -> set[Arrow]:
    return {
        (state, transition.to or state, name)
        for transition in made(name)
        for state in RunState
        if any(holds(transition.guard, row) for row in rows(state))
    }


def drawn() -> set[Arrow]:
    diagram = RUNS.text.partition("```mermaid")[2].partition("```")[0]
    found = re.findall(r"^ *([A-Z]+) --> ([A-Z]+): (.+)$", diagram, re.MULTILINE)
    return {(source, target, name.split()[0]) for source, target, names in found for name in names.split(", ")}


@pytest.mark.parametrize("name", api.transition_makers())
def test_the_arrows_of_a_transition_are_what_its_guard_allows(name: str) -> None:
    assert {arrow for arrow in drawn() if arrow[2] == name} == allowed(name)


def test_no_transition_is_drawn_that_does_not_exist() -> None:
    assert {name for _, _, name in drawn()} == set(api.transition_makers())


def test_every_state_is_in_the_drawing() -> None:
    assert {state for arrow in drawn() for state in arrow[:2]} == set(RunState)


def test_nothing_leads_out_of_a_terminal_state_but_what_the_page_admits() -> None:
    out = {(source, name) for source, target, name in drawn() if source in TERMINAL}
    refused = {(state, name) for state in ("SUPERSEDED", "CANCELLED") for name in ("take_over", "skip", "revive")}
    assert out == refused | {
        ("DEAD", "bury"),
        ("LOST", "inter"),
        ("EXPIRED", "inter"),
        ("SKIPPED", "recount"),
    }
