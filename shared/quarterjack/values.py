"""Values: dataclasses that the type checker keeps from being changed. A fire makes about thirty of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

_T = TypeVar("_T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value(*, kw_only: bool = False) -> Callable[[type[_T]], type[_T]]:
    """A dataclass as ``@dataclass(frozen=True)`` to the type checker, whose constructor assigns each field in place of calling for it.

    For what is made for each fire or message, and for no class that users see (docs/adr/0032-plain-dataclasses.md).
    """
    return dataclass(unsafe_hash=True, kw_only=kw_only)
