"""Cursors of listings and bulk calls, made and read in one place: ``position~check``.

The check is a hash of the position and of the listing: tenant, conditions, bounds and order. A cursor that was shortened, typed or made
for another listing is therefore refused, instead of leaving something out.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, is_dataclass
from typing import Any

from quarterjack.errors import InvalidInput

_CHECK = 16  # characters of the hash


class Listing:
    """One listing: the name of the SDK's method, and all arguments that decide what it returns and in which order."""

    def __init__(self, call: str, *bounds: Any) -> None:
        self._bounds = json.dumps([call, *bounds], sort_keys=True, default=_plain)

    def cursor(self, position: str) -> str:
        """The cursor after a position: the key of the last item; "" before the first."""
        return f"{position}~{self._check(position)}"

    def next(self, position: str | None) -> str | None:
        """The cursor of the next page; None at the end."""
        return None if position is None else self.cursor(position)

    def position(self, cursor: object) -> str | None:
        """The position in a cursor; None from the start. Raises InvalidInput for a cursor that is not of this listing."""
        if cursor is None:
            return None
        position, separator, check = cursor.rpartition("~") if isinstance(cursor, str) else ("", "", "")
        if not separator or check != self._check(position):
            remedy = "pass the cursor of the page before, with the same conditions and bounds"
            raise InvalidInput("cursor", cursor, "is not of this listing", remedy)
        return position or None

    def _check(self, position: str) -> str:
        text = f"{self._bounds}~{position}".encode(errors="surrogatepass")
        return hashlib.sha256(text).hexdigest()[:_CHECK]


def _plain(value: Any) -> object:
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else str(value)
