"""Who acts on schedules and runs: the way by which the act comes, its actor and reason, and what the caller may do."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from quarterjack.domain.names import is_text
from quarterjack.domain.tenants.profile import Grant
from quarterjack.errors import InvalidInput
from quarterjack.values import value

MAX_ACTOR = 256  # characters
MAX_REASON = 1_000  # characters
CLAIMED = "app:"  # an actor that an application claims
LINKED = "link:"  # somebody who has answered by a link, as its maker called them
RESERVED = (
    "iam:",
    "key:",
    "link:",
    "oidc:",
    "system:",
)  # what Quarterjack itself has found out; an application cannot claim it
UNKNOWN_IDENTITY = "iam:unknown"  # begins the identity of a process that STS has not told


class Via(StrEnum):
    """The way by which an act came."""

    SDK = "sdk"
    CLI = "cli"
    APPLY = "apply"  # `quarterjack apply`, or carry_out()
    API = "api"
    CONSOLE = "console"
    SYSTEM = "system"  # a role of the installation, by itself


ViaWord = Via | Literal["sdk", "cli", "apply", "api", "console", "system"]


@value(kw_only=True)
class AccessScope:
    """What a caller may do who brings that along: an API key."""

    tenant: str
    grant: Grant


@value(kw_only=True)
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
