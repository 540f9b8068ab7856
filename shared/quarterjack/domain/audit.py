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
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from quarterjack.domain.names import is_text
from quarterjack.domain.tenants.profile import Grant
from quarterjack.domain.times import DAY, HOUR, from_ms, stamp
from quarterjack.errors import InvalidInput

MAX_ACTOR = 256  # characters
MAX_REASON = 1_000  # characters
CLAIMED = "app:"  # an actor that an application claims
RESERVED = ("iam:", "key:", "oidc:", "system:")  # what Quarterjack itself has found out; an application cannot claim it
UNKNOWN_IDENTITY = "iam:unknown"  # begins the identity of a process that STS has not told
LATE = HOUR  # ms after its end at which a day closes: a stalled process may still write its entry until then
ANCHORS = "audit/"  # the keys of closes in the archive's bucket begin so
GATES = 16  # items by which the transactions of one day check that it is open: they conflict on a shared item


class Via(StrEnum):
    """The way by which an act came."""

    SDK = "sdk"
    CLI = "cli"
    APPLY = "apply"  # `quarterjack apply`, or carry_out()
    API = "api"
    CONSOLE = "console"
    SYSTEM = "system"  # a role of the installation, by itself


ViaWord = Via | Literal["sdk", "cli", "apply", "api", "console", "system"]


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
    RESCHEDULE = "reschedule"
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
        "reschedule",
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
    ]
)


@dataclass(frozen=True, kw_only=True)
class AccessScope:
    """What a caller may do who brings that along: an API key."""

    tenant: str
    grant: Grant


@dataclass(frozen=True, kw_only=True)
class Caller:
    """Who acts, as far as the caller says so."""

    actor: str | None = None  # claimed by an application, or a role; None: the IAM identity alone
    via: Via = Via.SDK
    reason: str | None = None  # of what it does
    call: str | None = None  # id that all acts of one call share; None: each act has its own
    is_remote: bool = False  # known by the API alone: without any grant there, it may do nothing
    scope: AccessScope | None = None  # what it may do, whatever grants there are; None: the grants say it

    @property
    def is_system(self) -> bool:
        return self.via is Via.SYSTEM


def role(name: str) -> Caller:
    """A role of the installation as the one who acts."""
    return Caller(actor=f"system:{name}", via=Via.SYSTEM)


def claimed_actor(actor: object, field: str = "actor") -> str | None:
    """The actor that an application claims, as it is stored: ``app:…``. Raises InvalidInput."""
    if actor is None:
        return None
    text = actor.removeprefix(CLAIMED) if isinstance(actor, str) else ""
    limit = MAX_ACTOR - len(CLAIMED)
    if not text or not is_text(text, limit) or not text.isprintable() or text != text.strip():
        remedy = f"use 1 to {limit} printable characters, e.g. 'alice@acme'"
        raise InvalidInput(field, actor, "is not the name of an actor", remedy)
    if text.startswith(RESERVED):
        remedy = f"leave the prefix out: what an application says is stored as {CLAIMED}…"
        raise InvalidInput(field, actor, "begins like an identity that Quarterjack has checked", remedy)
    return CLAIMED + text


def checked_actor_filter(actor: object) -> str:
    """The actor of the entries that are looked for, as it was claimed or as an entry shows it. Raises InvalidInput."""
    if not actor or not is_text(actor, MAX_ACTOR):
        remedy = f"use 1 to {MAX_ACTOR} characters, e.g. 'alice@acme', or leave it out for all"
        raise InvalidInput("actor", actor, "is not the name of an actor", remedy)
    return str(actor)


def checked_reason(reason: object, field: str = "reason") -> str | None:
    """Why something is done. Raises InvalidInput."""
    if reason is not None and not is_text(reason, MAX_REASON):
        raise InvalidInput(
            field, reason, "is not a text of fitting length", f"use a str of at most {MAX_REASON:,} characters"
        )
    return None if reason is None else str(reason)


def checked_via(via: object) -> Via:
    """The way by which an application's acts come. Raises InvalidInput."""
    ways = [way for way in Via if way is not Via.SYSTEM]
    if via not in ways:
        raise InvalidInput("via", via, "is not known", f"use one of {', '.join(ways)}")
    return Via(str(via))


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
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
