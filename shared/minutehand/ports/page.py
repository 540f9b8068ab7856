"""A page of a listing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class RowPage:
    """Some rows in a stable order and where to go on; ``cursor`` is None at the end."""

    items: Sequence[Any]
    cursor: str | None = None
