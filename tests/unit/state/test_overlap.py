"""Who may go, who waits, who is passed over: the table of policies, and what no sequence of decisions breaks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from quarterjack.domain.options import Options, Overlap
from quarterjack.domain.run import RunState
from quarterjack.domain.times import SECOND, stamp
from quarterjack.state.overlap import Decision, QueuedRun, RunHolder, Slot, Turn, decide, governed

from tests.support.builders import NOON, a_run


def pair(number: int) -> RunHolder:
    return RunHolder(stamp(NOON + number * SECOND), 1)


def live(number: int) -> QueuedRun:
    return QueuedRun(behind=False, holder=pair(number))


def backfilled(number: int) -> QueuedRun:
    return QueuedRun(behind=True, holder=pair(number))


def held(*holders: int, waiting: tuple[QueuedRun, ...] = (), limit: int = 1) -> Slot:
    return Slot(revision=1, limit=limit, holders=tuple(map(pair, holders)), waiting=waiting)


def under(policy: str, *, buffer: int = 100) -> Options:
    return Options(overlap=Overlap(policy), buffer=buffer)


@pytest.mark.parametrize("policy", Overlap)
def test_whoever_finds_room_goes(policy: str) -> None:
    decision = decide(held(), live(1), under(policy))
    assert (decision.turn, decision.slot) == (Turn.GO, held(1))


@pytest.mark.parametrize("policy", Overlap)
def test_a_holder_goes_again_and_nothing_is_written(policy: str) -> None:
    """A retry, a duplicate, a worker that died between slot and lease."""
    slot = held(1, waiting=(live(2),))
    assert decide(slot, live(1), under(policy)) == Decision(turn=Turn.GO, slot=slot)


@pytest.mark.parametrize(
    ("policy", "waiting", "turn", "line"),
    [
        ("skip", [], Turn.SKIP, []),
        ("buffer_one", [], Turn.WAIT, [9]),
        ("buffer_one", [2], Turn.SKIP, [2]),
        ("buffer_all", [], Turn.WAIT, [9]),
        ("buffer_all", [2], Turn.WAIT, [2, 9]),
        ("buffer_all", [2, 3], Turn.SKIP, [2, 3]),
        ("allow", [2], Turn.WAIT, [2, 9]),  # with max_running
        ("allow", [2, 3], Turn.SKIP, [2, 3]),
        ("cancel_other", [], Turn.CANCEL, [9]),
        ("cancel_other", [2], Turn.CANCEL, [9]),
        ("cancel_other", [10], Turn.SKIP, [10]),
        ("terminate_other", [], Turn.TERMINATE, []),
        ("terminate_other", [10], Turn.SKIP, [10]),
    ],
)
def test_where_there_is_no_room_the_policy_decides(
    policy: str, waiting: list[int], turn: Turn, line: list[int]
) -> None:
    slot = held(1, waiting=tuple(map(live, waiting)))
    decision = decide(slot, live(9), under(policy, buffer=2))
    assert (decision.turn, [waiter.holder for waiter in decision.slot.waiting]) == (turn, [pair(n) for n in line])
    assert decision.slot.holders == slot.holders


@pytest.mark.parametrize("policy", ["cancel_other", "terminate_other"])
def test_an_older_run_never_takes_the_place_of_a_newer_one(policy: str) -> None:
    """It was delivered late."""
    assert decide(held(5), live(1), under(policy)).turn is Turn.SKIP


@pytest.mark.parametrize("policy", Overlap)
def test_a_backfilled_run_waits_behind_the_others_whatever_the_policy(policy: str) -> None:
    slot = held(100, waiting=(live(200),))
    decision = decide(slot, backfilled(1), under(policy, buffer=1))
    assert (decision.turn, decision.slot.waiting) == (Turn.WAIT, (live(200), backfilled(1)))


def test_a_line_moves_up_by_time_and_not_by_arrival() -> None:
    decision = decide(held(limit=2, waiting=(live(3), live(5))), live(4), under("buffer_all"))
    assert (decision.turn, decision.slot) == (Turn.GO, held(3, 4, limit=2, waiting=(live(5),)))


def test_a_new_policy_finds_what_the_old_one_let_go() -> None:
    going = [a_run(n, revision=1, state=state) for n, state in enumerate(RunState)]
    slot = governed(Slot(), 2, under("skip"), going)
    assert {p.key for p in slot.holders} == {
        run.ref.key for run in going if run.state in (RunState.RUNNING, RunState.RETRYING, RunState.CONTINUED)
    }
    assert (slot.revision, slot.limit, slot.room) == (2, 1, 0)


def test_only_the_end_of_a_run_as_its_revision_has_it_is_final() -> None:
    """A resumed schedule takes a cancelled run over: that is another holder."""
    taken_over = a_run(1, revision=2)
    assert RunHolder(taken_over.ref.key, 1).is_over(taken_over)
    assert not RunHolder(taken_over.ref.key, 2).is_over(taken_over)
    assert RunHolder(taken_over.ref.key, 2).is_over(None)


def test_a_slot_is_read_as_it_was_written() -> None:
    slot = held(1, 2, limit=2, waiting=(QueuedRun(behind=False, holder=pair(3), until=NOON), backfilled(0)))
    assert Slot.of(slot.body()) == slot
    assert Slot.of(slot.body()).waiting[0].until == NOON


@given(
    asks=st.lists(st.tuples(st.integers(0, 30), st.booleans()), max_size=40),
    policy=st.sampled_from(Overlap),
    limit=st.integers(1, 3),
    ends=st.randoms(use_true_random=False),
)
def test_no_sequence_of_decisions_lets_more_go_than_there_is_room(
    asks: list[tuple[int, bool]], policy: Overlap, limit: int, ends: object
) -> None:
    slot, options = held(limit=limit), Options(overlap=policy, buffer=3)
    for number, behind in asks:
        if slot.holders and ends.random() < 0.3:  # type: ignore[attr-defined]
            slot = slot.without([ends.choice(slot.holders)]).moved_up()  # type: ignore[attr-defined]
        decision = decide(slot, QueuedRun(behind, pair(number)), options)
        slot = decision.slot if decision.turn is not Turn.TERMINATE else slot
        assert len(slot.holders) <= limit
        assert len({p.key for p in slot.holders} | {w.holder.key for w in slot.waiting}) == len(slot.holders) + len(
            slot.waiting
        )
        assert sum(not waiter.behind for waiter in slot.waiting) <= 3 + limit
        assert decision.turn is Turn.GO or pair(number) not in slot.holders


def test_a_late_message_of_an_older_revision_takes_nobodys_place() -> None:
    """Found by the simulator: it took the place of the very run that a newer revision had in the line, which then had nobody."""
    newer = QueuedRun(behind=False, holder=RunHolder(pair(2).key, 5))
    for slot in (held(1, waiting=(newer,)), Slot(revision=5, holders=(newer.holder,))):
        decision = decide(slot, live(2), under("buffer_all"))
        assert decision == Decision(turn=Turn.GO, slot=slot), "to a lease that is refused"
    taken_over = decide(held(1, waiting=(live(2),)), newer, under("buffer_all"))
    assert [waiter.holder.revision for waiter in taken_over.slot.waiting] == [5]
