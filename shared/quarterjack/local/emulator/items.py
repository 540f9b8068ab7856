"""MiniStack's items: copied and measured in less time.

MiniStack (1.5) copies an item with ``copy.deepcopy`` up to three times at each update, and adds up the size of each item that it
writes or reads, digit by digit: together half the processor time of a statement. ``quicken_items`` replaces ``copy`` and
``_item_size_bytes`` in ``ministack.services.dynamodb``; results are equal. A release without these names is left as it is.
"""

from __future__ import annotations

import copy
import marshal
from collections.abc import Callable
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

_NEEDED = "copy", "_item_size_bytes", "_attribute_value_size", "_number_size_bytes"
_NUMBERS = 10_000  # whose size is remembered: those of a batch are much the same


def quicken_items(dynamodb: Any) -> None:
    """Let MiniStack's module of DynamoDB copy and measure items quickly."""
    if all(hasattr(dynamodb, name) for name in _NEEDED):
        dynamodb.copy = SimpleNamespace(deepcopy=copied)
        dynamodb._item_size_bytes = _sized(dynamodb)  # noqa: SLF001 (there is no other way in)


def copied(value: Any) -> Any:
    """A deep copy: of an item, whose values mostly are ``{type: text}``, in a tenth of the time."""
    if type(value) is not dict:
        return copy.deepcopy(value)
    made = dict[Any, Any]()
    for name, part in value.items():
        if type(part) is dict and len(part) == 1:
            ((kind, content),) = part.items()
            if type(content) is str:
                made[name] = {kind: content}
                continue
        made[name] = _copied(part)
    return made


def _copied(value: Any) -> Any:
    try:
        return marshal.loads(marshal.dumps(value))  # noqa: S302 (made here)
    except ValueError:  # something in it is no plain value
        return copy.deepcopy(value)


def _sized(dynamodb: Any) -> Callable[[Any], int]:
    """A function for the size of an item in bytes, as DynamoDB counts it."""
    size_of = dynamodb._attribute_value_size  # noqa: SLF001 (the same)
    number = lru_cache(_NUMBERS)(dynamodb._number_size_bytes)  # noqa: SLF001 (the same)

    def size(item: Any) -> int:
        total = 0
        for name, value in item.items() if isinstance(item, dict) else ():
            total += len(name) if name.isascii() else len(name.encode())
            kind, content = next(iter(value.items())) if type(value) is dict and len(value) == 1 else ("", None)
            if type(content) is not str:
                total += size_of(value)
            elif kind == "N":
                total += number(content)
            elif kind == "S" and content.isascii():
                total += len(content)
            else:
                total += size_of(value)
        return total

    return size
