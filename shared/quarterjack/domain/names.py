"""Checks of what users give: names, words, numbers; and the keys that are made of names.

``#`` and ``~`` are in no name, so they are the separators: ``tenant/name`` owns a schedule's runs, ``tenant/~id`` a one-off's.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar
from zlib import crc32

from quarterjack.domain.times import STAMP_DIGITS, stamp
from quarterjack.errors import InvalidInput

_TENANT = re.compile(r"[A-Za-z0-9._-]{1,64}")
_NAME = re.compile(r"[A-Za-z0-9._:@/-]{1,200}")
_SECRET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")  # no "/", which would lead to another tenant's
SHORTEST_SECRET = 4  # characters of a value: a shorter one occurs in texts by chance, so that it cannot be masked
_RUN_ID = re.compile(rf"({_TENANT.pattern}/~?{_NAME.pattern})#([A-Za-z0-9]{{1,64}}(?:~{_NAME.pattern})?)")
CALLBACK = "qjt_"  # begins the tokens that jobs hand to outside systems
_CHECKSUM = 4  # bytes of CRC-32: it finds each single wrong character, and two that were swapped
PIPELINE = "pipeline:"  # before a pipeline's name: the job of its runs
MAP = "map:"  # before a job's name: the job of a task that maps it over items
SHORTEST = 0.001  # seconds of a time limit
ONCE = "once"  # the fire key of a one-off: its id alone is the key, so that the same id with another time is a conflict
_Word = TypeVar("_Word", bound=StrEnum)


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
        """Whether it is the run of a fire: its key is the instant alone."""
        return len(self.key) == STAMP_DIGITS and self.key.isascii() and self.key.isdecimal()

    @property
    def instant(self) -> int | None:
        """UTC ms of the fire or the trigger; None for a one-off, whose row has it."""
        return int(self.key[:STAMP_DIGITS]) if self.key[:STAMP_DIGITS].isdecimal() else None

    @property
    def is_one_off(self) -> bool:
        return "/~" in self.owner  # "~" is in no name

    @property
    def schedule(self) -> str | None:
        """Name of its schedule; None for a one-off."""
        return None if self.is_one_off else self.owner.partition("/")[2]


def is_text(value: object, most: int) -> bool:
    """Whether it is text of at most ``most`` characters that can be stored: without unpaired surrogates."""
    if not isinstance(value, str) or len(value) > most:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def storable(text: str) -> str:
    """Text as a table takes it: the name of a file may hold bytes that are no text, and so may an error about it."""
    return text.encode("utf-8", "backslashreplace").decode()


def check_tenant(tenant: object, field: str = "tenant") -> str:
    """The tenant, if it is valid: 1 to 64 of ``A-Z a-z 0-9 . _ -``."""
    return _check(field, tenant, _TENANT, "use 1 to 64 characters of A-Z a-z 0-9 . _ -")


def check_name(name: object, field: str = "name") -> str:
    """A schedule's or job's name or an idempotency key: 1 to 200 of ``A-Z a-z 0-9 . _ : @ / -``."""
    return _check(field, name, _NAME, "use 1 to 200 characters of A-Z a-z 0-9 . _ : @ / -")


def check_secret(name: object, field: str = "name") -> str:
    """The name of a secret: 1 to 100 of ``A-Z a-z 0-9 . _ -``, of which the first is a letter or a digit. Raises InvalidInput."""
    remedy = "use 1 to 100 characters of A-Z a-z 0-9 . _ -, the first a letter or digit; whose it is, the run says"
    return _check(field, name, _SECRET, remedy)


def secrets_of(prefix: str, tenant: str) -> str:
    """Where the secrets of a tenant lie: the beginning of the names of their parameters, with a "/" at its end."""
    return f"{all_secrets(prefix)}{check_tenant(tenant)}/"


def all_secrets(prefix: str) -> str:
    """Where the secrets of all tenants of an installation lie."""
    return f"/{prefix}/tenants/"


def is_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def _check(field: str, value: object, alphabet: re.Pattern[str], remedy: str) -> str:
    if not isinstance(value, str) or not alphabet.fullmatch(value):
        raise InvalidInput(field, value, "is not a valid name", remedy)
    return value


def check_whole(field: str, value: object, least: int, most: int) -> int:
    """A whole number from ``least`` to ``most``. Raises InvalidInput."""
    if type(value) is not int or not least <= value <= most:
        raise InvalidInput(field, value, "is out of range", f"use a whole number from {least:,} to {most:,}")
    return value


def integral(value: Any) -> Any:
    """A whole number that JSON writes as 4.0 as 4, since JSON has one kind of number; anything else as it is."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def word(kind: type[_Word], field_name: str, value: str) -> _Word:
    """A member of an enum from a user's argument. Raises InvalidInput, which lists the members."""
    if isinstance(value, str) and value in kind.__members__.values():
        return kind(value)
    raise InvalidInput(field_name, value, "is not known", f"use one of {', '.join(kind)}")


