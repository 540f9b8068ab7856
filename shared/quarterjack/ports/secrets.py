"""Secrets of tenants: each under the path of its tenant. Who names a secret never says whose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from quarterjack.domain.names import SHORTEST_SECRET, check_secret, is_text, secrets_of
from quarterjack.errors import InvalidInput, Misconfigured

LARGEST = 4_096  # bytes: of a standard parameter of SSM, which is free


@dataclass(frozen=True, kw_only=True)
class StoredSecret:
    """A secret without its value."""

    name: str
    changed_at: datetime | None
    version: int  # 1 for the first value


class Secrets(Protocol):
    """The secrets of all tenants of an installation. Every name is checked. Each method raises InvalidInput, Misconfigured, Unavailable."""

    def get(self, tenant: str, name: str) -> str:
        """The value. Raises Misconfigured, with the parameter and the permission that it takes, if there is none."""

    def put(self, tenant: str, name: str, value: str) -> None:
        """Store a value, in place of the present one if there is one."""

    def delete(self, tenant: str, name: str) -> bool:
        """Remove it; False if there was none."""

    def list(self, tenant: str) -> Sequence[StoredSecret]:
        """The secrets of a tenant, by name."""


def place_of(prefix: str, tenant: str, name: str) -> str:
    """The name of its parameter. Raises InvalidInput."""
    return f"{secrets_of(prefix, tenant)}{check_secret(name)}"


def no_secret(place: str, tenant: str, name: str) -> Misconfigured:
    """There is no such parameter."""
    remedy = f"quarterjack --tenant {tenant} secrets set {name}"
    return Misconfigured(f"tenant {tenant!r} has no secret {name!r}: there is no parameter {place}; store it: {remedy}")


def usable(text: str, place: str) -> str:
    """A stored value as it is used. An empty one would be no secret, and a short one could not be masked. Raises Misconfigured."""
    value = text.strip()
    if len(value) < SHORTEST_SECRET:
        raise Misconfigured(
            f"the parameter {place} is shorter than {SHORTEST_SECRET} characters, so that it could not be masked; store another"
        )
    return value


def storable_value(value: str) -> str:
    """A new value. Raises InvalidInput, which does not show it."""
    text = value.strip()
    if len(text) < SHORTEST_SECRET or not is_text(text, LARGEST) or len(text.encode()) > LARGEST or "\0" in text:
        problem = f"does not have {SHORTEST_SECRET} characters to {LARGEST:,} bytes of text"
        raise InvalidInput("value", "…", problem, "store another one; larger ones go into Secrets Manager")
    return text
