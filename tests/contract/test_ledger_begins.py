"""The first lease of a run that nobody claimed: it puts the row, once, and everything after it finds what a claim and a lease leave."""

from __future__ import annotations

from minutehand.domain.run import RunRow, RunState
from minutehand.domain.times import MINUTE, SECOND
from minutehand.ports.services import Services
from minutehand.state.ledger_levels import first_lease
from minutehand.state.transitions import continue_, refuse, release, succeed

from tests.builders import NOON, a_message, a_run
from tests.contract.steps import HOUR, lease_of


def leased(fire: int = NOON, token: str = "mine") -> RunRow:
    return first_lease(a_message(a_run(fire)), now=NOON, token=token, worker="w1", max_attempts=3)


def test_it_puts_what_a_claim_and_a_lease_leave(services: Services) -> None:
    moved = services.ledger.begin([leased()])[a_run().ref]
    claimed = a_run(NOON + MINUTE, created_at=NOON)
    services.ledger.claim([claimed])
    other = lease_of(services, claimed, now=NOON + MINUTE)
    assert moved.applied
    assert moved.run == services.ledger.read(a_run().ref) == leased()
    assert (other.state, other.fence, other.attempt, other.slices) == (RunState.RUNNING, 1, 1, leased().slices)


def test_a_second_one_is_refused_and_shown_the_row(services: Services) -> None:
    services.ledger.begin([leased()])
    moved = services.ledger.begin([leased(token="other")])[a_run().ref]
    assert (moved.applied, moved.run) == (False, leased())


def test_each_of_a_batch_is_answered_for_itself(services: Services) -> None:
    services.ledger.claim([a_run(NOON + i * SECOND) for i in range(0, 60, 7)])
    answers = services.ledger.begin([leased(NOON + i * SECOND) for i in range(60)])
    refused = {ref for ref, moved in answers.items() if not moved.applied}
    assert len(answers) == 60
    assert refused == {a_run(NOON + i * SECOND).ref for i in range(0, 60, 7)}
    assert {moved.run.state for ref, moved in answers.items() if moved.run and ref in refused} == {RunState.QUEUED}


def test_what_was_put_as_taken_back_refuses_it_and_can_be_told_from_what_its_owner_cancelled(
    services: Services,
) -> None:
    refused = a_run(state=RunState.CANCELLED, ended_at=NOON, reason="paused", unstarted=True)
    cancelled = a_run(NOON + MINUTE, state=RunState.CANCELLED, ended_at=NOON, reason="requested", cancel_requested=True)
    services.ledger.claim([refused, cancelled])
    answers = services.ledger.begin([leased(), leased(NOON + MINUTE)])
    assert [(moved.applied, moved.run) for moved in answers.values()] == [(False, refused), (False, cancelled)]


def test_it_ends_as_any_other(services: Services) -> None:
    runs = [leased(NOON + i * SECOND) for i in range(3)]
    services.ledger.begin(runs)
    move = services.ledger.move
    assert move(runs[0].ref, succeed(fence=1, now=NOON + 5, expires=NOON + HOUR)).applied
    again = move(runs[1].ref, continue_(fence=1, now=NOON + 5)).run
    assert again is not None
    assert (again.state, again.slices, again.attempt) == (RunState.CONTINUED, 1, 0)
    assert move(runs[2].ref, release(fence=1, now=NOON + 5)).applied
    back = refuse(to=RunState.CANCELLED, revision=1, now=NOON, expires=NOON + HOUR, reason="paused")
    assert not any(move(run.ref, back).applied for run in runs)
