"""Who may go, who waits, who is passed over: the table of policies, and what no sequence of decisions breaks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from quarterjack.domain.options import Options, Overlap
from quarterjack.domain.run import RunState
from quarterjack.domain.times import SECOND, stamp
from quarterjack.state.overlap import Decision, QueuedRun, RunHolder, TurnAnswer, Turns, decide, governed

from tests.support.builders import NOON, a_run


def pair(number: int) -> RunHolder:
    return RunHolder(stamp(NOON + number * SECOND), 1)


def live(number: int) -> QueuedRun:
    return QueuedRun(behind=False, holder=pair(number))


def backfilled(number: int) -> QueuedRun:
    return QueuedRun(behind=True, holder=pair(number))


def held(*holders: int, waiting: tuple[QueuedRun, ...] = (), limit: int = 1) -> Turns:
    return Turns(revision=1, limit=limit, holders=tuple(map(pair, holders)), waiting=waiting)


def under(policy: str, *, buffer: int = 100) -> Options:
    return Options(overlap=Overlap(policy), buffer=buffer)


@pytest.mark.parametrize("policy", Overlap)
def test_whoever_finds_room_goes(policy: str) -> None:
    decision = decide(held(), live(1), under(policy))
    assert (decision.answer, decision.turns) == (TurnAnswer.GO, held(1))


@pytest.mark.parametrize("policy", Overlap)
def test_a_holder_goes_again_and_nothing_is_written(policy: str) -> None:
    """A retry, a duplicate, a worker that died between turn and lease."""
    turns = held(1, waiting=(live(2),))
    assert decide(turns, live(1), under(policy)) == Decision(answer=TurnAnswer.GO, turns=turns)


@pytest.mark.parametrize(
    ("policy", "waiting", "answer", "queue"),
    [
        ("skip", [], TurnAnswer.SKIP, []),
        ("buffer_one", [], TurnAnswer.WAIT, [9]),
        ("buffer_one", [2], TurnAnswer.SKIP, [2]),
        ("buffer_all", [], TurnAnswer.WAIT, [9]),
        ("buffer_all", [2], TurnAnswer.WAIT, [2, 9]),
        ("buffer_all", [2, 3], TurnAnswer.SKIP, [2, 3]),
        ("allow", [2], TurnAnswer.WAIT, [2, 9]),  # with max_running
        ("allow", [2, 3], TurnAnswer.SKIP, [2, 3]),
        ("cancel_other", [], TurnAnswer.CANCEL, [9]),
        ("cancel_other", [2], TurnAnswer.CANCEL, [9]),
        ("cancel_other", [10], TurnAnswer.SKIP, [10]),
        ("terminate_other", [], TurnAnswer.TERMINATE, []),
        ("terminate_other", [10], TurnAnswer.SKIP, [10]),
    ],
)
def test_where_there_is_no_room_the_policy_decides(
    policy: str, waiting: list[int], answer: TurnAnswer, queue: list[int]
) -> None:
    turns = held(1, waiting=tuple(map(live, waiting)))
    decision = decide(turns, live(9), under(policy, buffer=2))
    assert (decision.answer, [waiter.holder for waiter in decision.turns.waiting]) == (answer, [pair(n) for n in queue])
    assert decision.turns.holders == turns.holders


@pytest.mark.parametrize("policy", ["cancel_other", "terminate_other"])
def test_an_older_run_never_takes_the_place_of_a_newer_one(policy: str) -> None:
    """It was delivered late."""
    assert decide(held(5), live(1), under(policy)).answer is TurnAnswer.SKIP


@pytest.mark.parametrize("policy", Overlap)
def test_a_backfilled_run_waits_behind_the_others_whatever_the_policy(policy: str) -> None:
    turns = held(100, waiting=(live(200),))
    decision = decide(turns, backfilled(1), under(policy, buffer=1))
    assert (decision.answer, decision.turns.waiting) == (TurnAnswer.WAIT, (live(200), backfilled(1)))


def test_a_queue_moves_up_by_time_and_not_by_arrival() -> None:
    decision = decide(held(limit=2, waiting=(live(3), live(5))), live(4), under("buffer_all"))
    assert (decision.answer, decision.turns) == (TurnAnswer.GO, held(3, 4, limit=2, waiting=(live(5),)))


def test_a_new_policy_finds_what_the_old_one_let_go() -> None:
    going = [a_run(n, revision=1, state=state) for n, state in enumerate(RunState)]
    turns = governed(Turns(), 2, under("skip"), going)
    assert {p.key for p in turns.holders} == {
        run.ref.key
        for run in going
        if run.state in (RunState.RUNNING, RunState.RETRYING, RunState.CONTINUED, RunState.PARKED)
    }
    assert (turns.revision, turns.limit, turns.room) == (2, 1, 0)


def test_only_the_end_of_a_run_as_its_revision_has_it_is_final() -> None:
    """A resumed schedule takes a cancelled run over: that is another holder."""
    taken_over = a_run(1, revision=2)
    assert RunHolder(taken_over.ref.key, 1).is_over(taken_over)
    assert not RunHolder(taken_over.ref.key, 2).is_over(taken_over)
    assert RunHolder(taken_over.ref.key, 2).is_over(None)


def test_a_turn_is_read_as_it_was_written() -> None:
    turns = held(1, 2, limit=2, waiting=(QueuedRun(behind=False, holder=pair(3), until=NOON), backfilled(0)))
    assert Turns.of(turns.body()) == turns
    assert Turns.of(turns.body()).waiting[0].until == NOON


@given(
    asks=st.lists(st.tuples(st.integers(0, 30), st.booleans()), max_size=40),
    policy=st.sampled_from(Overlap),
    limit=st.integers(1, 3),
    ends=st.randoms(use_true_random=False),
)
def test_no_sequence_of_decisions_lets_more_go_than_there_is_room(
    asks: list[tuple[int, bool]], policy: Overlap, limit: int, ends: object
) -> None:
    turns, options = held(limit=limit), Options(overlap=policy, buffer=3)
    for number, behind in asks:
        if turns.holders and ends.random() < 0.3:  # type: ignore[attr-defined]
            turns = turns.without([ends.choice(turns.holders)]).moved_up()  # type: ignore[attr-defined]
        decision = decide(turns, QueuedRun(behind, pair(number)), options)
        turns = decision.turns if decision.answer is not TurnAnswer.TERMINATE else turns
        assert len(turns.holders) <= limit
        assert len({p.key for p in turns.holders} | {w.holder.key for w in turns.waiting}) == len(turns.holders) + len(
            turns.waiting
        )
        assert sum(not waiter.behind for waiter in turns.waiting) <= 3 + limit
        assert decision.answer is TurnAnswer.GO or pair(number) not in turns.holders


def test_a_late_message_of_an_older_revision_takes_nobodys_place() -> None:
    """Found by the simulator: it took the place of the very run that a newer revision had in the line, which then had nobody."""
    newer = QueuedRun(behind=False, holder=RunHolder(pair(2).key, 5))
    for turns in (held(1, waiting=(newer,)), Turns(revision=5, holders=(newer.holder,))):
        decision = decide(turns, live(2), under("buffer_all"))
        assert decision == Decision(answer=TurnAnswer.GO, turns=turns), "to a lease that is refused"
    taken_over = decide(held(1, waiting=(live(2),)), newer, under("buffer_all"))
    assert [waiter.holder.revision for waiter in taken_over.turns.waiting] == [5]
