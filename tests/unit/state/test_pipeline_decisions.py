"""What follows from the ends of tasks: joins, halts, skipped tasks, what a repeated run takes over."""

from __future__ import annotations

from itertools import permutations, product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from quarterjack.domain.names import RunRef, one_off_ref
from quarterjack.domain.pipelines.graph import Graph, Join, Task
from quarterjack.domain.run import RunRow, RunState
from quarterjack.state.pipelines.decide import (
    HALTED,
    NOT_HELD,
    NOT_MADE,
    End,
    decide,
    digest_of,
    end_of,
    inherited,
    mark_of,
    ref_by_mark,
    task_ref,
)

RUN = RunRef("acme/p", "20260504T120000000Z")
STARTS = {  # by the ends of two tasks: s, f, x (skipped), - (none yet)
    Join.ALL: {"ss": True, "s-": None, "--": None, "sf": False, "f-": False, "x-": False, "sx": False, "fx": False},
    Join.ANY: {"s-": True, "sf": True, "sx": True, "f-": None, "--": None, "ff": False, "fx": False, "xx": False},
    Join.NONE_FAILED: {"ss": True, "sx": True, "xx": True, "s-": None, "x-": None, "f-": False, "sf": False},
    Join.DONE: {"ss": True, "ff": True, "fx": True, "xx": True, "f-": None, "x-": None, "s-": None, "--": None},
}
MARK = {"s": "S", "f": "D", "x": "W"}


def graph(*tasks: Task, halts: bool = False) -> Graph:
    return Graph(tasks=tasks, halts=halts)


def task(name: str, *after: str, join: Join = Join.ALL, optional: bool = False) -> Task:
    return Task(name=name, job="j", after=after, join=join, optional=optional)


@pytest.mark.parametrize(
    ("join", "ends", "starts"),
    [(join, ends, starts) for join, table in STARTS.items() for ends, starts in table.items()],
)
def test_a_join(join: Join, ends: str, starts: bool | None) -> None:
    of = graph(task("a"), task("b"), task("c", "a", "b", join=join))
    for order in set(permutations(ends)):
        marks = {number: MARK[end] for number, end in enumerate(order, 1) if end != "-"}
        found = decide(of, marks)
        assert (3 in found.start) is (starts is True)
        assert (found.ends.get(3) is End.SKIPPED) is (starts is False)
        assert found.is_over is (starts is False and "-" not in ends)


@pytest.mark.parametrize(
    ("marks", "starts"),
    [
        ({1: "D", 2: "S"}, False),
        ({1: "W", 2: "S"}, True),
        ({1: "W"}, None),
        ({1: "W", 2: "D"}, False),
        ({1: "D", 2: "S", 3: "K"}, False),
    ],
)
def test_none_failed_sees_a_failure_behind_tasks_that_never_start(marks: dict[int, str], starts: bool | None) -> None:
    of = graph(task("a"), task("b"), task("c", "a", "b"), task("d", "c"), task("e", "d", join=Join.NONE_FAILED))
    found = decide(of, marks)
    assert (5 in found.start, found.ends.get(5) is End.SKIPPED) == (starts is True, starts is False)


def test_a_task_is_passed_over_when_it_would_start() -> None:
    of = graph(task("a"), task("b", "a"), task("c", "b"), task("d", "b", join=Join.DONE))
    assert decide(of, {2: "K"}).start == (1,)
    assert decide(of, {2: "K"}).ends == {}
    assert decide(of, {1: "S", 2: "K"}).start == (3, 4)
    skipped = decide(of, {1: "D", 2: "K"})
    assert (skipped.start, skipped.ends[2], skipped.ends[3]) == ((4,), End.SKIPPED, End.SKIPPED)


def test_a_halted_pipeline_closes_what_could_start() -> None:
    tasks = task("a"), task("b"), task("c", "a", join=Join.DONE), task("d", "b"), task("e", "c", join=Join.DONE)
    found = decide(graph(*tasks, halts=True), {1: "D"})
    assert (found.start, found.close, found.is_over) == ((), (2, 3), False)
    assert decide(graph(*tasks), {1: "D"}).start == (2, 3)
    over = decide(graph(*tasks, halts=True), {1: "D", 2: "N", 3: "N", 5: "N"})
    assert (over.close, over.ends[4], over.is_over) == ((), End.SKIPPED, True)


