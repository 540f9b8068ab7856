"""Payloads as text: JSON as UTF-8 counts it, canonical, so that the same payload is the same text and the same object in the bucket."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

# Halves of a surrogate pair are no UTF-8, and the other two no character that SQS takes: JSON can say them in ASCII.
_UNSENDABLE = re.compile("[\ud800-\udfff\ufffe\uffff]")


_compact: dict[str, Any] = {"separators": (",", ":"), "allow_nan": False, "ensure_ascii": False}
_encode, _encode_sorted = (json.JSONEncoder(sort_keys=by_key, **_compact).encode for by_key in (False, True))


def json_text(value: Any, *, sort_keys: bool = False) -> str:
    """JSON that tables and queues take. Raises ValueError or TypeError for what JSON cannot say, NaN included."""
    text = (_encode_sorted if sort_keys else _encode)(value)
    return text if text.isascii() else _UNSENDABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def size(text: str) -> int:
    """Bytes of a text, as limits and bills count them."""
    return len(text) if text.isascii() else len(text.encode())


def object_key(prefix: str, tenant: str, text: str) -> str:
    """Where a text lies in the bucket: by its content, so that it is stored once a tenant."""
    return f"{prefix}/{tenant}/{hashlib.sha256(text.encode()).hexdigest()}"


def is_object_of(key: str, tenant: str, text: str) -> bool:
    """Whether the object behind a key is this text."""
    prefix, _, _ = key.partition("/")
    return key == object_key(prefix, tenant, text)
