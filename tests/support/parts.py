"""Long tests in parts: ``make test`` runs one part of each, another one every day; ``make check`` runs all.

``TURN`` in the environment chooses the parts; the head of pytest's report names it, so that a failure can be repeated.
What takes a tenth of a second of processor time or more and has no parts is in ``tests/long_tests.txt``, which `tests.support.costs`
writes: a third of these is in ``make test``, another third the next day; of those that take half a second, a sixth.

``make check`` runs all but `IN_TURNS`: kinds of tests of which each searches what the others of its kind search as well, with another
seed, fault, page or set of knobs. Of their long functions it runs a third of the cases each day; ``make proof`` runs the others.

For `make pythons`, ``--files=5`` reads a fifth of the files of tests and ``--cases=2`` keeps two parameter sets of each test
function, other ones every day.
"""

from __future__ import annotations

import os
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import pytest

Test = TypeVar("Test", bound=Callable[..., object])
LONG = Path(__file__).parents[1] / "long_tests.txt"
DAYS = {0.5: 6, 0.1: 3}  # processor seconds of a function with all cases, or more → days in which each case runs once
# Files of which `make check` runs a third each day ("*" stands for "/", too), and functions wherever they are.
IN_TURNS = (
    *("nights/test_*.py", "proof/test_*.py", "packaging/test_extras.py", "acceptance/test_*.py", "infra/test_*.py"),
    *("unit/*histories.py", "unit/*interleaving.py", "unit/flow/test_clocks.py", "unit/history/test_books.py"),
    *("unit/restore/test_waits.py", "unit/restore/test_restore.py", "unit/owner/test_audit_random.py"),
    *(
        "unit/worker/admission/test_breakers*.py",
        "unit/fires/test_automatic_backfill.py",
        "unit/fires/test_catch_up.py",
    ),
    *("unit/eraser/test_late.py", "unit/moving/test_border.py", "unit/concurrency/test_write_budget.py"),
    *("unit/console/test_in_a_browser.py", "unit/browser/test_*.py", "unit/local/*.py", "unit/timing/test_tally.py"),
    *("unit/bench/test_growth.py", "unit/bench/test_capacity*.py", "unit/bench/test_ratio.py"),
    *("test_pairs_of_crashes", "test_some_pairs_of_crash_points"),
)
# All of it every day: crash points at a write, forms, what is granted and to whom, the document of the HTTP API.
WHOLE = (
    *("test_every_single_crash_point_at_a_write", "proof/test_forms.py", "*grant*.py", "infra/test_permissions.py"),
    *("infra/test_tenant_secrets.py", "acceptance/test_served_conformance.py"),
)
_CHECK_DAYS = 3
TURN = int(os.environ.setdefault("TURN", str(int(time.time()) // 86_400)))  # pytest's workers inherit it


def in_its_turn(name: str, of: int, *, turn: int = TURN) -> bool:
    """Whether today is the day, one in ``of``, of what has this name."""
    return zlib.crc32(name.encode()) % of == turn % of


def sample(ids: Sequence[str], cases: int, *, turn: int = TURN) -> set[str]:
    """Of each test function at most so many of the ids of its parameter sets, as far apart as can be; ``turn`` moves on by one set."""
    of_function = defaultdict[str, list[str]](list)
    for name in ids:
        of_function[name.partition("[")[0]].append(name)
    return {name for names in of_function.values() for name in _apart(names, min(cases, len(names)), turn)}


def _apart(names: Sequence[str], count: int, turn: int) -> list[str]:
    return [names[(turn + number * len(names) // count) % len(names)] for number in range(count)]


def in_turn(
    names: str | Sequence[str], values: Sequence[Any], ids: Sequence[str], *, of: int | None = None
) -> pytest.MarkDecorator:
    """``pytest.mark.parametrize`` whose values are marked ``check``, all but one; with ``of=4``, all but every fourth.

    Each of the values is in ``make test`` once in so many days as there are values, or once in ``of``.
    """
    turns = of or len(values)
    marks = [
        (pytest.mark.turn if number % turns == TURN % turns else pytest.mark.check,) for number in range(len(values))
    ]
    cases = zip(values, ids, marks, strict=True)
    single = isinstance(names, str)
    params = [pytest.param(*((value,) if single else value), id=name, marks=mark) for value, name, mark in cases]
    return pytest.mark.parametrize(names, params)


def in_parts(count: int) -> pytest.MarkDecorator:
    """Run the test with ``part`` from 0 to ``count`` - 1, in turn."""
    return in_turn("part", range(count), [f"{part + 1}of{count}" for part in range(count)])


def in_rotation(*, of: int) -> Callable[[Test], Test]:
    """Mark a whole test ``check`` but for one day in ``of``, each test on another day."""

    def marked(test: Test) -> Test:
        its_day = in_its_turn(f"{test.__module__}.{test.__qualname__}", of)
        marked: Test = pytest.mark.turn(test) if its_day else pytest.mark.check(test)
        return marked

    return marked


class LongTests:
    """Today's part of the long tests: functions by their place among those of as many days, and their cases one by one."""

    def __init__(self, costs: Mapping[str, float], *, turn: int = TURN) -> None:
        """``costs``: processor seconds of each function, the longest first, so that long ones are due on different days."""
        of_days = defaultdict[int, list[str]](list)
        for name, cost in costs.items():
            of_days[next(days for least, days in DAYS.items() if cost >= least)].append(name)
        self._places = {name: (place, days) for days, names in of_days.items() for place, name in enumerate(names)}
        self._turn = turn
        self._cases = defaultdict[str, int](int)  # that were met, of each function

    def marks(self, item: pytest.Item) -> None:
        """Mark the test ``check``, or ``turn`` if it is its day; one that has a mark of these, or ``proof``, keeps it.

        If it is of a kind that takes turns in `make check`, also ``turn`` if it is its day there, or ``later``.
        """
        name = getattr(item, "originalname", None) or item.name
        if name not in self._places or item.get_closest_marker("proof"):
            return
        number, days = self._next(name)
        if not any(item.get_closest_marker(mark) for mark in ("check", "turn")):
            item.add_marker("turn" if number % days == self._turn % days else "check")
        if days == max(DAYS.values()) and takes_turns(item.path, name) and not item.get_closest_marker("turn"):
            item.add_marker("turn" if number % _CHECK_DAYS == self._turn % _CHECK_DAYS else "later")

    def is_due(self, name: str) -> bool:
        """Whether the next case of a function that is in the list is one of today's."""
        number, days = self._next(name)
        return number % days == self._turn % days

    def _next(self, name: str) -> tuple[int, int]:
        place, days = self._places[name]
        number = place + self._cases[name]
        self._cases[name] += 1
        return number, days


@cache
def takes_turns(path: Path, name: str) -> bool:
    """Whether a test function is of a kind that takes turns in `make check`."""
    file = str(path.relative_to(LONG.parent))
    return any(_is(kind, file, name) for kind in IN_TURNS) and not any(_is(kind, file, name) for kind in WHOLE)


def _is(kind: str, file: str, name: str) -> bool:
    return name == kind or fnmatch(file, kind)


def long_tests() -> dict[str, float]:
    """The functions that take turns and their processor seconds, the longest first."""
    lines = [line.split() for line in LONG.read_text().splitlines() if line and not line.startswith("#")]
    return {name: float(cost) for cost, name in lines}
