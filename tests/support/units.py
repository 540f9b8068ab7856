"""Write units of an installation in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from quarterjack.testing.memory.tables import MemoryTables

_PRICES = {"transact": 2, "write_all": 1, "store": 1, "store_all": 1}


@contextmanager
def counted() -> Iterator[dict[str, int]]:
    """Write units by name of the table: rows below 1 KB, those of a transaction twice."""
    units: dict[str, int] = {}

    def note(writes: Any, price: int) -> None:
        for write in writes:
            units[write.table.suffix] = units.get(write.table.suffix, 0) + price

    with pytest.MonkeyPatch.context() as patch:
        for name, price in _PRICES.items():
            real = getattr(MemoryTables, name)

            def many(
                self: Any, verb: str, writes: Any, *more: Any, _real: Any = real, _price: int = price, **how: Any
            ) -> Any:
                note(writes, _price)
                return _real(self, verb, writes, *more, **how)

            patch.setattr(MemoryTables, name, many)
        write = MemoryTables.write

        def one(self: Any, verb: str, what: Any, **how: Any) -> Any:
            note([what], 1)
            return write(self, verb, what, **how)

        patch.setattr(MemoryTables, "write", one)
        yield units
