"""The keys of the archive's objects in the bucket.

archive/inbox/<first>-<last>-<batch>-<hash>.jsonl.gz                     small tenants' transitions of one batch of the stream
archive/tenant=<tenant>/day=<YYYY-MM-DD>/<HH>-<batch>-<hash>.jsonl.gz    transitions of one tenant and hour (UTC)

The inbox sorts by time (UTC ms of the first and the last transition), the rest by tenant and time. A key follows from the batch and
from the content, so a repeated delivery overwrites its own object; and half a batch, which a stream delivers after a failure, does not
overwrite the whole.
"""

from __future__ import annotations

import hashlib
import re

from quarterjack.domain.times import DAY, HOUR, from_ms, stamp

ARCHIVE = "archive"
INBOX = f"{ARCHIVE}/inbox/"
SUFFIX = ".jsonl.gz"
AFTER_ALL = "~"  # sorts after every character of a key
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_MOST_BATCH = 200  # characters
_HASH = 12  # characters
_LONGEST = DAY  # between the transitions of an object
_INBOX = re.compile(rf"{INBOX}(\d+)-(\d+)-")


def object_key(tenant: str, at: int, batch: str, content: bytes) -> str:
    """The key of the lines of a batch whose hour contains ``at`` (UTC ms)."""
    return f"{hour_prefix(tenant, at)}{_name(batch, content)}"


def inbox_key(first: int, last: int, batch: str, content: bytes) -> str:
    """The key of the lines of a batch between two instants (UTC ms), of any tenants."""
    return f"{INBOX}{stamp(first)}-{stamp(last)}-{_name(batch, content)}"


def _name(batch: str, content: bytes) -> str:
    return f"{_UNSAFE.sub('_', batch)[-_MOST_BATCH:]}-{hashlib.sha256(content).hexdigest()[:_HASH]}{SUFFIX}"


def rewritten_key(key: str, content: bytes) -> str:
    """The key of an object of the inbox whose content was replaced: of the same batch and the same instants."""
    return f"{key.removesuffix(SUFFIX).rpartition('-')[0]}-{hashlib.sha256(content).hexdigest()[:_HASH]}{SUFFIX}"


def span_of_inbox(key: str) -> tuple[int, int] | None:
    """First and last instant (UTC ms) in an object of the inbox; None for a foreign object."""
    found = _INBOX.match(key)
    first, last = (int(found[1]), int(found[2])) if found else (0, -1)
    return (first, last) if first <= last <= first + _LONGEST else None


def tenant_prefix(tenant: str) -> str:
    return f"{ARCHIVE}/tenant={tenant}/"


def hour_prefix(tenant: str, at: int) -> str:
    """The keys of the hour that contains ``at`` (UTC ms) begin so."""
    return f"{tenant_prefix(tenant)}day={from_ms(at):%Y-%m-%d/%H}-"


def keys_between(tenant: str, since: int, until: int) -> tuple[str, str]:
    """Bounds of the keys of all hours that meet ``[since, until)`` (UTC ms): they are greater than the first, smaller than the last."""
    return hour_prefix(tenant, since), hour_prefix(tenant, max(until - 1, since)) + AFTER_ALL


def hour_of_key(key: str) -> str:
    """What the keys of one tenant and hour have in common."""
    folder, _, name = key.rpartition("/")
    return f"{folder}/{name.partition('-')[0]}-"


def hours_of(first: int, last: int) -> range:
    """The beginnings (UTC ms) of the hours that meet ``[first, last]``."""
    return range(first // HOUR * HOUR, last + 1, HOUR)
