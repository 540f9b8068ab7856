"""The clock."""

from __future__ import annotations

from collections.abc import Callable

Clock = Callable[[], int]  # UTC ms
