"""The audit: one entry for each object that an act of an owner changed, and the closes of its days.

An entry's digest covers all its attributes and its salt. The close of a day covers the digests of its entries, and the close before it:

    entry ─► digest ─┐
    entry ─► digest ─┴─► root ──► close 7 ──► close 8 ──► …

So the text of an entry may be erased later, with its salt: its digest stays and says nothing about the text.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any, Literal

from quarterjack.domain.tenants.caller import Via
from quarterjack.domain.times import DAY, HOUR, from_ms, stamp
from quarterjack.values import value

LATE = HOUR  # ms after its end at which a day closes: a stalled process may still write its entry until then
ANCHORS = "audit/"  # the keys of closes in the archive's bucket begin so
GATES = 16  # items by which the transactions of one day check that it is open: they conflict on a shared item


class AuditAct(StrEnum):
    """What was done."""

    CREATE = "create"
    UPDATE = "update"
    PAUSE = "pause"
    RESUME = "resume"
    DELETE = "delete"
    RETAG = "retag"
    COMPLETE = "complete"  # by the system: the expression has no further fire
    RETIRE = "retire"  # by the system: deleted a retention ago, so that only the numbering is kept
    SKIP = "skip"
    TRIGGER = "trigger"
    CANCEL = "cancel"
    RETRY = "retry"
    SIGNAL = "signal"
    LINK = "signal-link"  # a link was made that answers a run
    REVOKE_LINK = "revoke-link"
    RESCHEDULE = "reschedule"
    REQUEUE = "requeue"
    REPLAY = "replay"
    REDRIVE = "redrive"
    PURGE = "purge"
    RESEND = "resend"  # asked for: waiting runs are sent to the work queues again
    BACKFILL = "backfill"
    PAUSE_BACKFILL = "pause-backfill"
    RESUME_BACKFILL = "resume-backfill"
    CANCEL_BACKFILL = "cancel-backfill"
    FREEZE = "freeze"
    THAW = "thaw"
    CREATE_TENANT = "create-tenant"
    SET_TENANT = "set-tenant"
    SUSPEND_TENANT = "suspend-tenant"
    RESUME_TENANT = "resume-tenant"
    GRANT = "grant"
    REVOKE = "revoke"
    DENY = "deny"  # refused: the caller has no grant; a sample
    ERASE_TENANT = "erase-tenant"  # the tenant: the beginning and the end of its erasure
    CREATE_KEY = "create-key"
    REVOKE_KEY = "revoke-key"
    SET_SECRET = "set-secret"  # noqa: S105 (asked for: the entry is written before Parameter Store is)
    DELETE_SECRET = "delete-secret"  # noqa: S105 (likewise)
    RESET_BREAKER = "reset-breaker"
    SET_VERSION = "set-version"  # an application version became the latest
    RETIRE_VERSION = "retire-version"
    RESTORE = (
        "restore"  # tables that were restored to an earlier time: the installation, and each schedule that begins anew
    )
    REASSIGN = "reassign"  # a run to another application version
    DUMP = "dump"  # asked for: everything of a tenant was written to a file
    LOAD = "load"  # the file of a dump, and each thing that came from it


AuditActWord = (
    AuditAct
    | Literal[
        "create",
        "update",
        "pause",
        "resume",
        "delete",
        "retag",
        "complete",
        "retire",
        "skip",
        "trigger",
        "cancel",
        "retry",
        "signal",
        "signal-link",
        "revoke-link",
        "reschedule",
        "requeue",
        "replay",
        "redrive",
        "purge",
        "resend",
        "backfill",
        "pause-backfill",
        "resume-backfill",
        "cancel-backfill",
        "freeze",
        "thaw",
        "create-tenant",
        "set-tenant",
        "suspend-tenant",
        "resume-tenant",
        "grant",
        "revoke",
        "deny",
        "erase-tenant",
        "create-key",
        "revoke-key",
        "set-secret",
        "delete-secret",
        "reset-breaker",
        "set-version",
        "retire-version",
        "restore",
        "reassign",
        "dump",
        "load",
    ]
)


@value(kw_only=True)
class AuditEntryRow:
    """One act on one object."""

    tenant: str  # whose
    at: int  # UTC ms
    id: str  # hexadecimal; its first six digits choose the gate
    call: str  # id of the call: the acts of a bulk call share it
    act: AuditAct
    target: str  # "tenant/name" of a schedule, a run's id, "tenant/name#backfill/id", or the tenant
    actor: str  # "app:…" as an application claims it, "iam:…", "system:<role>"
    identity: str | None = (
        None  # the caller's IAM identity, beside an actor that is claimed; None: the actor is it, or a role
    )
    via: Via
    before: int | None = None  # number of the schedule's revision before the act
    after: int | None = None  # and after it
    version: int | None = None  # of the schedule's head after the act
    reason: str | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)  # JSON-able: what else tells the act
    salt: str  # random text, so that nobody finds an erased entry by its digest

    @property
    def day(self) -> int:
        """Days since 1970, UTC."""
        return self.at // DAY

    @property
    def schedule(self) -> str | None:
        """Name of the schedule that the act is about."""
        name = self.target.partition("#")[0].partition("/")[2]
        return name if name and not name.startswith("~") else None

    @property
    def key(self) -> str:
        """Sorts by time."""
        return f"{stamp(self.at)}#{self.id}"

    @property
    def gate(self) -> int:
        return int(self.id[:6], 16) % GATES


def date_of(day: int) -> str:
    """A day (since 1970, UTC) as in 2026-11-22."""
    return from_ms(day * DAY).date().isoformat()


def closes_at(day: int) -> int:
    """When (UTC ms) a day may be closed."""
    return (day + 1) * DAY + LATE


# Digests.


def digest_of(row: Mapping[str, Any]) -> str:
    """The digest of a stored entry: of all its attributes but the digest itself."""
    covered = {name: value for name, value in row.items() if name != "digest"}
    return _hash(json.dumps(covered, sort_keys=True, separators=(",", ":"), ensure_ascii=False))


def root_of(digests: Iterable[str]) -> str:
    """The digest of a day: of its entries' digests, in the order of their keys."""
    return _hash("\n".join(digests))


@value(kw_only=True)
class DayClose:
    """The close of one tenant's day. Closes are numbered and chained in the order in which they were made."""

    tenant: str
    number: int  # 1, 2, 3 …
    day: int  # days since 1970, UTC
    entries: int  # of the day
    root: str  # digest of the entries' digests
    previous: str  # digest of the close before; "" for the first
    closed_at: int  # UTC ms

    @property
    def digest(self) -> str:
        return _hash(json.dumps(self.document(), sort_keys=True, separators=(",", ":")))

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return vars(self) | {"day": date_of(self.day)}


def anchor_key(tenant: str, number: int) -> str:
    """The object of a close in the archive's bucket."""
    return f"{anchors_of(tenant)}{number:08d}.json.gz"


def anchors_of(tenant: str) -> str:
    """What the keys of a tenant's closes in the bucket begin with."""
    return f"{ANCHORS}{tenant}/"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