@pytest.mark.parametrize(
    ("mark", "end", "if_optional"),
    [
        ("S", End.SUCCEEDED, End.SUCCEEDED),
        ("S0123", End.SUCCEEDED, End.SUCCEEDED),
        ("K", End.SUCCEEDED, End.SUCCEEDED),
        ("W", End.SKIPPED, End.SKIPPED),
        ("N", End.SKIPPED, End.SKIPPED),
        ("Bno value", End.FAILED, End.SUCCEEDED),
        *((letter, End.FAILED, End.SUCCEEDED) for letter in "DLEC"),
    ],
)
def test_a_mark(mark: str, end: End, if_optional: End) -> None:
    assert end_of(task("a"), mark) is end
    assert end_of(task("a", optional=True), mark) is if_optional


@pytest.mark.parametrize(
    ("state", "reason", "mark"),
    [
        (RunState.SUCCEEDED, None, "S"),
        (RunState.DEAD, HALTED, "D"),
        (RunState.SKIPPED, "skipped by its owner", "K"),
        (RunState.SKIPPED, HALTED, "N"),
        (RunState.SKIPPED, NOT_HELD, "W"),
        (RunState.SKIPPED, NOT_MADE + "x has no value", "Bx has no value"),
    ],
)
def test_the_mark_of_a_run(state: RunState, reason: str | None, mark: str) -> None:
    run = RunRow(ref=one_off_ref("acme", "k"), state=state, revision=0, job="j", due=0, not_before=0, reason=reason)
    assert mark_of(run) == mark


def test_a_mark_without_a_task_is_left_out() -> None:
    assert decide(graph(task("a")), {1: "S", 7: "D"}).is_over


def test_a_repeated_run_takes_over_what_succeeded_and_what_comes_before_it_did() -> None:
    of = graph(task("a"), task("b"), task("c", "b", join=Join.DONE), task("d", "a"), task("e"), task("f", "e"))
    marks = {1: "S", 2: "D", 3: "S", 4: "Sfeed", 5: "K", 6: "S"}
    mine = digest_of(RUN)
    assert inherited(of, marks, RUN) == {1: f"S{mine}", 4: "Sfeed", 5: "K", 6: f"S{mine}"}


def test_a_repeated_run_does_not_take_over_a_failure_that_was_optional_behind_one_that_runs_again() -> None:
    of = graph(task("a"), task("b", "a", join=Join.DONE, optional=True))
    assert inherited(of, {1: "D", 2: "D"}, RUN) == {}


def test_the_run_of_a_task_follows_from_its_pipeline_and_its_mark() -> None:
    other = RunRef("acme/p", "20260505T120000000Z")
    assert task_ref(RUN, "p", "a") == ref_by_mark(RUN, "p", "a", "S") == ref_by_mark(RUN, "p", "a", "Bno value")
    assert task_ref(other, "p", "a") == ref_by_mark(RUN, "p", "a", f"S{digest_of(other)}") != task_ref(RUN, "p", "a")


@given(st.integers(0, 2**32), st.booleans())
def test_who_sees_fewer_ends_starts_nothing_that_others_skip(seed: int, halts: bool) -> None:
    """Marks come one after the other, in any order: what was once to start, or was skipped, is never the other thing later."""
    dice = Random(seed)
    count = dice.randint(2, 7)
    of = graph(
        *(
            task(
                f"t{number}",
                *(f"t{each}" for each in range(number) if dice.random() < 0.4),
                join=dice.choice(list(Join)),
            )
            for number in range(count)
        ),
        halts=halts,
    )
    marks, started, skipped, earlier = dict[int, str](), set[int](), set[int](), dict[int, End]()
    while True:
        found = decide(of, marks)
        assert not {*found.start, *found.close} & skipped
        assert all(found.ends.get(number) is not End.SKIPPED for number in started - marks.keys())
        started |= {*found.start, *found.close}
        skipped |= {number for number, end in found.ends.items() if end is End.SKIPPED}
        assert all(found.ends[number] is end for number, end in earlier.items())
        earlier = dict(found.ends)
        open_tasks = [number for number in started if number not in marks]
        assert found.is_over is (len(found.ends) == count)
        if not open_tasks:
            assert found.is_over
            return
        if dice.random() < 0.3:  # an owner skips a task that has no run yet
            marks |= {number: "K" for number in [dice.randint(1, count)] if number not in started | marks.keys()}
            continue
        number = dice.choice(open_tasks)
        marks[number] = "N" if number in found.close else dice.choice("SSSDW")


def test_all_orders_of_three_ends_come_to_the_same() -> None:
    of = graph(task("a"), task("b"), task("c", "a", join=Join.ANY), task("d", "b", "c", join=Join.NONE_FAILED))
    for marks in product("SDW", repeat=3):
        whole = decide(of, dict(enumerate(marks, 1)))
        for order in permutations(range(1, 4)):
            seen = dict[int, str]()
            for number in order:
                seen[number] = marks[number - 1]
            assert decide(of, seen) == whole
