"""The keys of the archive's objects in the bucket.

archive/tenant=<tenant>/day=<YYYY-MM-DD>/<HH>-<batch>-<hash>.jsonl.gz    transitions of one tenant and hour (UTC)

Keys sort by tenant and time. The key follows from the batch of the stream and from the content, so a repeated delivery overwrites
its own object; and half a batch, which a stream delivers after a failure, does not overwrite the whole.
"""

from __future__ import annotations

import hashlib
import re

from minutehand.domain.times import from_ms

ARCHIVE = "archive"
SUFFIX = ".jsonl.gz"
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_MOST_BATCH = 200  # characters
_HASH = 12  # characters
_LAST = "~"  # sorts after every character of a key


def object_key(tenant: str, at: int, batch: str, content: bytes) -> str:
    """The key of the lines of a batch whose hour contains ``at`` (UTC ms)."""
    name = _UNSAFE.sub("_", batch)[-_MOST_BATCH:]
    return f"{hour_prefix(tenant, at)}{name}-{hashlib.sha256(content).hexdigest()[:_HASH]}{SUFFIX}"


def tenant_prefix(tenant: str) -> str:
    return f"{ARCHIVE}/tenant={tenant}/"


def hour_prefix(tenant: str, at: int) -> str:
    """The keys of the hour that contains ``at`` (UTC ms) begin so."""
    return f"{tenant_prefix(tenant)}day={from_ms(at):%Y-%m-%d/%H}-"


def keys_between(tenant: str, since: int, until: int) -> tuple[str, str]:
    """Bounds of the keys of all hours that meet ``[since, until)`` (UTC ms): they are greater than the first, smaller than the last."""
    return hour_prefix(tenant, since), hour_prefix(tenant, max(until - 1, since)) + _LAST


def hour_of_key(key: str) -> str:
    """What the keys of one tenant and hour have in common."""
    folder, _, name = key.rpartition("/")
    return f"{folder}/{name.partition('-')[0]}-"
