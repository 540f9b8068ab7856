"""Settings: every field that says it has a variable is read from it."""

from __future__ import annotations

from dataclasses import fields

import pytest
from minutehand.settings import Settings, from_environment

NUMBERS = [field.name for field in fields(Settings) if isinstance(field.default, int)]


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_is_read_from_its_variable(name: str) -> None:
    other = getattr(Settings(), name) + (1_000 if name == "ticker_writes" else 1)
    assert getattr(from_environment({f"MINUTEHAND_{name.upper()}": str(other)}), name) == other
