"""A tenant's freeze as an item among the revisions, so that workers read both in one batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from minutehand.domain.freeze import Freeze, freeze_key


def freeze_row(freeze: Freeze) -> dict[str, Any]:
    """A freeze as a row."""
    owner, number = freeze_key(freeze.tenant)
    row: dict[str, Any] = {"owner": owner, "number": number, "until": freeze.until, "created_at": freeze.created_at}
    return row if freeze.note is None else row | {"note": freeze.note}


def freeze_of(row: Mapping[str, Any]) -> Freeze:
    """The reverse of ``freeze_row``."""
    return Freeze(
        tenant=row["owner"].partition("/")[0],
        until=int(row["until"]),
        note=row.get("note"),
        created_at=int(row["created_at"]),
    )
