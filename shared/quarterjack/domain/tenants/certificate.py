"""The certificate of an erasure: what was removed, and what remains, where, until when and why. Pure."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from quarterjack.domain.tenants.erasure import Erasure, Kept
from quarterjack.domain.times import DAY, from_ms

CERTIFICATES = "erasures/"  # the keys of certificates in the archive's bucket begin so
BACKUPS = 35  # days that point-in-time recovery reaches back
MESSAGES = 14  # days that a queue keeps a message
_STREAM = 1  # days that a stream keeps a change
_UPLOADS = 7  # days after which a rule of the bucket removes parts of unfinished uploads


@dataclass(frozen=True, kw_only=True)
class Remainder:
    """What an erasure leaves."""

    what: str
    where: str
    count: int | None = None  # None: nobody has counted it
    until: int | None = None  # UTC ms; None: see ``why``
    why: str


def certificate_key(tenant: str, erasure_id: str) -> str:
    """The object of a certificate in the archive's bucket."""
    return f"{CERTIFICATES}{tenant}/{erasure_id}.json.gz"


def document_of(erasure: Erasure) -> dict[str, Any]:
    """The certificate as JSON; of an erasure that has not ended, what is known so far."""
    ended_at = erasure.ended_at
    return {
        "tenant": erasure.tenant,
        "id": erasure.id,
        "asked_at": _text(erasure.since),
        "began_at": _text(erasure.began_at),
        "ended_at": _text(ended_at),
        "actor": erasure.actor,
        "reason": erasure.reason,
        "passes": erasure.number,
        "removed": {str(kind): count for kind, count in sorted(erasure.removed.items()) if count},
        "remains": [] if ended_at is None else [_listed(each) for each in remainders(erasure, ended_at)],
    }


def packed(erasure: Erasure) -> bytes:
    """The object of a certificate: the same for the same erasure."""
    return gzip.compress(json.dumps(document_of(erasure), sort_keys=True).encode(), mtime=0)


def remainders(erasure: Erasure, ended_at: int) -> Iterator[Remainder]:
    """What is left at the end of an erasure, as its last pass met it, and what no pass can reach."""
    yield from _kept(erasure)
    tenant = erasure.tenant
    yield Remainder(
        what="the tenant's name, the state ERASED and this certificate",
        where=f"table tenants, {tenant}; archive's bucket, {CERTIFICATES}{tenant}/",
        why="so that the name is not used again, and what comes late is dropped; for good",
    )
    yield Remainder(
        what="rows as they were",
        where="point-in-time recovery of the tables, if it is on",
        until=ended_at + BACKUPS * DAY,
        why="a backup cannot be changed; a table that is restored from it must be erased anew",
    )
    yield Remainder(
        what="messages that name runs",
        where="the queues",
        until=ended_at + MESSAGES * DAY,
        why="a queue cannot be searched; whoever receives such a message drops it",
    )
    yield Remainder(
        what="changes of runs",
        where="the stream of the table runs",
        until=ended_at + _STREAM * DAY,
        why="a stream cannot be changed; the historian drops them",
    )
    yield Remainder(
        what="log lines that name runs and schedules",
        where="the log groups of functions, the logs of other processes, CloudTrail and access logs",
        why="for the retention of each; Quarterjack cannot remove them",
    )
    yield Remainder(
        what="parts of unfinished uploads",
        where="the bucket",
        until=ended_at + _UPLOADS * DAY,
        why="a rule of the bucket removes them",
    )
    yield Remainder(
        what="what left the installation",
        where="receivers of events and notices, exports and backups that you made",
        why="Quarterjack cannot reach them",
    )


_WHERE = {
    Kept.DIGEST: (
        "table audit",
        "they say nothing of the text, and the record of the others' days rests on them; for good",
    ),
    Kept.CLOSE: (
        "table audit; archive's bucket, audit/",
        "closes and their anchors: hashes, days and numbers; for good",
    ),
    Kept.DAY: ("table audit", "that the tenant had lines of a day; for good"),
    Kept.OWN_ENTRY: ("table audit", "who erased the tenant, and who was refused since; for good"),
    Kept.LOCKED: (
        "archive's bucket, under the tenant's prefix",
        "nobody can remove them before their lock ends; erase again then",
    ),
    Kept.DAMAGED: ("bucket, archive/inbox/", "they may have lines of any tenant; repair or remove them by hand"),
    Kept.UNKNOWN: ("table runs, partitions ~quarterjack/…", "this release does not know how to rewrite them"),
}


def _kept(erasure: Erasure) -> Iterator[Remainder]:
    for kind, (where, why) in _WHERE.items():
        if count := erasure.kept.get(kind, 0):
            until = erasure.locked_until if kind is Kept.LOCKED else None
            yield Remainder(what=str(kind), where=where, count=count, until=until, why=why)


def _listed(each: Remainder) -> dict[str, Any]:
    return {name: value for name, value in vars(each).items() if value is not None} | (
        {} if each.until is None else {"until": _text(each.until)}
    )


def _text(at: int | None) -> str | None:
    return None if at is None else from_ms(at).isoformat().replace("+00:00", "Z")
