"""Durations and instants as people say them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from quarterjack.terminal import relative, span

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0 ms"),
        (0.412, "412 ms"),
        (-0.412, "-412 ms"),
        (3.24, "3.2 s"),
        (2, "2 s"),
        (59.9, "59 s"),
        (60, "1 min"),
        (125, "2 min 5 s"),
        (3_600, "1 h"),
        (3_605, "1 h"),
        (108_060, "1 d 6 h"),
        (-7_260, "-2 h 1 min"),
        (86_400 * 1_234, "1,234 d"),
    ],
)
def test_a_span(seconds: float, said: str) -> None:
    assert span(timedelta(seconds=seconds)) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.9, "now"),
        (-0.9, "now"),
        (49, "in 49 s"),
        (125, "in 2 min"),
        (-200, "3 min ago"),
        (108_060, "in 1 d 6 h"),
        (-86_400 * 400, "400 d ago"),
    ],
)
def test_an_instant_as_seen_from_now(seconds: float, said: str) -> None:
    assert relative(NOW + timedelta(seconds=seconds), NOW) == said
