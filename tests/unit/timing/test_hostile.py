"""Nothing that a tenant can write makes the engine spin, or raise anything but the one error."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from quarterjack.errors import ExpressionError
from quarterjack.timing import Rule, next_fires, pin

from tests.support.counted import calls_of
from tests.support.parts import in_parts
from tests.support.timing.expressions import at, ms
from tests.support.timing.hostile import hostile

MOST_CALLS = 400_000  # of functions, for one answer: some 20 ms; the worst of 50,000 inputs takes 270,000
PARTS = 4  # `make test` asks one, `make check` all


def create(expression: str, policies: dict[str, Any]) -> object:
    return pin(Rule(expression=expression, **policies), anchor=ms("2026-01-01"), key="k", seed="s")


def ask(expression: str, policies: dict[str, Any]) -> object:
    return next_fires(expression, after=at("2026-01-01"), count=1, key="k", **policies)


def answer(question: Callable[[str, dict[str, Any]], object], expression: str, policies: dict[str, Any]) -> None:
    try:
        question(expression, policies)
    except ExpressionError as error:
        complete = bool(error.field and error.problem and error.remedy)
        if not complete:
            raise


def check(inputs: list[tuple[str, dict[str, Any]]]) -> None:
    ask("* * * * *", {"calendar": "DE"})  # loads the package of holidays: once in a process, and nobody's doing
    for expression, policies in inputs:
        for question in (create, ask):
            calls = calls_of(partial(answer, question, expression, policies))
            assert calls <= MOST_CALLS, (expression, policies)


@in_parts(PARTS)
def test_a_thousand_hostile_inputs_are_answered_or_refused_with_bounded_work(part: int) -> None:
    check(hostile()[part::PARTS])


@pytest.mark.proof
@pytest.mark.parametrize("seed", range(10, 20))
def test_more_of_them(seed: int) -> None:
    check(hostile(5000, seed))