def check_seconds(field_name: str, value: float | None, least: float = 0) -> float | None:
    """Seconds, or None. Raises InvalidInput."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= 86_400 * 14:
        raise InvalidInput(field_name, value, "is not a number of seconds", f"use {least:g} to 1,209,600 (14 days)")
    return value


def check_limit(field_name: str, value: float | None) -> float | None:
    """Seconds of a time limit, at least a millisecond: with 0 nothing would run. None: no limit. Raises InvalidInput."""
    try:
        return check_seconds(field_name, value, SHORTEST)
    except InvalidInput as problem:
        raise InvalidInput(field_name, value, problem.problem, f"{problem.remedy}, or None for no limit") from None


def check_flag(field: str, value: object) -> bool:
    """True or False. Raises InvalidInput for anything else, true as it may be."""
    if not isinstance(value, bool):
        raise InvalidInput(field, value, "is neither True nor False", "use True or False")
    return value


def schedule_owner(tenant: str, name: str) -> str:
    return f"{tenant}/{name}"


def fire_ref(owner: str, fire: int) -> RunRef:
    """The run of one fire (UTC ms) of a schedule."""
    return RunRef(owner, stamp(fire))


def aside_ref(owner: str, at: int, word: str) -> RunRef:
    """The key of a row among a schedule's runs that is not a fire, sorted by its time (UTC ms): a trigger's run, missed fires."""
    return RunRef(owner, f"{stamp(at)}~{word}")


def one_off_ref(tenant: str, run_id: str) -> RunRef:
    return RunRef(f"{tenant}/~{run_id}", ONCE)


def is_builtin(job: str) -> bool:
    """Whether this is the name of a job of the scheduler itself."""
    return job.startswith((PIPELINE, MAP))


def parse_run_id(run_id: object) -> RunRef:
    """The key in a run id as the SDK returns it. Raises InvalidInput."""
    found = _RUN_ID.fullmatch(run_id) if isinstance(run_id, str) else None
    if found is None:
        remedy = "pass an id as submit() or list_runs() returned it"
        raise InvalidInput("run_id", run_id, "is not the id of a run", remedy)
    return RunRef(found[1], found[2])


def callback_token(run_id: str, name: str) -> str:
    """The text by which an outside system names a run and a signal of it. Its last four bytes are a checksum of the others."""
    text = f"{run_id}\n{name}".encode()
    return CALLBACK + urlsafe_b64encode(text + _checksum(text)).decode().rstrip("=")


def _checksum(text: bytes) -> bytes:
    return crc32(text).to_bytes(_CHECKSUM)


def parse_callback_token(token: object) -> tuple[str, str]:
    """Run id and signal of a callback token. Raises InvalidInput, also for a token of which a character is wrong."""
    text, problem = token.removeprefix(CALLBACK) if isinstance(token, str) else "", "is not a callback token"
    try:
        raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        if CALLBACK + text == token and len(raw) > _CHECKSUM and _checksum(raw[:-_CHECKSUM]) != raw[-_CHECKSUM:]:
            problem = "does not fit its checksum: a character of it is wrong or missing"
        run_id, _, name = raw[:-_CHECKSUM].decode().partition("\n")
        parse_run_id(run_id)
        if callback_token(run_id, check_name(name)) == token:
            return run_id, name
    except ValueError:  # InvalidInput is one, too
        pass
    raise InvalidInput("token", token, problem, "pass what ctx.callback_token(name) returned, the whole of it")


def few(names: Sequence[str], most: int) -> str:
    """The first ``most`` of some names, for a text; an ellipsis stands for the others."""
    return ", ".join([*names[:most], *(["…"] if len(names) > most else [])])
