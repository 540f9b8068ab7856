"""Payloads as text: JSON as UTF-8 counts it, canonical, so that the same payload is the same text and the same object in the bucket."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

# Halves of a surrogate pair are no UTF-8, and the other two no character that SQS takes: JSON can say them in ASCII.
_UNSENDABLE = re.compile("[\ud800-\udfff\ufffe\uffff]")


# Levels of lists and dicts within each other: [] has one, 1 has none. Fixed and far below the 1,000 frames at which Python's reader
# of JSON gives up, wherever on its stack it is called: what is accepted once is read everywhere. Other languages' readers stop as
# early (.NET at 64, Ruby at 100), and a run is also read through the table's console, logs and notifications.
MAX_DEPTH = 64
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]', re.DOTALL)


_compact: dict[str, Any] = {"separators": (",", ":"), "allow_nan": False, "ensure_ascii": False}
_encode, _encode_sorted = (json.JSONEncoder(sort_keys=by_key, **_compact).encode for by_key in (False, True))


def json_text(value: Any, *, sort_keys: bool = False) -> str:
    """JSON that tables and queues take. Raises ValueError or TypeError for what JSON cannot say, NaN included."""
    text = (_encode_sorted if sort_keys else _encode)(value)
    return text if text.isascii() else _UNSENDABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def size(text: str) -> int:
    """Bytes of a text, as limits and bills count them."""
    return len(text) if text.isascii() else len(text.encode())


def is_too_deep(text: str, most: int = MAX_DEPTH) -> bool:
    """Whether JSON text has more than ``most`` levels. Reads what is no JSON as well, and never recurses."""
    if text.count("[") + text.count("{") <= most:
        return False
    depth = 0
    for found in _BRACKETS.finditer(text):
        first = text[found.start()]
        if first in "[{":
            depth += 1
            if depth > most:
                return True
        elif first in "]}":
            depth -= 1
    return False


def object_key(prefix: str, tenant: str, text: str) -> str:
    """Where a text lies in the bucket: by its content, so that it is stored once a tenant."""
    return f"{prefix}/{tenant}/{hashlib.sha256(text.encode()).hexdigest()}"


def is_object_of(key: str, tenant: str, text: str) -> bool:
    """Whether the object behind a key is this text."""
    prefix, _, _ = key.partition("/")
    return key == object_key(prefix, tenant, text)
