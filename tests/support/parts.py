"""Long tests in parts: ``make test`` runs one part of each, another one every day; ``make check`` runs all.

``TURN`` in the environment chooses the parts; the head of pytest's report names it, so that a failure can be repeated.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

import pytest

TURN = int(os.environ.setdefault("TURN", str(int(time.time()) // 86_400)))  # pytest's workers inherit it


def in_turn(names: str, values: Sequence[Any], ids: Sequence[str]) -> pytest.MarkDecorator:
    """``pytest.mark.parametrize`` whose values are marked ``check``, all but one."""
    marks = [() if number == TURN % len(values) else (pytest.mark.check,) for number in range(len(values))]
    cases = zip(values, ids, marks, strict=True)
    return pytest.mark.parametrize(names, [pytest.param(value, id=name, marks=mark) for value, name, mark in cases])


def in_parts(count: int) -> pytest.MarkDecorator:
    """Run the test with ``part`` from 0 to ``count`` - 1, in turn."""
    return in_turn("part", range(count), [f"{part + 1}of{count}" for part in range(count)])
