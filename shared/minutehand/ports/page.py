"""A page of a listing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class RowPage:
    """Rows of a listing in a stable order."""

    items: Sequence[Any]
    cursor: str | None = None  # pass it to read the next page; None at the end
