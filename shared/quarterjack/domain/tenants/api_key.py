"""API keys: what a key looks like, what is stored of it, and what it may do. Pure.

    qj_<tenant>_<name>.<slot>_<secret>      e.g. qj_acme_crm.1_7sUVq…

The prefix lets scanners of source code find keys. Only the SHA-256 of the whole text is stored: 256 random bits need no slow hash.
A key acts as the principal ``key:<name>``. A name has two slots, so that a key can be replaced without a gap, and no more than two
are ever valid.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import string
from dataclasses import dataclass

from quarterjack.domain.tenants.profile import Grant
from quarterjack.errors import InvalidInput

SLOTS = (1, 2)  # of a name: the key that is replaced, and the one that replaces it
PREFIX = "qj_"
ALPHABET = string.ascii_letters + string.digits
LENGTH = 43  # characters of a secret: 256 bits
_KEY = re.compile(rf"{PREFIX}([A-Za-z0-9._-]{{1,64}})_([A-Za-z0-9.@-]{{1,64}})\.([12])_([A-Za-z0-9]{{{LENGTH}}})")
_NAME = re.compile(r"[A-Za-z0-9.@-]{1,64}")


@dataclass(frozen=True, kw_only=True)
class ApiKey:
    """What is stored of a key."""

    tenant: str
    name: str  # of who uses it: keys of one name are one principal
    slot: int  # one of SLOTS
    digest: str  # hexadecimal SHA-256 of the key's text
    can: tuple[str, ...]  # names of roles and of verbs
    jobs: tuple[str, ...]  # names and patterns of the jobs that it is limited to
    created_at: int  # UTC ms
    created_by: str  # actor
    expires_at: int | None = None  # UTC ms; None: it does not expire
    used_on: int | None = None  # days since 1970 (UTC) of its last use; None: it has not been used

    @property
    def id(self) -> str:
        """As listings show it."""
        return f"{self.name}.{self.slot}"

    @property
    def principal(self) -> str:
        return f"key:{self.name}"

    @property
    def scope(self) -> Grant:
        """What the key may do, and nothing else, whatever the grants of its tenant say."""
        return Grant(to=self.principal, can=self.can, jobs=self.jobs)

    def is_valid(self, now: int) -> bool:
        return self.expires_at is None or now < self.expires_at

    def fits(self, text: str) -> bool:
        """Whether a text is this key. The time tells nothing of how much of it is right."""
        return hmac.compare_digest(self.digest, digest_of_key(text))


def key_text(tenant: str, name: str, slot: int, secret: str) -> str:
    """The text of a key. It is in no log and no table: whoever made the key is the only one who sees it."""
    return f"{PREFIX}{tenant}_{name}.{slot}_{secret}"


def parse_key(text: str) -> tuple[str, str, int] | None:
    """Tenant, name and slot of a key's text; None for a text that is none."""
    found = _KEY.fullmatch(text)
    return None if found is None else (found[1], found[2], int(found[3]))


def digest_of_key(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def check_key_name(name: object) -> str:
    """The name of who uses a key. Raises InvalidInput."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidInput("name", name, "is not the name of a key", "use 1 to 64 characters of A-Z a-z 0-9 . @ -")
    return name
