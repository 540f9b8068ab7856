"""Cursors of listings of runs: where to go on, as text that says nothing to its holder. Both drivers read and write the same."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from minutehand.domain.names import RunRef, parse_run_id
from minutehand.errors import InvalidInput


def encode_cursor(row: Mapping[str, Any]) -> str:
    """The cursor after a row."""
    return base64.urlsafe_b64encode(json.dumps([row["owner"], row["key"]]).encode()).decode()


def decode_cursor(cursor: str, owner: str) -> str:
    """The key behind a cursor of an owner's listing. Raises InvalidInput: a table refuses a start that is no key of a run."""
    try:
        of, key = json.loads(base64.urlsafe_b64decode(cursor.encode()))
        if of != owner or parse_run_id(str(RunRef(of, key))).key != key:
            raise ValueError(key)
    except (ValueError, TypeError, AttributeError, RecursionError) as problem:
        raise InvalidInput(
            "cursor", cursor, "is not of this listing", "pass the cursor of the page before"
        ) from problem
    return str(key)
