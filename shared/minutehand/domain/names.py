"""Names and keys: what a tenant, a schedule, a job and an idempotency key may be called, and how keys are made of them.

``#`` and ``~`` are in no name, so they are free as separators: ``tenant/name`` owns a schedule's runs, ``tenant/~id`` a one-off's.
"""

from __future__ import annotations

import re
import zlib
from typing import NamedTuple

from minutehand.domain.times import STAMP_DIGITS, stamp
from minutehand.errors import InvalidInput

_TENANT = re.compile(r"[A-Za-z0-9._-]{1,64}")
_NAME = re.compile(r"[A-Za-z0-9._:@/-]{1,200}")
_KEY = re.compile(r"[A-Za-z0-9]{1,64}(~[A-Za-z0-9._:@/-]{1,200})?")
ONCE = (
    "once"  # the fire key of a one-off: its id alone makes it unique, so that the same id with another time is noticed
)


class RunRef(NamedTuple):
    """The deterministic key of a run: its owner and its fire key. As text (``owner#key``) it is the run's id."""

    owner: str
    key: str

    def __str__(self) -> str:
        return f"{self.owner}#{self.key}"

    @property
    def tenant(self) -> str:
        return self.owner.partition("/")[0]

    @property
    def is_fire(self) -> bool:
        """Whether it is the run of a fire; its key is then the instant and nothing else."""
        return len(self.key) == STAMP_DIGITS and self.key.isdigit()

    @property
    def is_one_off(self) -> bool:
        return self.owner.partition("/")[2].startswith("~")


def is_text(value: object, most: int) -> bool:
    """Whether it is text of at most so many characters that a table takes: half a surrogate pair is none."""
    if not isinstance(value, str) or len(value) > most:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_tenant(tenant: object) -> str:
    """The tenant, if it is one: 1 to 64 of ``A-Z a-z 0-9 . _ -``."""
    return _check("tenant", tenant, _TENANT, "use 1 to 64 characters of A-Z a-z 0-9 . _ -")


def check_name(name: object, field: str = "name") -> str:
    """A schedule's or job's name or an idempotency key: 1 to 200 of ``A-Z a-z 0-9 . _ : @ / -``."""
    return _check(field, name, _NAME, "use 1 to 200 characters of A-Z a-z 0-9 . _ : @ / -")


def _check(field: str, value: object, alphabet: re.Pattern[str], remedy: str) -> str:
    if not isinstance(value, str) or not alphabet.fullmatch(value):
        raise InvalidInput(field, value, "is not a valid name", remedy)
    return value


def schedule_owner(tenant: str, name: str) -> str:
    return f"{tenant}/{name}"


def fire_ref(owner: str, fire: int) -> RunRef:
    """The run of one fire (UTC ms) of a schedule."""
    return RunRef(owner, stamp(fire))


def aside_ref(owner: str, at: int, word: str) -> RunRef:
    """A row among a schedule's runs that is no fire's, sorted by its time (UTC ms): a trigger's run, a gap."""
    return RunRef(owner, f"{stamp(at)}~{word}")


def one_off_ref(tenant: str, run_id: str) -> RunRef:
    return RunRef(f"{tenant}/~{run_id}", ONCE)


def parse_run_id(run_id: object) -> RunRef:
    """The key behind a run id as the SDK returns it; anything else is refused."""
    owner, separator, key = run_id.partition("#") if isinstance(run_id, str) else ("", "", "")
    tenant, slash, name = owner.partition("/")
    shaped = (
        separator
        and slash
        and _KEY.fullmatch(key)
        and _TENANT.fullmatch(tenant)
        and _NAME.fullmatch(name.removeprefix("~"))
    )
    if not shaped:
        raise InvalidInput(
            "run_id", run_id, "is not the id of a run", "pass an id as submit() or list_runs() returned it"
        )
    return RunRef(owner, key)


def shard_of(owner: str, shards: int) -> int:
    """The shard of an owner: stable across processes and releases, even over shards."""
    return zlib.crc32(owner.encode()) % shards


def stripe_of(run: RunRef, stripes: int) -> int:
    """The stripe of its queue that a run's messages travel through: the same for all of them, whoever sends them."""
    return zlib.crc32(str(run).encode()) % stripes if stripes > 1 else 0
