"""Short questions for the tests."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from quarterjack.errors import ExpressionError
from quarterjack.timing import next_fires


def at(text: str) -> datetime:
    """``2026-03-29T01:00`` in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def ms(text: str) -> int:
    return int(at(text).timestamp() * 1000)


def ask(expression: Any, zone: str, after: str, count: int = 3, **policies: Any) -> list[str]:
    """The next fires as local text with offset: ``03-29T03:00+02:00`` (the year and ``:00`` seconds are left out)."""
    fires = next_fires(expression, timezone=zone, after=at(after), count=count, **policies)
    return [short(fire) for fire in fires]


def short(fire: datetime) -> str:
    text = fire.isoformat(timespec="seconds")
    date, clock, offset = text[5:10], text[11:19], text[19:]
    return f"{date}T{clock.removesuffix(':00')}{offset}"


def refused(expression: Any, **policies: Any) -> ExpressionError:
    """The error with which an expression is refused."""
    with pytest.raises(ExpressionError) as caught:
        next_fires(expression, after=at("2026-01-01"), count=1, **policies)
    return caught.value
